#!/usr/bin/env python3
"""Real ONNX models out of public wheels through `brisk run`, against the outputs that onnxruntime 1.32 gave.

usage: tests/onnx/real_models.py [ID...]     (default: those with an .npz in tests/material/real_onnx; env BRISK: the binary)
Tolerance: 1e-4 of the largest output. Closes with "N passed, N failed".
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


def check(name):
    """What is wrong with the model's outputs, or an empty text."""
    data = np.load(MATERIAL / "real_onnx" / f"{name}.npz")
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(inputs, **{key[3:]: data[key] for key in data.files if key.startswith("in:")})
        done = subprocess.run([BRISK, "run", MODELS / name / "model.onnx", "--inputs", inputs, "--outputs", outputs],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
        got = np.load(outputs)
        for key in (key for key in data.files if key.startswith("out:")):
            want, have = data[key], got[key[4:]]
            if want.shape != have.shape or want.dtype != have.dtype:
                return f"{key[4:]}: {have.dtype}{have.shape}, wanted {want.dtype}{want.shape}"
            if want.size == 0:
                continue
            limit = 1e-4 * np.nanmax(np.abs(want))
            if not np.allclose(have, want, rtol=0, atol=limit, equal_nan=True):
                return f"{key[4:]}: differs by {np.nanmax(np.abs(have.astype(np.float64) - want)):.3g}, allowed {limit:.3g}"
    return ""


def main():
    names = sys.argv[1:] or sorted(path.stem for path in (MATERIAL / "real_onnx").glob("*.npz"))
    missing = [name for name in names if not (MODELS / name / "model.onnx").exists()]
    if missing:
        MODELS.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, MATERIAL / "fetch_real_onnx.py", MODELS, *missing], check=True)
    failed = 0
    for name in names:
        wrong = check(name)
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {name} {wrong}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not names else 0)


if __name__ == "__main__":
    main()
