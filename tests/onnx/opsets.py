#!/usr/bin/env python3
"""Single nodes as the opsets of former years define them (tests/data/onnx_opsets.tar.xz), against onnxruntime's outputs,
with sizes declared and with names for them.

usage: tests/onnx/opsets.py [BRISK] [--filter TEXT]     closes with "N passed, N failed"
"""
import argparse
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/data/onnx_opsets.tar.xz"
# Resize and Upsample compute places in double where onnxruntime takes floats; products of long chains: a few roundings.
RTOL, ATOL = 1e-4, 1e-5
# May be refused with exit 3. AffineGrid: the rank of the result follows from sizes that have only names.
REFUSED = {"AffineGrid-20.named.onnx", "Scan-8.onnx", "Scan-8.named.onnx", "Scan-8-reverse.onnx", "Scan-8-reverse.named.onnx"}


def wrong(brisk, model, data, folder):
    """What is wrong with the model's outputs, or an empty text."""
    inputs, outputs = folder / "in.npz", folder / "out.npz"
    np.savez(inputs, **{key[3:]: data[key] for key in data.files if key.startswith("in:")})
    done = subprocess.run([brisk, "run", model, "--inputs", inputs, "--outputs", outputs], capture_output=True, text=True, timeout=60)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
    got = np.load(outputs)
    for key in (key for key in data.files if key.startswith("out:")):
        want, have = data[key], got[key[4:]]
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"{key[4:]}: {have.dtype}{have.shape}, wanted {want.dtype}{want.shape}"
        exact = want.dtype.kind not in "f"
        if not (np.array_equal(want, have) if exact else np.allclose(have, want, RTOL, ATOL, equal_nan=True)):
            return f"{key[4:]}: {have.ravel()[:8]}, wanted {want.ravel()[:8]}"
    return ""


def run_all(brisk, text=""):
    """(passed, failed); prints what failed."""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with tarfile.open(GOLDENS) as archive:
            archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
        for golden in sorted(folder.glob("*-*.npz")):
            case = golden.name[:-len(".npz")]
            if text not in case:
                continue
            for model in (f"{case}.onnx", f"{case}.named.onnx"):
                problem = wrong(brisk, folder / model, np.load(golden), folder)
                if model in REFUSED and problem.startswith("exit 3: "):
                    continue
                passed, failed = passed + (not problem), failed + bool(problem)
                if problem:
                    print(f"FAIL {model}: {problem}")
    return passed, failed


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("brisk", nargs="?", default=str(ROOT / "build/bin/brisk"))
    p.add_argument("--filter", default="")
    a = p.parse_args()
    passed, failed = run_all(a.brisk, a.filter)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
