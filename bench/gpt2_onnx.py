#!/usr/bin/env python3
"""GPT-2 (124 M parameters, fp32, random weights) as torch exports it with past, generating: brisk beside onnxruntime.

usage: .venv-oracles/bin/python bench/gpt2_onnx.py [--pairs 9] [--threads 2] [--json OUT]      (`make gpt2` makes the environment)

onnxruntime runs the file with I/O binding: past and present stay where they are and are exchanged by handle. brisk builds
an engine from the same file and generates from it. Turns are ABBA, each with a fresh prompt of random ids. Prefill: one
call on 512 tokens. Decode: 64 tokens at depth 512 on; the bound is the bytes of weights and of keys and values read a
token at the read bandwidth that `device_limits` measures before and after each turn. Exits 1 if a bar does not hold at the bad end:
decode at 85 % of that bandwidth (median), prefill 1.2 times faster than onnxruntime.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN, WORK = ROOT / "build/bin", ROOT / "build/gpt2"
PROMPT, GENERATED = 512, 64
LAYERS, HEADS, SIZE, VOCABULARY = 12, 12, 64, 50257


def export(target):
    import torch
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    class WithPast(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, *past):
            cache = DynamicCache()
            for i in range(LAYERS):
                cache.update(past[2 * i], past[2 * i + 1], i)
            out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            return [out.logits] + [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]

    torch.manual_seed(0)
    model = WithPast(GPT2LMHeadModel(GPT2Config())).eval()
    past = [torch.randn(1, HEADS, 5, SIZE) for _ in range(2 * LAYERS)]
    names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    inputs = ["input_ids", "attention_mask"] + ["past_key_values." + n for n in names]
    outputs = ["logits"] + ["present." + n for n in names]
    axes = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {"past_key_values." + n: {0: "batch", 2: "past"} for n in names}
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name("part.onnx")
    with torch.no_grad():
        torch.onnx.export(model, (torch.randint(0, 1000, (1, 7)), torch.ones(1, 12, dtype=torch.long), *past), str(part), dynamo=False,
                          opset_version=17, input_names=inputs, output_names=outputs, dynamic_axes=axes)
    part.rename(target)


class Onnxruntime:
    """Prefill and decode with everything bound; memory for outputs is onnxruntime's own."""

    def __init__(self, model, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.ort, self.session = ort, ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.past = [i.name for i in self.session.get_inputs() if i.name.startswith("past")]
        self.presents = [n.replace("past_key_values", "present") for n in self.past]

    def step(self, ids, total, past):
        bind = self.session.io_binding()
        bind.bind_cpu_input("input_ids", ids)
        bind.bind_cpu_input("attention_mask", np.ones((1, total), np.int64))
        for name, value in zip(self.past, past):
            bind.bind_ortvalue_input(name, value)
        for name in ["logits", *self.presents]:
            bind.bind_output(name)
        self.session.run_with_iobinding(bind)
        logits, *presents = bind.get_outputs()
        return logits, presents

    def turn(self, rng):
        empty = self.ort.OrtValue.ortvalue_from_numpy(np.zeros((1, HEADS, 0, SIZE), np.float32))
        ids = rng.integers(0, VOCABULARY, (1, PROMPT), dtype=np.int64)
        start = time.perf_counter()
        logits, past = self.step(ids, PROMPT, [empty] * len(self.past))
        token = int(logits.numpy()[0, -1].argmax())
        first = time.perf_counter()
        for i in range(GENERATED):
            logits, past = self.step(np.array([[token]], np.int64), PROMPT + 1 + i, past)
            token = int(logits.numpy()[0, -1].argmax())
        return 1e3 * (first - start), 1e3 * (time.perf_counter() - first) / GENERATED


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def brisk(engine, threads):
    out = json.loads(run(BIN / "brisk", "bench", engine, "--prompt-len", PROMPT, "--gen-len", GENERATED + 1, "--requests", 1, "--threads", threads,
                         "--json", "--log-level", "warning"))
    return out["ttft_ms"]["p50"], out["tpot_ms"]["p50"]


def read_bandwidth(threads):
    return json.loads(run(BIN / "device_limits", threads))["read_bytes_per_s"]


def token_bytes(engine):
    """Read for one token: every weight but the embeddings, of which a row is, and keys and values of the mean depth."""
    weights = json.loads(run(BIN / "brisk", "inspect", engine, "--json"))["weights"]
    packed = sum(w["bytes"] for w in weights if w["packing"] != "plain")
    return packed + 2 * LAYERS * HEADS * SIZE * 4 * (PROMPT + GENERATED / 2)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=9)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    model, engine = WORK / "model.onnx", WORK / "gpt2.engine"
    if not model.exists():
        export(model)
    if not engine.exists() or engine.stat().st_mtime < (BIN / "brisk").stat().st_mtime:
        run(BIN / "brisk", "build", model, "-o", engine, "--precision", "fp32")
    peer, rng = Onnxruntime(model, a.threads), np.random.default_rng(1)
    turns, bandwidth = {"brisk": [], "onnxruntime": []}, []
    who = {"brisk": lambda: brisk(engine, a.threads), "onnxruntime": lambda: peer.turn(rng)}
    for name in who:
        who[name]()  # warm
    for i in range(a.pairs):
        for name in sorted(who, reverse=i % 2 == 1):
            before = read_bandwidth(a.threads) if name == "brisk" else 0
            turns[name].append(who[name]())
            if name == "brisk":
                bandwidth.append((before + read_bandwidth(a.threads)) / 2)
    prefill, decode = zip(*turns["brisk"])
    peer_prefill, peer_decode = zip(*turns["onnxruntime"])
    gains = [theirs / mine for theirs, mine in zip(peer_prefill, prefill)]
    shares = [token_bytes(engine) / (1e-3 * ms) / read for ms, read in zip(decode, bandwidth)]
    result = {"prefill_ms": statistics.median(prefill), "onnxruntime_prefill_ms": statistics.median(peer_prefill),
              "decode_ms": statistics.median(decode), "onnxruntime_decode_ms": statistics.median(peer_decode),
              "prefill_gain": sorted(gains), "decode_share_of_bandwidth": sorted(shares), "read_bytes_per_s": statistics.median(bandwidth)}
    if a.json:
        a.json.write_text(json.dumps(result, indent=1))
    holds = min(gains) >= 1.2 and statistics.median(shares) >= 0.85
    print(f"prefill {PROMPT} tokens: {result['prefill_ms']:.1f} ms, onnxruntime {result['onnxruntime_prefill_ms']:.1f}; "
          f"{statistics.median(gains):.2f} times faster (worst pair {min(gains):.2f}, bar 1.2)")
    print(f"decode at depth {PROMPT}: {result['decode_ms']:.2f} ms a token, onnxruntime {result['onnxruntime_decode_ms']:.2f}; "
          f"{statistics.median(shares):.0%} of read bandwidth ({min(shares):.0%} to {max(shares):.0%}, bar 85 %)")
    print("bars hold" if holds else "bars DO NOT HOLD")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
