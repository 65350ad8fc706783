#!/usr/bin/env python3
"""Operators of com.microsoft and ai.onnx.ml against onnxruntime's results (tools/oracles/contrib.py made tests/data/contrib.npz).

usage: tests/onnx/contrib.py [BRISK] [NAME...]
Each case is one model through `brisk run`. Quantised results may differ by one code, floats by 1e-4 of the larger of 1 and the
value. Closes with "N passed, N failed".
"""
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/data/contrib.npz"


def difference(want, got):
    if want.shape != got.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if want.dtype != got.dtype:
        return f"type {got.dtype}, wanted {want.dtype}"
    if want.dtype in (np.uint8, np.int8, np.uint16, np.int16):
        far = np.abs(want.astype(np.int64) - got.astype(np.int64)) > 1
    elif want.dtype.kind in "iub":
        far = want != got
    else:
        far = ~np.isclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)
    return f"{far.sum()} of {far.size} elements are off, first {got[far][0]}, wanted {want[far][0]}" if far.any() else None


def run(brisk, folder, case):
    model, inputs, outputs = folder / "model.onnx", folder / "in.npz", folder / "out.npz"
    model.write_bytes(case["model"].tobytes())
    np.savez(inputs, **case["in"])
    done = subprocess.run([brisk, "run", model, "--inputs", inputs, "--outputs", outputs], capture_output=True, text=True, timeout=60)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
    with np.load(outputs) as results:
        if sorted(results.files) != sorted(case["out"]):
            return f"results {results.files}, wanted {list(case['out'])}"
        for name, want in case["out"].items():
            problem = difference(want, results[name])
            if problem:
                return f"result {name}: {problem}"
    return None


def main():
    brisk = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/bin/brisk")
    cases = collections.defaultdict(lambda: {"in": {}, "out": {}})
    with np.load(GOLDENS) as goldens:
        for key in goldens.files:
            name, kind, *rest = key.split("/")
            if kind == "model":
                cases[name]["model"] = goldens[key]
            else:
                cases[name][kind][rest[0]] = goldens[key]
    wanted = sys.argv[2:] or sorted(cases)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            problem = run(brisk, pathlib.Path(folder), cases[name])
            if problem:
                failed += 1
                print(f"{name}: {problem}")
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
