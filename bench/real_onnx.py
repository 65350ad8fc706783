#!/usr/bin/env python3
"""The real ONNX models: are their outputs right, and how long does a call take beside onnxruntime's?

usage: bench/real_onnx.py [--pairs N] [--threads N] [--table] [ID...]     (`make real-models` runs it for all and writes the table)
Each model is built (fp32), compared with all its goldens (tests/onnx/real_models.py), then timed on the inputs of the
first: N pairs in ABBA order, brisk by `brisk bench ENGINE --inputs`, onnxruntime by its C library with bound inputs and
outputs, both with the same threads; the ratio is the median over the pairs. --table writes docs/real-models.md from what
this and earlier runs measured (.cache/real-onnx-times.json). Exits 1 where a result is wrong or a bar does not hold:
no model slower than twice onnxruntime's time, the geometric mean of the ratios at most 1.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/onnx"))
import numpy as np  # noqa: E402
import real_models  # noqa: E402

TIMES = ROOT / ".cache/real-onnx-times.json"
TABLE = ROOT / "docs/real-models.md"
SLOWEST, MEAN = 2.0, 1.0
# What is known of results that are not onnxruntime's.
NOTES = {"kokoro-int8": " The model rounds durations that int8 activations computed; with weights changed in their last bit onnxruntime's own"
                        " lengths go from 22,800 to 27,600 (`tools/oracles/sensitivity.py`). The LSTMs, where the durations come from, are"
                        " onnxruntime's to 1e-6 (contrib cases dynamic_lstm_*)."}
SECONDS = 0.15  # of calls in each half of a pair


class Onnxruntime:
    def __init__(self, model, given, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        for name, value in given.items():
            self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)))
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)
        self.call = lambda: self.session.run_with_iobinding(self.binding)
        try:
            for _ in range(2):  # the second call has the first one's results to write into
                self.call()
        except RuntimeError:  # a file that declares results of another rank than they have
            self.call = lambda: self.session.run(None, given)
            self.call()

    def median_ms(self, calls):
        times = []
        for _ in range(calls):
            begin = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - begin)
        return 1e3 * statistics.median(times)


def brisk_ms(engine, inputs, calls, threads):
    out = subprocess.run([real_models.BRISK, "bench", engine, "--inputs", inputs, "--requests", str(calls), "--threads",
                          str(threads), "--json"], capture_output=True, text=True, check=True, timeout=120).stdout
    return json.loads(out)["latency_ms"]["p50"]


def measure(name, options, folder):
    model, goldens = real_models.MODELS / name / "model.onnx", real_models.goldens_of(name, True)
    engine, inputs = f"{folder}/{name}.engine", f"{folder}/in.npz"
    wrong = real_models.build(model, engine)
    failures = [f"{g.stem}: {w}" for g in goldens if (w := wrong or real_models.run(engine, g, real_models.kind_of(name)))]
    row = {"kind": real_models.kind_of(name), "bytes": model.stat().st_size, "goldens": len(goldens), "failures": failures}
    if wrong or not options.pairs:
        return row
    data = np.load(goldens[0])
    given = {key[3:]: data[key] for key in data.files if key.startswith("in:")}
    np.savez(inputs, **given)
    peer = Onnxruntime(model, given, options.threads)
    calls = max(3, min(200, int(1e3 * SECONDS / max(peer.median_ms(3), 0.01))))
    brisk_ms(engine, inputs, calls, options.threads)  # pages of the file
    pairs = []
    for i in range(options.pairs):
        if i % 2 == 0:
            ours = brisk_ms(engine, inputs, calls, options.threads)
            theirs = peer.median_ms(calls)
        else:
            theirs = peer.median_ms(calls)
            ours = brisk_ms(engine, inputs, calls, options.threads)
        pairs.append((ours, theirs))
    ratios = sorted(a / b for a, b in pairs)
    return row | {"brisk_ms": statistics.median(p[0] for p in pairs), "onnxruntime_ms": statistics.median(p[1] for p in pairs),
                  "ratio": statistics.median(ratios), "ratio_low": ratios[0], "ratio_high": ratios[-1], "pairs": len(pairs),
                  "threads": options.threads}


def geometric_mean(rows):
    ratios = [r["ratio"] for r in rows.values() if "ratio" in r]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def table(rows):
    lines = ["# Real ONNX models", "",
             "Made by `make real-models` (`bench/real_onnx.py`): models out of public wheels (tests/material/real_onnx.json), compared with",
             "onnxruntime 1.32's outputs at the material's sizes and at other batch sizes and lengths, and timed beside it: two threads,",
             "ABBA pairs, median ratio with its least and largest. Kinds and their tolerances: tests/onnx/real_models.py.", "",
             "| model | MB | kind | right at | brisk ms | onnxruntime ms | ratio |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, r in rows.items():
        right = r["goldens"] - len(r["failures"])
        timed = [f"{r['brisk_ms']:.3g}", f"{r['onnxruntime_ms']:.3g}", f"{r['ratio']:.2f} ({r['ratio_low']:.2f} to {r['ratio_high']:.2f})"] if "ratio" in r else ["", "", ""]
        lines.append(f"| {name} | {r['bytes'] / 1e6:.1f} | {r['kind']} | {right} of {r['goldens']} sizes | " + " | ".join(timed) + " |")
    slow = [name for name, r in rows.items() if r.get("ratio", 0) > SLOWEST]
    whole = sum(not r["failures"] for r in rows.values())
    lines += ["", f"{whole} of {len(rows)} models are right at all sizes. Geometric mean of the ratios {geometric_mean(rows):.2f} (below 1: brisk is faster); "
              f"slower than {SLOWEST:g} times: {', '.join(slow) or 'none'}."]
    for name, r in rows.items():
        lines += [f"\nNot right: {f}." + NOTES.get(name, "") for f in r["failures"]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9, help="0: only compare outputs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("ids", nargs="*")
    options = parser.parse_args()
    listed = list(json.loads((real_models.MATERIAL / "real_onnx.json").read_text()))
    names = options.ids or listed
    real_models.fetch(names)
    known = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            row = known[name] = measure(name, options, folder)
            print(f"{name:14} {row.get('brisk_ms', 0):9.3f} {row.get('onnxruntime_ms', 0):9.3f} ms  ratio {row.get('ratio', 0):6.2f}  "
                  f"{'; '.join(row['failures']) or 'right'}", flush=True)
            TIMES.write_text(json.dumps(known, indent=1))
    rows = {name: known[name] for name in listed if name in known}
    if options.table:
        TABLE.write_text(table(rows))
    measured = {name: rows[name] for name in names}
    print(f"geometric mean {geometric_mean(measured):.3f}")
    bad = [n for n, r in measured.items() if r["failures"] or r.get("ratio", 0) > SLOWEST]
    if options.pairs and not geometric_mean(measured) <= MEAN:
        bad.append("geometric mean")
    print(f"{len(measured) - len([b for b in bad if b in measured])} passed, {len(bad)} failed" + (f": {', '.join(bad)}" if bad else ""))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
