#!/usr/bin/env python3
"""Times brisk beside llama.cpp on the real SmolLM2: time to first token of 512 tokens, time per token after them.

usage: bench/peers/compare.py [--width int8 --width int4w --width bf16] [--pairs 9] [--threads 2] [--json OUT]
       (`make peers` installs and builds what it needs first)

The machine must be quiet. Contestants take turns in ABBA order; a turn is a fresh process, a warm-up and three
repetitions with random prompts, its figure their median. llama.cpp runs with the settings that a trial before the
first turn shows to be its best (flash attention, repacking), for each figure its own. What is compared is the ratio
inside each pair, told as median and range over the pairs; the bar, faster in each, holds if the worst pair holds it.
brisk's time to first token runs from the request's arrival at its loop to the sampled id, llama.cpp's (llama-bench)
over the evaluation of the prompt alone. Both decode 64 tokens at a depth of 512.
Exits 1 if a bar does not hold.
"""
import argparse
import itertools
import json
import platform
import statistics
import subprocess
import sys

import models

WIDTHS = {"int8": "Q8_0", "int4w": "Q4_0", "bf16": "BF16"}
FIGURES = {"ttft_ms": "TTFT(512)", "tpot_ms": "TPOT"}
PROMPT, GENERATED, REPETITIONS = 512, 64, 3


def brisk(engine, threads):
    out = json.loads(models.run(models.BRISK, "bench", engine, "--prompt-len", PROMPT, "--gen-len", GENERATED, "--requests", REPETITIONS,
                                "--threads", threads, "--json", "--log-level", "warning"))
    return {"ttft_ms": out["ttft_ms"]["p50"], "tpot_ms": out["tpot_ms"]["p50"]}


def llama_bench(file, threads, *arguments):
    out = models.run(models.LLAMA / "b/bin/llama-bench", "-m", file, "-t", threads, "-r", REPETITIONS, "-o", "jsonl", *arguments)
    return json.loads(out)


def llama_figure(file, threads, figure, setting):
    tokens = ["-p", PROMPT, "-n", 0] if figure == "ttft_ms" else ["-p", 0, "-n", GENERATED, "-d", PROMPT]
    out = llama_bench(file, threads, *tokens, *setting)
    return statistics.median(out["samples_ns"]) / 1e6 / (1 if figure == "ttft_ms" else GENERATED)


def best_settings(file, threads):
    settings = [("-fa", fa, "--repack", repack) for fa, repack in itertools.product(("on", "off"), ("1", "0"))]
    return {figure: min(settings, key=lambda s: llama_figure(file, threads, figure, s)) for figure in FIGURES}


def bounds(engine, width, threads):
    """The least times that this machine allows brisk, and the bytes a decode step reads: {figure: ms}, bytes."""
    c, weights = models.config("smollm2"), models.weight_bytes(engine)
    limits = json.loads(models.run(models.ROOT / "build/bin/device_limits", threads, max(1, weights >> 20)))
    hidden, inner, layers, heads = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"], c["num_attention_heads"]
    head_dim, kv = hidden // heads, c["num_key_value_heads"] * (hidden // heads)
    floats = max(limits["fp32_ops"], limits.get("bf16_ops", 0))
    linear = 2 * layers * hidden * (2 * hidden + 2 * kv + 3 * inner) * PROMPT + 2 * hidden * c["vocab_size"]
    attention = layers * 4 * heads * head_dim * PROMPT * (PROMPT + 1) // 2
    keys = layers * 2 * kv * 2 * (PROMPT + GENERATED // 2)  # 16 bits each
    seconds = linear / (floats if width == "bf16" else limits["int8_ops"]) + attention / floats
    return {"ttft_ms": 1e3 * seconds, "tpot_ms": 1e3 * (weights + keys) / limits["read_bytes_per_s"]}, weights + keys, limits


def compare(width, pairs, threads):
    engine, file = models.engine("smollm2", width), models.gguf("smollm2", WIDTHS[width])
    settings = best_settings(file, threads)
    contestants = {"brisk": lambda: brisk(engine, threads),
                   "llama.cpp": lambda: {f: llama_figure(file, threads, f, settings[f]) for f in FIGURES}}
    bound, step_bytes, limits = bounds(engine, width, threads)
    taken = []
    for pair in range(pairs):
        order = list(contestants) if pair % 2 == 0 else list(contestants)[::-1]
        times = {name: contestants[name]() for name in order}
        taken.append(times)
        print(f"{width} pair {pair + 1} of {pairs}: " + ", ".join(
            f"{FIGURES[f]} {times['brisk'][f]:.2f} / {times['llama.cpp'][f]:.2f} ms" for f in FIGURES), file=sys.stderr, flush=True)
    after = bounds(engine, width, threads)
    bound = {f: min(bound[f], after[0][f]) for f in FIGURES}
    rows = {}
    for f in FIGURES:
        ratios = sorted(t["brisk"][f] / t["llama.cpp"][f] for t in taken)
        mine, peer = (statistics.median(t[name][f] for t in taken) for name in contestants)
        rows[f] = {"brisk": mine, "llama.cpp": peer, "ratio": statistics.median(ratios), "best": ratios[0], "worst": ratios[-1],
                   "bound_ms": bound[f], "percent_of_bound": 100 * bound[f] / mine, "llama_settings": " ".join(settings[f])}
    return {"width": width, "peer": WIDTHS[width], "figures": rows, "pairs": taken, "limits": limits,
            "bytes_per_token": {"brisk": step_bytes, "llama.cpp": file.stat().st_size}}


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def table(results):
    yield "| width | figure | brisk ms | llama.cpp ms | ratio, median (best to worst pair) | of the machine's bound | llama.cpp's settings |"
    yield "|---|---|---|---|---|---|---|"
    for r in results:
        for f, row in r["figures"].items():
            yield (f"| {r['width']} / {r['peer']} | {FIGURES[f]} | {row['brisk']:.2f} | {row['llama.cpp']:.2f} | {row['ratio']:.2f} "
                   f"({row['best']:.2f} to {row['worst']:.2f}) | {row['percent_of_bound']:.0f} % | `{row['llama_settings']}` |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", action="append", choices=list(WIDTHS))
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", default=str(models.ROOT / "build/peers/llama_cpp.json"))
    args = parser.parse_args()
    widths = args.width or list(WIDTHS)
    for width in widths:  # all files before any clock
        models.engine("smollm2", width), models.gguf("smollm2", WIDTHS[width])
    results = [compare(width, args.pairs, args.threads) for width in widths]
    commit = subprocess.run(["git", "-C", models.ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    with open(args.json, "w") as out:
        json.dump({"machine": processor(), "threads": args.threads, "commit": commit, "results": results}, out, indent=1)
    print(*table(results), sep="\n")
    print(f"{processor()}, {args.threads} threads, {args.pairs} pairs; bytes read a token: " + ", ".join(
        f"{r['width']} {r['bytes_per_token']['brisk'] / 1e6:.0f} MB ({r['peer']} file {r['bytes_per_token']['llama.cpp'] / 1e6:.0f})"
        for r in results))
    slower = [f"{r['width']} {FIGURES[f]}" for r in results for f, row in r["figures"].items() if row["worst"] >= 1]
    print("bar: faster in each: " + ("holds in the worst pair" if not slower else "DOES NOT HOLD: " + ", ".join(slower)))
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
