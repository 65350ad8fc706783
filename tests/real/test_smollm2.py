"""The real SmolLM2-135M-Instruct through the command line, against goldens of transformers (tools/oracles/greedy.py)."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRISK = str(ROOT / "build" / "bin" / "brisk")
MODEL = str(ROOT / ".cache" / "SmolLM2-135M-Instruct.Q4_1.gguf")
GOLDEN = json.loads((ROOT / "tests" / "data" / "smollm2_greedy.json").read_text())["cases"]
TEXT = str(ROOT / "LICENSE")  # English of some 2,300 tokens that is always there


def brisk(*arguments, ok=True, **more):
    done = subprocess.run([BRISK, *map(str, arguments)], capture_output=True, text=True, timeout=300, **more)
    if ok:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def engines(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("engines"), {}

    def engine(precision):
        if precision not in made:
            made[precision] = str(folder / f"{precision}.engine")
            brisk("build", MODEL, "-o", made[precision], *([] if precision == "default" else ["--precision", precision]))
        return made[precision]

    return engine


def generate(engine, ids, n, *more):
    return json.loads(brisk("generate", engine, "--ids", ",".join(map(str, ids)), "-n", n, "--ignore-eos", "--json", *more).stdout)


def test_greedy_ids_equal_transformers(engines):
    """A difference is excused only where the oracle's two best logits lie within 1e-3."""
    for case in GOLDEN:
        got = generate(engines("fp32"), case["prompt"], len(case["ids"]))["ids"]
        first = next((i for i, (a, b) in enumerate(zip(got, case["ids"])) if a != b), None)
        assert len(got) == len(case["ids"])
        assert first is None or case["gaps"][first] < 1e-3, f"{case['name']}: differs at {first}"


@pytest.mark.parametrize("precision", ["default", "bf16", "int8", "int8w"])
def test_names_the_capital_of_france(engines, precision):
    done = brisk("generate", engines(precision), "--chat", "-p", "What is the capital of France?", "-n", 40)
    assert "Paris" in done.stdout


def test_one_thread_and_two_give_the_same_ids(engines):
    for precision in ("default", "int8", "bf16"):
        answers = {tuple(generate(engines(precision), GOLDEN[2]["prompt"], 48, "--threads", t)["ids"]) for t in (1, 2, 3)}
        assert len(answers) == 1
        chunks = {tuple(generate(engines(precision), GOLDEN[2]["prompt"], 48, "--max-batched-tokens", t)["ids"]) for t in (1, 7, 64)}
        assert chunks == answers


def test_seeded_sampling_repeats_and_stop_strings_end(engines):
    ids = GOLDEN[1]["prompt"]
    a, b, c = (generate(engines("default"), ids, 24, "--temp", "0.9", "--top-p", "0.95", "--seed", s)["ids"] for s in (7, 7, 8))
    assert a == b and a != c
    plain = json.loads(brisk("generate", engines("default"), "--chat", "-p", "Count from one to ten.", "-n", 60, "--json").stdout)
    stop = plain["text"][10:14]
    cut = json.loads(brisk("generate", engines("default"), "--chat", "-p", "Count from one to ten.", "-n", 60, "--json", "--stop", stop).stdout)
    assert cut["finish_reason"] == "stop" and cut["text"] == plain["text"][:plain["text"].index(stop)]


def test_logprobs_are_ordered_and_normalised(engines):
    answer = json.loads(brisk("generate", engines("fp32"), "--ids", "1,2,3", "-n", 4, "--json", "--logprobs", 5).stdout)
    for token in answer["logprobs"]:
        top = [t["logprob"] for t in token["top"]]
        assert top == sorted(top, reverse=True) and len(top) == 5 and max(top) <= 0
        assert token["logprob"] == top[0]  # greedy


def test_int8_keeps_the_perplexity(engines):
    """Weights were on a 4-bit grid once, so this guards the kernels, not the quantiser."""
    figures = json.loads(brisk("eval", engines("int8"), "--text", TEXT, "--against", engines("fp32"), "--json").stdout)
    assert figures["windows"] >= 3
    assert abs(figures["perplexity"] / figures["against_perplexity"] - 1) < 0.005
    assert figures["top_agreement"] > 0.93


def test_the_same_build_gives_the_same_bytes(engines, tmp_path):
    again = tmp_path / "again.engine"
    brisk("build", MODEL, "-o", again, "--threads", 1)
    assert again.read_bytes() == pathlib.Path(engines("default")).read_bytes()
    assert str(tmp_path).encode() not in again.read_bytes()


def test_four_bits_of_the_file_need_no_calibration(engines, tmp_path):
    """The blocks stay, so there is nothing to fit: with a text, without, and switched off."""
    text = tmp_path / "text"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 600)
    for calib in (text, "none"):
        engine = tmp_path / "again.engine"
        assert "fitted" not in brisk("build", MODEL, "-o", engine, "--calib", calib).stdout
        record = json.loads(brisk("inspect", engine, "--json").stdout)["build_record"]
        assert ("calibration.sha256" in record) == (calib == text) and "calibration" not in record
        assert generate(str(engine), [1, 2, 3], 8)["ids"] == generate(engines("default"), [1, 2, 3], 8)["ids"]


@pytest.mark.parametrize("precision,kv", [("default", "fp16"), ("default", "fp32"), ("bf16", "fp16"), ("fp32", "bf16")])
def test_keys_and_values_in_another_type(engines, precision, kv):
    done = brisk("generate", engines(precision), "--chat", "-p", "What is the capital of France?", "-n", 40, "--kv-dtype", kv)
    assert "Paris" in done.stdout


def test_loads_in_milliseconds(engines):
    figures = [json.loads(brisk("bench", engines("default"), "--prompt-len", 64, "--gen-len", 8, "--requests", 1, "--json").stdout) for _ in range(3)]
    assert min(f["load_ms"] for f in figures) < 100


@pytest.mark.parametrize("precision", ["int8", "int4w", "bf16"])
def test_memory_is_weights_and_state_and_little_else(engines, precision):
    figures = json.loads(brisk("bench", engines(precision), "--prompt-len", 512, "--gen-len", 64, "--requests", 3, "--threads", 2, "--json").stdout)
    assert figures["weights_bytes"] == os.path.getsize(engines(precision))
    blocks = -(-(512 + 64) // 32)
    assert figures["state_bytes"] in [n * 32 * 30 * 2 * 3 * 64 * 2 for n in (blocks, blocks + 1)]  # 16-bit keys and values
    assert figures["peak_rss_bytes"] == figures["weights_bytes"] + figures["state_bytes"] + figures["other_bytes"]
    assert figures["other_bytes"] <= 100e6, figures


def test_two_processes_share_the_weight_pages(engines):
    engine = engines("default")
    chats = [subprocess.Popen([BRISK, "chat", engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    try:
        for c in chats:
            while c.stderr.read(1) != b">":
                assert c.poll() is None
        mapping = re.search(rf"^[^\n]*{re.escape(engine)}\n(.*?)VmFlags", pathlib.Path(f"/proc/{chats[0].pid}/smaps").read_text(), re.S | re.M).group(1)
        kilobytes = {k: int(v) for k, v in re.findall(r"^(\w+): +(\d+) kB", mapping, re.M)}
        assert kilobytes["Private_Dirty"] == 0 and kilobytes["Private_Clean"] < 0.05 * kilobytes["Rss"]
        assert kilobytes["Shared_Clean"] > 50_000
    finally:
        for c in chats:
            c.kill()
            c.wait()


@pytest.mark.parametrize("arguments, code, words", [
    (["build", "HuggingFaceTB/SmolLM2-135M", "-o", "x.engine"], 2, "not a folder or file"),
    (["build", TEXT, "-o", "x.engine"], None, "LICENSE"),
    (["generate", "missing.engine", "-p", "x"], 2, "missing.engine"),
    (["generate", TEXT, "-p", "x"], 2, "LICENSE"),
    (["nonsense"], 2, "'nonsense' is not a command"),
    (["build", MODEL, "-o", "x.engine", "--keep", "nope=fp32"], 2, "'nope'"),
    (["generate", "missing.engine", "-p", "x", "-n", "-1"], 2, "0 to 2147483647"),
    (["generate", "missing.engine", "-p", "x", "--seed", "99999999999999999999"], 2, "64 bits"),
    (["generate", "missing.engine", "-p", "x", "--system", "y"], 2, "--chat"),
    (["generate", "missing.engine", "-p", ""], 2, "empty"),
    (["build", MODEL, "-o", "x.engine", "--precision", "int3"], 2, "int3"),
    (["build", MODEL, "-o", "x.engine", "--disable-pass", "nothing"], 2, "nothing"),
    (["build", MODEL, "-o", "/nonexistent/x.engine"], 1, "/nonexistent/x.engine"),
    (["build", MODEL, "-o", "x.engine", "--calib", "missing.txt"], None, "missing.txt"),
    (["build", MODEL, "-o", "x.engine", "--calib", TEXT], 2, "are needed"),
    (["build", MODEL, "-o", "x.engine", "--calib", MODEL], 2, "not UTF-8"),
    (["build", MODEL, "-o", "x.engine", "--calib", TEXT, "--precision", "int8"], 2, "int4w"),
])
def test_wrong_use_is_told(arguments, code, words, tmp_path):
    done = brisk(*arguments, ok=False, cwd=tmp_path)
    assert done.returncode in ((code,) if code is not None else (2, 3)), done.stderr
    assert words in done.stderr
    assert not list(tmp_path.iterdir())


def test_lost_output_is_a_failure(engines):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BRISK, "generate", engines("default"), "-p", "x", "-n", "2"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "could not be written" in done.stderr


def test_text_that_is_not_utf8_is_refused(engines):
    done = subprocess.run([BRISK, "generate", engines("default"), "-p", b"\xff\xfe", "-n", "2"], capture_output=True, timeout=60)
    assert done.returncode == 2 and b"UTF-8" in done.stderr


def test_damaged_engines_are_refused(engines, tmp_path):
    whole = pathlib.Path(engines("default")).read_bytes()
    for cut in (0, 5, 100, 5000, len(whole) // 2, len(whole) - 1):
        damaged = tmp_path / "cut.engine"
        damaged.write_bytes(whole[:cut])
        done = brisk("generate", damaged, "-p", "x", "-n", 1, ok=False)
        assert done.returncode == 2 and "cut.engine" in done.stderr, (cut, done.stderr)


def test_prompt_longer_than_the_context(engines):
    done = brisk("generate", engines("default"), "--ids", ",".join(["5"] * 300), "--max-model-len", 256, "-n", 1, ok=False)
    assert done.returncode == 2 and "300" in done.stderr and "256" in done.stderr


def test_interrupted_build_leaves_nothing(tmp_path):
    old = tmp_path / "x.engine"
    old.write_bytes(b"old")
    build = subprocess.Popen([BRISK, "build", MODEL, "-o", str(old), "--precision", "fp32"], stderr=subprocess.PIPE, cwd=tmp_path)
    for line in build.stderr:
        if b"pack" in line or b"write" in line:
            break
    time.sleep(0.05)
    build.send_signal(signal.SIGINT)
    build.wait(timeout=60)
    if build.returncode != 0:  # it may have been quicker
        assert old.read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["x.engine"]


def test_full_disk_is_a_clean_error(engines, tmp_path):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("may not mount a tmpfs here")
    try:
        old = disk / "x.engine"
        old.write_bytes(b"old")
        done = brisk("build", MODEL, "-o", old, ok=False)
        assert done.returncode == 1 and "x.engine" in done.stderr and "space" in done.stderr
        assert old.read_bytes() == b"old" and [f.name for f in disk.iterdir()] == ["x.engine"]
    finally:
        subprocess.run(["umount", disk], check=True)
