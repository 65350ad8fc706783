#!/usr/bin/env python3
"""Real ONNX models out of public wheels, against the outputs that onnxruntime 1.32 gave, at the sizes of the material and
at others; and small transformers as exporters write them (tests/data/exports), against PyTorch's. Each goes through
`brisk build` and `brisk run ENGINE`.

usage: tests/onnx/real_models.py [--all] [ID...]     (env BRISK: the binary)
Without arguments: the models that are quick to fetch, and the exports. --all: every model of tests/material/real_onnx.json,
with the goldens that tools/oracles/real_onnx.py leaves in .cache/real-onnx-goldens too, and no exports.
Tolerance: 1e-4 of the largest output, by kind (KINDS) more; rows of padding tokens (attention_mask 0) have no right answer
and are not compared. Closes with "N passed, N failed".
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MATERIAL = ROOT / "tests/material"
BRISK = os.environ.get("BRISK", str(ROOT / "build/bin/brisk"))
MODELS = ROOT / ".cache/real-onnx"
GOLDENS = [MATERIAL / "real_onnx", ROOT / "tests/data/real_onnx", ROOT / ".cache/real-onnx-goldens"]

# What is not plain fp32. "int8": activations are quantised as they come, one code more or less spreads: cosine and the
# largest of each row are compared ("hidden": states of no classes, the cosine alone, more strictly). "qdq" and "fp16" round values by their format's step.
KINDS = {"dddd-old": "int8", "tashkeel-rawi": "int8", "vf-int8": "int8", "title-enc": "int8 hidden", "kokoro-int8": "int8",
         "smart-turn": "qdq", "slovorez": "fp16", "basic-pitch": "long sums"}
TOLERANCES = {"fp32": 1e-4, "long sums": 5e-4, "fp16": 1e-3, "qdq": 5e-3}
# Wheels of more than 20 MB, or several of them, stay out of the test run.
LARGE = {"kokoro-int8", "rxnmap", "dddd-det", "dddd-common", "dddd-old", "title-enc", "lac", "attacut", "deepcut", "minilm-int8"}


def kind_of(name):
    return KINDS.get(name.split("@")[0], "fp32")


def difference(want, have, mask, kind):
    """What is wrong with an output of the right shape and type, or an empty text."""
    want, have = want.astype(np.float64), have.astype(np.float64)
    if kind.startswith("int8"):
        cosine = np.vdot(want, have) / max(np.linalg.norm(want) * np.linalg.norm(have), 1e-300)
        rows = (-1, want.shape[-1] if want.ndim else 1)
        same = np.mean(want.reshape(rows).argmax(1) == have.reshape(rows).argmax(1))
        classes = rows[1] > 2 and want.ndim > 1 and kind == "int8"
        bad = not cosine > (0.99 if kind == "int8" else 0.995) or (classes and same < 0.95)
        return f"cosine {cosine:.5f}, {same:.0%} of rows have the same largest element" if bad else ""
    far = np.where(np.isnan(want) & np.isnan(have), 0, np.abs(have - want))
    far = np.where(want == have, 0, far)  # infinities
    if mask is not None and want.ndim == 3 and want.shape[0] == mask.shape[0] and want.shape[1] <= mask.shape[1]:
        far = far * mask[:, -want.shape[1]:, None]
    allowed = TOLERANCES[kind] * np.nanmax(np.abs(want))
    return "" if np.max(far) <= allowed else f"differs by {np.max(far):.3g}, allowed {allowed:.3g}"


def run(engine, golden, kind):
    """What is wrong with the engine's outputs for the golden's inputs, or an empty text."""
    data = np.load(golden)
    given = {key[3:]: data[key] for key in data.files if key.startswith("in:")}
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(inputs, **given)
        done = subprocess.run([BRISK, "run", engine, "--inputs", inputs, "--outputs", outputs], capture_output=True,
                              text=True, timeout=120)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
        got = np.load(outputs)
        for key in (key for key in data.files if key.startswith("out:")):
            want, have = data[key], got[key[4:]]
            if want.shape != have.shape or want.dtype != have.dtype:
                return f"{key[4:]}: {have.dtype}{have.shape}, wanted {want.dtype}{want.shape}"
            if want.size and (wrong := difference(want, have, given.get("attention_mask"), kind)):
                return f"{key[4:]}: {wrong}"
    return ""


def build(model, engine):
    """What the build has to complain of, or an empty text. Decoders stay functions: their logits are compared."""
    done = subprocess.run([BRISK, "build", model, "-o", engine, "--precision", "fp32", "--log-level", "error", "--disable-pass",
                           "convert-decoder"],
                          capture_output=True, text=True, timeout=300)
    return f"build exits {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode else ""


def goldens_of(name, everywhere):
    """(the material's, or what stands in for it; then those at other sizes)"""
    found = {}
    for folder in GOLDENS if everywhere else GOLDENS[:2]:
        for path in sorted([*folder.glob(f"{name}.npz"), *folder.glob(f"{name}@*.npz")]):
            found.setdefault(path.stem, path)
    return list(found.values())


def fetch(names):
    missing = [name for name in names if not (MODELS / name / "model.onnx").exists()]
    if missing:
        MODELS.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, MATERIAL / "fetch_real_onnx.py", MODELS, *missing], check=True)


def main():
    every = "--all" in sys.argv[1:]
    listed = list(json.loads((MATERIAL / "real_onnx.json").read_text()))
    named = [a for a in sys.argv[1:] if a != "--all"]
    names = named or [n for n in listed if every or (n not in LARGE and goldens_of(n, False))]
    fetch(names)
    cases = [(n, MODELS / n / "model.onnx", goldens_of(n, every or bool(named))) for n in names]
    if not sys.argv[1:]:
        cases += [(f.name, f / "model.onnx", sorted(f.glob("io*.npz"))) for f in sorted((ROOT / "tests/data/exports").iterdir())]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, model, goldens in cases:
            engine = f"{folder}/m.engine"
            broken = build(model, engine)
            for golden in goldens:
                wrong = broken or run(engine, golden, kind_of(name))
                passed, failed = passed + (not wrong), failed + bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {name if golden.stem == 'io' else golden.stem} {wrong}", flush=True)
            if not goldens:
                failed += 1
                print(f"FAIL {name} has no golden")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
