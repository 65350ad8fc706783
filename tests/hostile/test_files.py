"""Files that lie, through the command line: each is refused with exit 2 or 3 and a message that names file and field, in
little memory and time; none ends the process by a signal. (The fuzzers of tests/fuzz try millions of others.)"""
import copy
import json
import os
import pathlib
import struct
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import files  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRISK = os.environ.get("BRISK_BINARY", str(ROOT / "build" / "bin" / "brisk"))
MEASURED = "BRISK_BINARY" not in os.environ  # another binary may be instrumented: its memory says nothing
SLACK = 32 << 20


class Done:
    def __init__(self, arguments, seconds=20):
        process = subprocess.Popen([BRISK, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        self.text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = self.code = os.waitstatus_to_exitcode(status)
        self.peak = usage.ru_maxrss * 1024


@pytest.fixture(scope="session")
def idle_bytes(tmp_path_factory):
    """What the program takes to refuse a file of one byte."""
    path = tmp_path_factory.mktemp("idle") / "x.gguf"
    path.write_bytes(b"G")
    return Done(["build", path, "-o", path.with_suffix(".engine")]).peak


@pytest.fixture
def build(tmp_path, idle_bytes):
    def build(model, *more):
        out = tmp_path / "out.engine"
        done = Done(["build", model, "-o", out, "--threads", 1, *more])
        size = sum(f.stat().st_size for f in model.iterdir()) if model.is_dir() else model.stat().st_size
        if MEASURED:
            assert done.peak - idle_bytes <= 16 * size + SLACK, f"{done.peak - idle_bytes} bytes for a file of {size}"
        done.left = [f.name for f in tmp_path.iterdir() if "out.engine" in f.name]
        return done

    return build


def expect_refused(done, *words):
    assert done.code in (2, 3), f"exit {done.code}: {done.text[-600:]}"
    assert "Sanitizer" not in done.text and not done.left
    for word in words:
        assert word.lower() in done.text.lower(), done.text[-600:]


# ---- GGUF ----


def changed(**fields):
    g = files.Gguf()
    for name, value in fields.items():
        setattr(g, name, value)
    return g


def with_tensor(index, place, value):
    g = files.Gguf()
    g.tensors[index][place] = value
    return g


def with_pair(key, kind, value):
    g = files.Gguf()
    g.pairs[key] = (kind, value)
    return g


def number(key, n):
    return files.Gguf().number(key, n)


NESTED = struct.pack("<IQ", 9, 1) * 60 + struct.pack("<IQ", 0, 1) + b"\0"
GGUF = {
    "2^63 tensors": (changed(tensors_claimed=1 << 63), "tensor"),
    "2^63 pairs": (changed(pairs_claimed=1 << 63), ""),
    "2^60 pairs": (changed(pairs_claimed=1 << 60), ""),
    "no version": (changed(version=0), "version"),
    "version of the far future": (changed(version=77), "version"),
    "tensor past the end": (with_tensor(7, 3, 1 << 20), "blk.0.ffn_down"),
    "tensor at 2^64 - 32": (with_tensor(7, 3, (1 << 64) - 32), "blk.0.ffn_down"),
    "tensors that overlap": (with_tensor(1, 3, 0), "blk.0.attn_q"),
    "offset off the alignment": (with_tensor(1, 3, 1), "blk.0.attn_q"),
    "dims of 2^63": (with_tensor(1, 1, [1 << 63, 32]), "blk.0.attn_q"),
    "dims whose product wraps": (with_tensor(1, 1, [1 << 33, 1 << 33]), "blk.0.attn_q"),
    "a dim of 0": (with_tensor(1, 1, [0, 32]), "blk.0.attn_q"),
    "too many dims": (with_tensor(1, 1, [1] * 40), "blk.0.attn_q"),
    "unknown type": (with_tensor(1, 2, 4711), "blk.0.attn_q"),
    "a block format that does not divide": (changed(tensors=[["token_embd.weight", [8, 16], 8, 0]]), "token_embd"),
    "a name of 2^60 bytes": (changed(tensors=[], tensors_claimed=1, data=struct.pack("<Q", 1 << 60) + b"x" * 64), ""),
    "two tensors of one name": (with_tensor(1, 0, "token_embd.weight"), "token_embd"),
    "alignment 0": (number("general.alignment", 0), "alignment"),
    "alignment 3": (number("general.alignment", 3), "alignment"),
    "alignment 2^31": (number("general.alignment", 1 << 31), "alignment"),
    "alignment as text": (with_pair("general.alignment", files.TEXT, files.text("32")), "alignment"),
    "a list of 2^60 texts": (with_pair("tokenizer.ggml.tokens", files.LIST, struct.pack("<IQ", 8, 1 << 60)), "array"),
    "lists sixty deep": (with_pair("x", files.LIST, NESTED), ""),
    "a value of an unknown type": (with_pair("x", 99, b"\0" * 8), ""),
    "no layers": (number("llama.block_count", 0), "block_count"),
    "2^31 layers": (number("llama.block_count", 1 << 31), "block_count"),
    "ten million layers": (number("llama.block_count", 10_000_000), ""),
    "no heads": (number("llama.attention.head_count", 0), "heads"),
    "heads that do not divide": (number("llama.attention.head_count", 5), "head"),
    "more key heads than heads": (number("llama.attention.head_count_kv", 64), "head"),
    "hidden size 0": (number("llama.embedding_length", 0), "embedding_length"),
    "hidden size 2^32 - 1": (number("llama.embedding_length", 0xFFFFFFFF), "embedding_length"),
    "context 0": (number("llama.context_length", 0), "context_length"),
    "epsilon is not a number": (with_pair("llama.attention.layer_norm_rms_epsilon", files.F32, struct.pack("<f", float("nan"))), "epsilon"),
    "epsilon below 0": (with_pair("llama.attention.layer_norm_rms_epsilon", files.F32, struct.pack("<f", -1)), "epsilon"),
    "rope base 0": (with_pair("llama.rope.freq_base", files.F32, struct.pack("<f", 0)), "rope"),
    "rope base infinite": (with_pair("llama.rope.freq_base", files.F32, struct.pack("<f", float("inf"))), "rope"),
    "rope of odd dimensions": (number("llama.rope.dimension_count", 7), "rotated"),
    "an architecture of text and zeros": (with_pair("general.architecture", files.TEXT, files.text(b"lla\0ma")), "architecture"),
    "fewer tokens than rows": (with_pair("tokenizer.ggml.tokens", files.LIST, files.texts(["a"])), ""),
    "split 1 of 0": (number("split.count", 0).number("split.no", 0), "split"),
    "split 7 of 2": (number("split.count", 2).number("split.no", 7), "split"),
    "split of 65535": (number("split.count", 65535).number("split.no", 0), "split"),
    "an end token that is none": (number("tokenizer.ggml.eos_token_id", 4711), "eos"),
}
MAY_BE_ACCEPTED = {"split 1 of 0", "an end token that is none", "fewer tokens than rows"}


@pytest.mark.parametrize("name", GGUF)
def test_gguf(build, tmp_path, name):
    g, word = GGUF[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(g.bytes())
    done = build(path)
    if name in MAY_BE_ACCEPTED and done.code == 0:
        return
    expect_refused(done, "model.gguf", word)


def test_the_sound_files_are_accepted(build, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(files.Gguf().bytes())
    for model in (path, files.folder(tmp_path / "hf")):
        done = build(model)
        assert done.code == 0, done.text


def test_gguf_cut_anywhere(build, tmp_path):
    whole = files.Gguf().bytes()
    path = tmp_path / "model.gguf"
    for size in [*range(0, 64, 7), *range(64, len(whole), len(whole) // 23), len(whole) - 1]:
        path.write_bytes(whole[:size])
        expect_refused(build(path), "model.gguf")


def test_gguf_parts_that_disagree(build, tmp_path):
    """Part one says three parts; there are two, or the second says another number."""
    for second, word in ((None, "00002"), (4, "split"), (3, "00003")):
        one = files.Gguf().number("split.count", 3, 2, "<H").number("split.no", 0, 2, "<H").number("split.tensors.count", 11, 5, "<i")
        (tmp_path / "m-00001-of-00003.gguf").write_bytes(one.bytes())
        if second:
            two = files.Gguf().number("split.count", second, 2, "<H").number("split.no", 1, 2, "<H")
            two.tensors, two.data = [], b""
            (tmp_path / "m-00002-of-00003.gguf").write_bytes(two.bytes())
        expect_refused(build(tmp_path / "m-00001-of-00003.gguf"), word)


# ---- safetensors ----


def entry(**fields):
    return lambda names: names["model.layers.0.self_attn.q_proj.weight"].update(fields)


Q = "q_proj"
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
SAFETENSORS = {
    "a header of 2^60 bytes": (dict(claimed=1 << 60), ""),
    "a header of 2^64 - 1 bytes": (dict(claimed=(1 << 64) - 1), ""),
    "a header of 0 bytes": (dict(claimed=0), ""),
    "no JSON": (dict(header=b"\xff\xfe" * 40), ""),
    "a list": (dict(header=b"[1, 2, 3]      "), ""),
    "JSON 100,000 deep": (dict(header=DEEP), ""),
    "duplicate keys": (dict(header=b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'), "x"),
    "overlapping ranges": (dict(header=entry(data_offsets=[0, 4 * 32 * 32])), Q),
    "a range past the end": (dict(header=entry(data_offsets=[1 << 30, (1 << 30) + 4096])), "data_offsets"),
    "a range that runs backwards": (dict(header=entry(data_offsets=[4096, 0])), Q),
    "a range below 0": (dict(header=entry(data_offsets=[-4096, 0])), Q),
    "a range of 2^64": (dict(header=entry(data_offsets=[0, 1 << 64])), Q),
    "a range of text": (dict(header=entry(data_offsets=["0", "4096"])), Q),
    "a range of three": (dict(header=entry(data_offsets=[0, 1, 2])), Q),
    "a shape of 2^63": (dict(header=entry(shape=[1 << 62, 4])), Q),
    "a shape below 0": (dict(header=entry(shape=[-32, -32])), Q),
    "a shape of floats": (dict(header=entry(shape=[32.5, 32])), Q),
    "a shape that is no list": (dict(header=entry(shape=1024)), Q),
    "an unknown dtype": (dict(header=entry(dtype="F1024")), Q),
    "a dtype that is a number": (dict(header=entry(dtype=7)), Q),
    "data cut short": (dict(data=b"\0" * 100), ""),
    "a tensor that is missing": (dict(header=lambda names: names.pop("model.layers.0.self_attn.q_proj.weight")), "hole"),
    "numbers of 1e999": (dict(header=b'{"x":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}'), "byte 34"),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(build, tmp_path, name):
    fields, word = SAFETENSORS[name]
    expect_refused(build(files.folder(tmp_path / "hf", weights=files.safetensors(**fields))), "hf", word)


@pytest.mark.parametrize("index", [b"[]", b'{"weight_map": 7}', b'{"weight_map": {"a": "../../etc/passwd"}}', b'{"weight_map": {"a": "missing.safetensors"}}',
                                   b'{"weight_map": {"a": 3}}', b"{", b'{"weight_map": {"a": "/dev/zero"}}'])
def test_safetensors_index(build, tmp_path, index):
    hf = files.folder(tmp_path / "hf")
    (hf / "model.safetensors").unlink()
    (hf / "model.safetensors.index.json").write_bytes(index)
    expect_refused(build(hf), "index")


# ---- config.json ----

BAD_NUMBERS = [0, -1, 1e300, "32", 2.5, None, [], True, 1 << 62]
SIZES = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
         "max_position_embeddings"]


@pytest.mark.parametrize("field", SIZES)
def test_config_sizes(build, tmp_path, field):
    for value in BAD_NUMBERS:
        config = {**files.CONFIG, field: value}
        done = build(files.folder(tmp_path / "hf", config=config))
        if value is None and field == "num_key_value_heads":
            continue  # as many as heads
        expect_refused(done, "config.json")
        assert field in done.text or "head" in done.text, f"{value}: {done.text[-300:]}"


@pytest.mark.parametrize("fields", [
    {"num_attention_heads": 3}, {"num_key_value_heads": 3}, {"head_dim": 0}, {"head_dim": -2}, {"head_dim": 7}, {"head_dim": 1 << 40},
    {"rms_norm_eps": -1}, {"rms_norm_eps": "1e-5"}, {"rms_norm_eps": 1e300}, {"rope_theta": 0}, {"rope_theta": -5}, {"rope_theta": "x"},
    {"rope_theta": 1e300}, {"model_type": 7}, {"model_type": "nothing that exists"}, {"hidden_act": 3}, {"hidden_act": "frobnicate"},
    {"rope_scaling": {"rope_type": "nothing"}}, {"rope_scaling": {"rope_type": "yarn", "factor": 0}}, {"rope_scaling": 7},
    {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 0, "high_freq_factor": 0, "original_max_position_embeddings": 0}},
    {"sliding_window": -4, "use_sliding_window": True, "model_type": "mistral"}])
def test_config_fields(build, tmp_path, fields):
    expect_refused(build(files.folder(tmp_path / "hf", config={**files.CONFIG, **fields})), "hf")


@pytest.mark.parametrize("raw", [b"", b"{", b"null", b"[]", b"7", b"\xff\xfe{}", b"{}", DEEP, b'{"model_type":"llama","model_type":"llama"', b"\0" * 100])
def test_config_that_is_none(build, tmp_path, raw):
    expect_refused(build(files.folder(tmp_path / "hf", config=raw)), "model_type" if raw == b"{}" else "config.json")


# ---- tokenizer.json ----


def tokenizer(**model):
    t = copy.deepcopy(files.TOKENIZER)
    t["model"].update(model)
    return t


def split_by(pattern):
    t = copy.deepcopy(files.TOKENIZER)
    t["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return t


TOKENIZERS = {
    "no JSON": b"{",
    "JSON 100,000 deep": DEEP,
    "no model": {"version": "1.0"},
    "an unknown model": tokenizer(type="Oracle"),
    "a vocabulary that is a number": tokenizer(vocab=7),
    "ids below 0": tokenizer(vocab={"a": -1}),
    "an id of 2^31 - 1": tokenizer(vocab={"a": 2**31 - 1}),
    "an id of 2^63": tokenizer(vocab={"a": 2**63}),
    "ids that are text": tokenizer(vocab={"a": "0"}),
    "one id twice": tokenizer(vocab={"a": 0, "b": 0}),
    "merges of three": tokenizer(merges=[["a", "b", "c"]]),
    "merges that are numbers": tokenizer(merges=[1, 2]),
    "a regex that is none": split_by("(((("),
    "a regex of nested repeats": split_by("(a{1,1000}){1,1000}" * 4),
    "a regex of 1 MB": split_by("(" * 500_000 + ")" * 500_000),
    "a regex with a recursion": split_by("(?R)*a"),
    "an added token that is a list": {**files.TOKENIZER, "added_tokens": [[]]},
    "an added id below 0": {**files.TOKENIZER, "added_tokens": [{"id": -3, "content": "x", "special": True}]},
    "an added id of 2^40": {**files.TOKENIZER, "added_tokens": [{"id": 1 << 40, "content": "x", "special": True}]},
    "an added id of 444444446": {**files.TOKENIZER, "added_tokens": [{"id": 444444446, "content": "x", "special": True}]},
    "an added id of 2^31 - 1 behind sound ones": {**files.TOKENIZER, "added_tokens": files.TOKENIZER["added_tokens"] + [
        {"id": 8, "content": "y", "special": True}, {"id": 2**31 - 1, "content": "x", "special": True}]},
    "an unknown pre-tokenizer": {**files.TOKENIZER, "pre_tokenizer": {"type": "Oracle"}},
    "a pre-tokenizer inside 5,000 others": None,
}
ACCEPTED_BY_SOME = {"a regex with a recursion", "a regex of nested repeats"}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizer(build, tmp_path, name):
    t = TOKENIZERS[name]
    if t is None:
        inner = '{"type":"ByteLevel"}'
        for _ in range(5000):
            inner = '{"type":"Sequence","pretokenizers":[' + inner + "]}"
        t = json.dumps({**files.TOKENIZER, "pre_tokenizer": "HERE"}).replace('"HERE"', inner).encode()
    done = build(files.folder(tmp_path / "hf", tokenizer=t))
    if name in ACCEPTED_BY_SOME and done.code == 0:
        return
    expect_refused(done, "tokenizer.json")


def test_tokenizer_merges_of_missing_tokens_and_many_added(build, tmp_path):
    """Merges nobody can make do not hurt; ten megabytes of added tokens take memory like ten megabytes."""
    build_one = lambda t: build(files.folder(tmp_path / "hf", tokenizer=t))  # noqa: E731
    assert build_one(tokenizer(merges=["a b", "x y", "nothing there"])).code in (0, 2)
    added = [{"id": 8 + i, "content": f"<token number {i}>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": bool(i % 2)} for i in range(75_000)]
    done = build_one({**files.TOKENIZER, "added_tokens": files.TOKENIZER["added_tokens"] + added})
    assert done.code in (0, 2), done.text[-300:]


# ---- engine files ----


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    path = tmp_path_factory.mktemp("engine")
    (path / "m.gguf").write_bytes(files.Gguf().bytes())
    done = Done(["build", path / "m.gguf", "-o", path / "m.engine"])
    assert done.code == 0, done.text
    return (path / "m.engine").read_bytes()


def generate(path):
    done = Done(["generate", path, "--ids", "0,1", "-n", 2, "--json", "--threads", 1])
    done.left = []
    return done


def test_engine_cut_at_every_page(engine, tmp_path):
    path = tmp_path / "cut.engine"
    path.write_bytes(engine)
    assert generate(path).code == 0
    for size in [0, 1, 31, 63, *range(4096, len(engine), 4096), len(engine) - 1]:
        path.write_bytes(engine[:size])
        expect_refused(generate(path), "cut.engine")


def test_engine_with_bits_flipped(engine, tmp_path):
    path = tmp_path / "flip.engine"
    for i in range(60):
        at = (i * 7919) % len(engine) if i % 2 else (i * 101) % 4096
        damaged = bytearray(engine)
        damaged[at] ^= 1 << (i % 8)
        path.write_bytes(damaged)
        done = generate(path)
        assert done.code in (0, 2), f"bit {i % 8} of byte {at}: exit {done.code}, {done.text[-300:]}"  # padding, weights: no checksum asked
        assert "Sanitizer" not in done.text
