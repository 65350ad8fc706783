#!/usr/bin/env python3
"""The ONNX backend suite (tests/material/run_onnx_suite.py makes it from the onnx package) through `brisk run`.

usage: tests/onnx/suite.py [BRISK] [--seed N] [--update] [--write-coverage]
A test must pass unless tests/onnx/open.txt lists it; a listed one is refused (exit 3) or an error, never a crash, and a
wrong answer only where the list says "rounding". --update rewrites the list from this run. docs/onnx-coverage.md must be what
the run gives (seed 0); --write-coverage writes it. Closes with "N passed, N failed".
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

import coverage_page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUNNER = ROOT / "tests/material/run_onnx_suite.py"
OPEN = HERE / "open.txt"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("brisk", nargs="?", default=str(ROOT / "build/bin/brisk"))
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--update", action="store_true")
    p.add_argument("--write-coverage", action="store_true")
    a = p.parse_args()
    folder = ROOT / f"build/onnx-suite-{a.seed}"
    if not (folder / "tol.json").exists():
        subprocess.run([sys.executable, RUNNER, "gen", folder, "--seed", str(a.seed)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report = folder / "result.json"
    command = f"{a.brisk} run {{model}} --pb {{inputs}} --out-dir {{outdir}}"
    subprocess.run([sys.executable, RUNNER, "run", folder, "--core", "--cmd", command, "--json", report], stdout=subprocess.DEVNULL)
    results = json.loads(report.read_text())
    if len(results) < 1900:
        sys.exit(f"suite.py: only {len(results)} tests ran")
    if a.update:
        OPEN.write_text("".join(f"{name}{' rounding' if state == 'MISMATCH' else ''}\n"
                                for name, (state, _) in sorted(results.items()) if state != "PASS"))
    known = dict((line.split() + [""])[:2] for line in OPEN.read_text().splitlines())
    failed = 0
    for name, (state, why) in sorted(results.items()):
        if state == "PASS" or (name in known and state in ("UNSUPPORTED", "ERROR")):
            continue
        if state == "MISMATCH" and known.get(name) == "rounding":
            continue
        failed += 1
        print(f"{state} {name}: {why}")
    states = collections.Counter(state for state, _ in results.values())
    now = sorted(name for name in known if results.get(name, ["", ""])[0] == "PASS")
    if now:
        print("pass now, to be taken off tests/onnx/open.txt:", *now)
    if a.seed == 0 and not coverage_page.is_current(folder, results, a.write_coverage):
        failed += 1
        print("docs/onnx-coverage.md is not what this run gives: tests/onnx/suite.py --write-coverage, and look at the difference")
    print(dict(states))
    print(f"{states['PASS']} passed, {failed} failed, {max(0, len(results) - states['PASS'] - failed)} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
