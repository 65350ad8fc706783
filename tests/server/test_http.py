"""Everything around the API: health, metrics, keys, limits, clients that leave or misbehave, signals."""
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from serving import BRISK, ENGINE, MODEL

PROMPT = {"model": MODEL, "prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}
LONG = {**PROMPT, "max_tokens": 1900}


def head(path, body, *more):
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def open_stream(server, body):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    data = json.dumps(body).encode()
    s.sendall(head("/v1/completions", data) + data)
    return s


def test_health_and_version(server):
    for path in ("/health", "/health/live", "/health/ready"):
        assert server.request("GET", path)[0] == 200
    assert "version" in json.loads(server.request("GET", "/version")[2])
    assert server.request("HEAD", "/health")[0] == 200


def test_tokenize_and_back(server):
    status, got = server.post("/tokenize", {"model": MODEL, "prompt": "Hello, world ü", "return_token_strs": True})
    assert status == 200 and got["count"] == len(got["tokens"]) == len(got["token_strs"]) and got["max_model_len"] == 2048
    assert server.post("/detokenize", {"tokens": got["tokens"]}) == (200, {"prompt": "Hello, world ü"})
    assert server.post("/detokenize", {"tokens": [-1]})[0] == 400
    assert server.post("/detokenize", {"tokens": [10**6]})[1]["error"]["param"] == "tokens"


def test_metrics(server):
    before = server.metric("brisk:generation_tokens_total")
    server.post("/v1/completions", {**PROMPT, "max_tokens": 5})
    server.expect_metric("brisk:generation_tokens_total", before + 5)
    text = server.request("GET", "/metrics")[2].decode()
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds"):
        assert f'brisk:{name}_bucket{{model_name="{MODEL}",le="0.0001"}}' in text and f"brisk:{name}_count" in text
    for name in ("num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total", "request_success_total"):
        assert f"\nbrisk:{name}{{" in text


def test_request_id_comes_back(server):
    assert server.request("GET", "/health", headers={"X-Request-Id": "abc-1"})[1]["X-Request-Id"] == "abc-1"
    assert len(server.request("GET", "/health")[1]["X-Request-Id"]) >= 16
    for request in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 40000 + b"\r\n\r\n"):
        assert len(server.raw(request).split(b"X-Request-Id: ")[1].split(b"\r\n")[0]) >= 16


def test_forms_of_a_target(server):
    for target in ("/health?a=b", "http://x/health", "http://x:80/health?a=http://y/version"):
        assert server.raw(f"GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n".encode()).startswith(b"HTTP/1.1 200 ")
    assert server.raw(b"GET http://x HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 404 ")


def test_errors_have_openais_form(server):
    for method, path, body, status in [("GET", "/nothing", None, 404), ("GET", "/v1/completions", None, 405), ("POST", "/v1/models", {}, 405)]:
        got, _, data = server.request(method, path, body)
        assert got == status and set(json.loads(data)["error"]) == {"message", "type", "param", "code"}
    assert server.request("POST", "/v1/completions", b"{}", {"Content-Type": "text/plain"})[0] == 415


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": "smollm2"} x', b'{"prompt": NaN}', b'{"prompt": "\xff"}',
    b'{"prompt": ' + b"[" * 100 + b"]" * 100 + b"}", b'{"prompt": 1e999}', b'{"prompt": []}', b'{"prompt": [[]]}', b'{"prompt": ""}',
    b'{"prompt": "a", "prompt": "b"}', b'{"prompt": "a", "metadata": {"x": 1, "x": 2}}', b'{"prompt": [1, "a"]}', b'{"prompt": {"a": 1}}', b'{"prompt": "a", "seed": 99999999999999999999999999}',
])
def test_malformed_bodies(server, body):
    status, _, data = server.request("POST", "/v1/completions", body)
    assert status == 400 and json.loads(data)["error"]["message"]


def test_malformed_http(server):
    assert server.raw(b"nonsense\r\n\r\n", half_close=True).startswith(b"HTTP/1.1 400 ")
    assert server.raw(b"GET / HTTP/1.1\r\nX: " + b"a" * 40000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    assert server.raw(head("/v1/completions", b"", "Content-Length: 5"), half_close=True).startswith(b"HTTP/1.1 400 ")
    assert server.request("GET", "/health")[0] == 200


def chunked(*more):
    lines = ["POST /tokenize HTTP/1.1", "Host: x", "Content-Type: application/json", "Connection: close", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def test_bodies_that_end_in_two_ways_are_refused(server):
    hidden = b"GET /version HTTP/1.1\r\n\r\n"
    for coding in ("gzip", "gzip, chunked", "chunked, chunked", "identity"):
        out = server.raw(chunked(f"Transfer-Encoding: {coding}") + b"2\r\n{}\r\n0\r\n\r\n" + hidden)
        assert out[:12] in (b"HTTP/1.1 501", b"HTTP/1.1 400") and out.count(b"HTTP/1.1 ") == 1, (coding, out)
    out = server.raw(chunked("Transfer-Encoding: chunked", "Content-Length: 4") + b"0\r\n\r\n" + hidden)
    assert out.startswith(b"HTTP/1.1 400 ") and out.count(b"HTTP/1.1 ") == 1


def memory(server, what="VmRSS"):
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(what)) * 1024


def send_all_it_takes(server, *pieces):
    """The answer; the server may end the connection before it has taken everything."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        out = b""
        try:
            for piece in pieces:
                s.sendall(piece)
        except OSError:
            pass
        try:
            while piece := s.recv(65536):
                out += piece
        except OSError:
            pass
        return out


def test_what_stands_around_chunks_is_bounded(server):
    begin, body = chunked("Transfer-Encoding: chunked"), b'{"prompt": "hello"}'
    one = b"%x\r\n%s\r\n" % (len(body), body)
    assert send_all_it_takes(server, begin + one + b"0\r\nA: b\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    by_byte = b"".join(b"1;x=y\r\n" + bytes([c]) + b"\r\n" for c in body)
    assert send_all_it_takes(server, begin + by_byte + b"0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    before = memory(server)
    assert b" 431 " in send_all_it_takes(server, begin + one + b"0\r\n", *[b"A: b\r\n" * 10000] * 100)[:20]
    assert send_all_it_takes(server, begin + one + b"0\r\nA: ", *[b"a" * 100000] * 100)[9:12] in (b"400", b"431", b"")
    assert send_all_it_takes(server, begin + b"1;", *[b"a" * 100000] * 100)[9:12] in (b"400", b"431", b"")
    assert memory(server) < before + (16 << 20)


def test_a_text_too_long_is_refused_at_once(server):
    begin = time.monotonic()
    for path, body in [("/v1/completions", {"prompt": " " * 8_000_000}), ("/v1/completions", {"prompt": ["a", "a" * 8_000_000]}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 8_000_000}]}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a" * 4_000_000}] * 2}]})]:
        status, answer = server.post(path, body)
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded" and " 2048 tokens" in answer["error"]["message"]
    assert time.monotonic() - begin < 5
    assert server.post("/tokenize", {"prompt": "a b " * 50_000})[1]["count"] > 2048  # a count is no prompt


def test_keep_alive_and_pipelining(server):
    body = json.dumps({**PROMPT, "max_tokens": 2}).encode()
    out = server.raw((head("/v1/completions", body) + body) * 2 + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert out.count(b"HTTP/1.1 200 OK") == 3


def test_expect_continue(server):
    body = json.dumps({**PROMPT, "max_tokens": 2}).encode()
    out = server.raw(head("/v1/completions", body, "Expect: 100-continue", "Connection: close") + body)
    assert out.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_place(server, stream):
    s = open_stream(server, {**LONG, "stream": stream})
    server.expect_metric("brisk:num_requests_running", 1)
    before = server.metric("brisk:request_success_total")
    s.close()
    server.expect_metric("brisk:num_requests_running", 0, seconds=2)
    server.expect_metric("brisk:request_success_total", before + 1)  # as "abort"


def test_limits(start):
    server = start("--max-body", "4K", "--max-connections", "4", "--client-timeout", "1")
    big = b'{"prompt": "' + b"a" * 5000 + b'"}'
    status, _, data = server.request("POST", "/v1/completions", big)
    assert status == 413 and b"4096" in data
    chunked = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert server.raw(chunked + b"1388\r\n" + big[:5000] + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    begin = time.monotonic()
    assert server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{") == b""
    assert time.monotonic() - begin < 5
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
    time.sleep(0.2)
    assert server.raw(b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503 ")
    for s in idle:
        s.close()


def test_keys(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfirst-key-1\nsecond-key-2\n")
    server = start("--api-key-file", str(keys), env={"BRISK_API_KEY": "third-key-3"})
    ask = lambda path, key: server.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})[0]
    assert [ask(p, None) for p in ("/health", "/health/ready", "/version")] == [200] * 3
    assert [ask(p, None) for p in ("/v1/models", "/metrics", "/nothing")] == [401] * 3
    assert [ask("/v1/models", k) for k in ("first-key-1", "second-key-2", "third-key-3")] == [200] * 3
    assert [ask("/v1/models", k) for k in ("first-key-", "first-key-11", "# ours", "")] == [401] * 4
    assert server.post("/v1/completions", PROMPT)[1]["error"]["code"] == "invalid_api_key"
    open_metrics = start("--api-key-file", str(keys), "--open-metrics")
    assert open_metrics.request("GET", "/metrics")[0] == 200


def refused(*flags, env=None):
    done = subprocess.run([BRISK, "serve", ENGINE, *flags], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
    return done.returncode, done.stderr


def test_other_hosts_need_a_key(tmp_path):
    code, said = refused("--host", "0.0.0.0", "--http-port", "0")
    assert code == 2 and "--insecure" in said
    (tmp_path / "keys").write_text("short\n")
    code, said = refused("--api-key-file", str(tmp_path / "keys"))
    assert code == 2 and "line 1" in said and "short" not in said


def test_port_in_use(server):
    code, said = refused("--http-port", str(server.port))
    assert code == 1 and str(server.port) in said


def test_sigterm_with_many_streams(start):
    server = start()
    streams = [open_stream(server, {**PROMPT, "prompt": f"Number {i}", "max_tokens": 24, "stream": True}) for i in range(64)]
    assert streams[-1].recv(10)
    server.process.send_signal(signal.SIGTERM)
    for s in streams:
        rest = b""
        while piece := s.recv(65536):
            rest += piece
        assert b'"finish_reason":"length"' in rest and b"data: [DONE]" in rest
    assert server.process.wait(20) == 0


def test_many_clients_vanish(server):
    def vanish(i):
        s = open_stream(server, {**LONG, "prompt": f"Tell {i}", "stream": True})
        if i % 2:
            s.recv(100)
        s.close()

    threads = [threading.Thread(target=vanish, args=(i,)) for i in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    status, answer = server.post("/v1/completions", {**PROMPT, "max_tokens": 2})
    assert status == 200 and answer["usage"]["completion_tokens"] == 2
    server.expect_metric("brisk:num_requests_running", 0)
    server.expect_metric("brisk:num_requests_waiting", 0)
    assert server.metric("brisk:kv_cache_usage_perc") == 0


def test_half_open_clients_do_not_hurt_others(server):
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    for i, s in enumerate(clients):
        s.sendall([b"", b"GET / HT", head("/tokenize", b" " * 100) + b"{"][i % 3])
    assert server.post("/v1/completions", {**PROMPT, "max_tokens": 2})[0] == 200
    for s in clients:
        s.close()


def test_out_of_descriptors(start):
    server = start(nofile=40)
    clients = []
    for _ in range(80):
        clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))  # the kernel's queue takes the rest
    body = json.dumps({**PROMPT, "max_tokens": 2}).encode()
    clients[0].sendall(head("/v1/completions", body) + body)
    assert clients[0].recv(65536).startswith(b"HTTP/1.1 200 ")
    for s in clients:
        s.close()
    assert server.request("GET", "/health")[0] == 200
    assert server.stop() == 0


def test_sigterm_lets_answers_end(start):
    server = start()
    s = open_stream(server, {**PROMPT, "max_tokens": 300, "stream": True})
    assert s.recv(10)
    server.process.send_signal(signal.SIGTERM)
    for _ in range(100):
        status, headers, _ = server.request("GET", "/health/ready")
        if status == 503:
            break
        time.sleep(0.01)
    assert status == 503 and server.request("GET", "/health/live")[0] == 200
    status, headers, data = server.request("POST", "/v1/completions", PROMPT)
    assert status == 503 and headers["Retry-After"] and json.loads(data)["error"]["code"] == "draining"
    rest = b""
    while piece := s.recv(65536):
        rest += piece
    assert b'"finish_reason":"length"' in rest and b"data: [DONE]" in rest
    assert server.process.wait(20) == 0


def test_drain_has_an_end(start):
    server = start("--drain-timeout", "0.2")
    s = open_stream(server, {**LONG, "stream": True})
    assert s.recv(10)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    rest = b""
    while piece := s.recv(65536):
        rest += piece
    assert b'"error"' in rest
    assert server.process.wait(20) == 0 and time.monotonic() - begin < 10


def test_second_signal_ends_at_once(start):
    server = start()
    s = open_stream(server, {**LONG, "stream": True})
    assert s.recv(10)
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(5) == 1


def test_a_reader_that_stops_is_cut(start):
    server = start("--client-timeout", "1")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.connect(("127.0.0.1", server.port))
    body = json.dumps({**LONG, "prompt": [[k] for k in range(1000, 1032)], "stream": True, "logprobs": 20, "max_tokens": 400}).encode()
    s.sendall(head("/v1/completions", body) + body)
    server.expect_metric("brisk:num_requests_running", 32)
    server.expect_metric("brisk:request_success_total", 32, seconds=60)
    text = server.request("GET", "/metrics")[2].decode()
    assert f'brisk:request_success_total{{model_name="{MODEL}",finished_reason="abort"}} 32' in text
    s.close()


def test_hostile_clients_do_not_hurt_others(server):
    def vandal():
        for _ in range(20):
            s = open_stream(server, {**LONG, "stream": True})
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            s.close()  # a reset

    threads = [threading.Thread(target=vandal) for _ in range(4)]
    for t in threads:
        t.start()
    answers = [server.post("/v1/completions", {**PROMPT, "max_tokens": 4}) for _ in range(5)]
    for t in threads:
        t.join()
    assert all(status == 200 for status, _ in answers) and len({a["choices"][0]["text"] for _, a in answers}) == 1
    server.expect_metric("brisk:num_requests_running", 0)
    server.expect_metric("brisk:num_requests_waiting", 0)
