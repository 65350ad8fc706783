"""A real `brisk serve` process on the SmolLM2 engine, and ways to talk to it."""
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRISK = os.environ.get("BRISK", str(ROOT / "build" / "bin" / "brisk"))
ENGINE = os.environ.get("BRISK_ENGINE", str(ROOT / "build" / "smollm2.engine"))
MODEL = "smollm2"


class Server:
    def __init__(self, *flags, engine=ENGINE, max_model_len=2048, env=None, nofile=None):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))) if nofile else None
        command = [BRISK, "serve", str(engine), "--http-port", "0", "--served-model-name", MODEL, "--max-model-len", str(max_model_len), *map(str, flags)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=limit, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        found = re.search(r"on http://[^ ]*:(\d+)$", line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"brisk serve said {line!r} and {self.process.stderr.read()!r}")
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request on a connection of its own; `body` is JSON, or bytes as they are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, response.headers, data

    def post(self, path, body, **headers):
        status, _, data = self.request("POST", path, body, headers)
        return status, json.loads(data)

    def metric(self, name):
        text = self.request("GET", "/metrics")[2].decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(re.escape(name) + r"[{ ]", line))

    def expect_metric(self, name, value, seconds=10):
        end = time.monotonic() + seconds
        while self.metric(name) != value:
            assert time.monotonic() < end, f"{name} is {self.metric(name)}, not {value} after {seconds} s"
            time.sleep(0.01)

    def raw(self, data, half_close=False):
        """All that comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            out = b""
            while piece := s.recv(65536):
                out += piece
            return out

    def stop(self, seconds=40):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def brisk_generate(*arguments):
    """The parsed output of `brisk generate --json`."""
    out = subprocess.run([BRISK, "generate", ENGINE, "--json", *arguments], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)
