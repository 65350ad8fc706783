#!/usr/bin/env python3
"""Real ONNX models out of public wheels, against the outputs that onnxruntime 1.32 gave, and small transformers as torch
exports them (tests/data/exports), against PyTorch's: all through `brisk run`.

usage: tests/onnx/real_models.py [ID...]     (default: those with an .npz in tests/material/real_onnx, and all exports;
env BRISK: the binary). Tolerance: 1e-4 of the largest output; rows of padding tokens (attention_mask 0) have no right
answer and are not compared. Closes with "N passed, N failed".
"""
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


def difference(want, have, mask):
    """The largest difference, and what is allowed."""
    want, have = want.astype(np.float64), have.astype(np.float64)
    far = np.where(np.isnan(want) & np.isnan(have), 0, np.abs(have - want))
    if mask is not None and want.ndim == 3 and want.shape[0] == mask.shape[0] and want.shape[1] <= mask.shape[1]:
        far = far * mask[:, -want.shape[1]:, None]
    return np.max(far), 1e-4 * np.nanmax(np.abs(want))


def check(model, golden):
    """What is wrong with the model's outputs, or an empty text."""
    data = np.load(golden)
    given = {key[3:]: data[key] for key in data.files if key.startswith("in:")}
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(inputs, **given)
        done = subprocess.run([BRISK, "run", model, "--inputs", inputs, "--outputs", outputs], capture_output=True,
                              text=True, timeout=120)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
        got = np.load(outputs)
        for key in (key for key in data.files if key.startswith("out:")):
            want, have = data[key], got[key[4:]]
            if want.shape != have.shape or want.dtype != have.dtype:
                return f"{key[4:]}: {have.dtype}{have.shape}, wanted {want.dtype}{want.shape}"
            if want.size:
                far, allowed = difference(want, have, given.get("attention_mask"))
                if not far <= allowed:
                    return f"{key[4:]}: differs by {far:.3g}, allowed {allowed:.3g}"
    return ""


def main():
    names = sys.argv[1:] or sorted(path.stem for path in (MATERIAL / "real_onnx").glob("*.npz"))
    missing = [name for name in names if not (MODELS / name / "model.onnx").exists()]
    if missing:
        MODELS.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, MATERIAL / "fetch_real_onnx.py", MODELS, *missing], check=True)
    cases = [(name, MODELS / name / "model.onnx", MATERIAL / "real_onnx" / f"{name}.npz") for name in names]
    if not sys.argv[1:]:
        cases += [(f.name, f / "model.onnx", f / "io.npz") for f in sorted((ROOT / "tests/data/exports").iterdir())]
    failed = 0
    for name, model, golden in cases:
        wrong = check(model, golden)
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {name} {wrong}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
