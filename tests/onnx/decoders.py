#!/usr/bin/env python3
"""Tiny decoders as exporters write them (tests/data/decoders, made by tools/oracles/decoders.py): each becomes a generative
engine by itself, and says greedily what PyTorch says, as a function engine too; in int8 and int4w it builds and talks. An encoder stays a function, and the build says why.

usage: tests/onnx/decoders.py [NAME...]     (env BRISK: the binary)     closes with "N passed, N failed"
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/decoders"
BRISK = os.environ.get("BRISK", str(ROOT / "build/bin/brisk"))
PLAIN = "plain function"
# Nodes of a Llama layer from the Hugging Face importer: qkv, attention, output, gate and up, down.
KERNELS_A_LAYER, LAYERS = 5, 2
OTHER_STEPS = 6  # ids, embedding, rows that need logits (of two values), head, sampling
AS_FROM_HF = {"llama-dynamo23-past", "llama-dynamo18-past-half", "qwen2-legacy-past-half", "mistral-dynamo18-past", "phi3-dynamo18-past", "qwen2-genai"}


def brisk(*words):
    return subprocess.run([BRISK, *map(str, words)], capture_output=True, text=True, timeout=120)


def build(model, engine, *more):
    done = brisk("build", model, "-o", engine, *more)
    return done.returncode, done.stdout + done.stderr


def generate(engine, prompt, n):
    done = brisk("generate", engine, "--ids", ",".join(map(str, prompt)), "-n", n, "--ignore-eos", "--json")
    return json.loads(done.stdout)["ids"] if done.returncode == 0 else done.stderr


def by_function(engine, model, prompt, n, folder):
    """Greedy ids of the same file as a plain function, asked anew with the whole text for each token."""
    import onnx
    inputs = onnx.load(model).graph.input
    ids = list(prompt)
    for _ in range(n):
        given = {}
        for value in inputs:
            sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
            if value.name == "input_ids":
                given[value.name] = np.array([ids], np.int64)
            elif value.name == "attention_mask":
                given[value.name] = np.ones((1, len(ids)), np.int64)
            elif value.name == "position_ids":
                given[value.name] = np.arange(len(ids), dtype=np.int64)[None]
            else:
                half = value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
                given[value.name] = np.zeros((1, sizes[1], 0, sizes[3] or 8), np.float16 if half else np.float32)
        np.savez(f"{folder}/in.npz", **given)
        done = brisk("run", engine, "--inputs", f"{folder}/in.npz", "--outputs", f"{folder}/out.npz")
        if done.returncode:
            return done.stderr
        ids.append(int(np.load(f"{folder}/out.npz")["logits"][0, -1].argmax()))
    return ids[len(prompt):]


def steps(engine):
    functions = json.loads(brisk("inspect", engine, "--json").stdout)["functions"]
    return sum(len(f["steps"]) for f in functions if f["name"] == "step")


def named_heads(name, folder):
    """The model with a name for the size of heads in its caches, as later builders of onnxruntime-genai write them."""
    import onnx
    model = onnx.load(DATA / f"{name}.onnx")
    for value in [*model.graph.input, *model.graph.output]:
        if len(dims := value.type.tensor_type.shape.dim) == 4:
            dims[3].dim_param = "kv_cache_dim"
    onnx.save(model, f"{folder}/named.onnx")
    return f"{folder}/named.onnx"


def check(name, answers, prompts, folder):
    """Everything wrong with one model's engines."""
    model, engine = DATA / f"{name}.onnx", f"{folder}/step.engine"
    code, said = build(model, engine, "--precision", "fp32")
    if code or PLAIN in said:
        return [f"not converted: {said.strip()[-300:]}"]
    wrong = [f"prompt {i}: {got}, wanted {want}" for i, (prompt, want) in enumerate(zip(prompts, answers))
             if (got := generate(engine, prompt, len(want))) != want]
    if name in AS_FROM_HF and (n := steps(engine)) > LAYERS * KERNELS_A_LAYER + OTHER_STEPS:
        wrong.append(f"{n} steps")
    code, said = build(model, f"{folder}/function.engine", "--precision", "fp32", "--disable-pass", "convert-decoder")
    got = by_function(f"{folder}/function.engine", model, prompts[0], 4, folder) if code == 0 else said
    if got != answers[0][:4]:
        wrong.append(f"as a function: {got}, wanted {answers[0][:4]}")
    if name.endswith("genai"):
        code, said = build(named_heads(name, folder), engine, "--precision", "fp32")
        if code or PLAIN in said or generate(engine, prompts[0], len(answers[0])) != answers[0]:
            wrong.append(f"with named heads: {said.strip()[-300:]}")
    for precision in ("int8", "int4w"):
        code, said = build(model, f"{folder}/small.engine", "--precision", precision, "--calib", "none")
        got = generate(f"{folder}/small.engine", prompts[0], 4) if code == 0 and PLAIN not in said else said
        if not isinstance(got, list) or len(got) != 4:
            wrong.append(f"{precision}: {got}")
    return wrong


def main():
    golden = json.loads((DATA / "decoders.json").read_text())
    wanted = sys.argv[1:] or list(golden["models"])
    failed = 0
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(name, golden["models"][name]["answers"], golden["prompts"], folder)
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':7}{name}" + "".join(f"\n       {w}" for w in wrong), flush=True)
    if not sys.argv[1:]:
        wanted.append("legacy-bert")
        with tempfile.TemporaryDirectory() as folder:
            code, said = build(ROOT / "tests/data/exports/legacy-bert/model.onnx", f"{folder}/e.engine")
        stays = code == 0 and PLAIN in said
        failed += not stays
        print("ok     legacy-bert stays a function" if stays else f"FAILED legacy-bert: {said}")
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
