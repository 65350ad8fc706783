#!/usr/bin/env python3
"""What each precision costs in perplexity, on weights off every quantisation grid, beside llama.cpp's quantisers.

usage: bench/perplexity.py [--threads 2] [--text NAME]... [--precision P]... [--max-windows N] [--json OUT]
       (`make perplexity` installs and builds what it needs first; the texts stand in bench/texts.lock)

Model: SmolLM2 with noise of half a 4-bit step (tools/oracles/make_offgrid.py); the public weights were 4-bit once, so
their own blocks would look lossless. Windows of 512 tokens without overlap, no BOS since this tokenizer adds none, the
second half of each scored. brisk (`brisk eval`) scores tokens 256 to 511 of a window; llama-perplexity leaves out
token 256, so its perplexity is of 255 tokens a window. Each is compared with its own fp32 file over the same tokens:
what is told is the increase, per text. Exits 1 if a bar does not hold on a text.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import texts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import models

BARS = {"bf16": 0.2, "int8w": 0.3, "int8": 0.5}  # percent, at most; int4w: half of Q4_0's increase
PRECISIONS = [*BARS, "int4w"]
QUANTISERS = ["Q8_0", "Q4_0", "Q4_1"]


def brisk(precision, text, args):
    limit = ["--max-windows", args.max_windows] if args.max_windows else []
    out = json.loads(models.run(models.BRISK, "eval", models.engine("offgrid", precision), "--text", text, "--against",
                                models.engine("offgrid", "fp32"), "--threads", args.threads, "--json", "--log-level", "warning", *limit))
    out["increase_percent"] = 100 * (out["perplexity"] / out["against_perplexity"] - 1)
    return out


def llama(kind, text, args):
    """Perplexity and windows by llama-perplexity."""
    limit = ["--chunks", args.max_windows] if args.max_windows else []
    command = [models.LLAMA / "b/bin/llama-perplexity", "-m", models.gguf("offgrid", kind), "-f", text, "--no-escape", "-c", 512,
               "-b", 512, "-t", args.threads, *limit]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    said = done.stdout + done.stderr
    final, windows = re.search(r"Final estimate: PPL = ([0-9.]+)", said), re.search(r"perplexity over (\d+) chunks", said)
    if done.returncode != 0 or not final or not windows:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{said[-3000:]}")
    return {"perplexity": float(final.group(1)), "windows": int(windows.group(1))}


def measure(name, path, args):
    """One text: {"brisk": {precision: ...}, "llama.cpp": {quantiser: ...}}."""
    peers = {"F32": llama("F32", path, args)}
    for kind in QUANTISERS:
        peers[kind] = llama(kind, path, args)
        peers[kind]["increase_percent"] = 100 * (peers[kind]["perplexity"] / peers["F32"]["perplexity"] - 1)
    mine = {}
    for precision in args.precision or PRECISIONS:
        mine[precision] = brisk(precision, path, args)
        if mine[precision]["windows"] != peers["F32"]["windows"]:
            sys.exit(f"{name}: brisk sees {mine[precision]['windows']} windows, llama.cpp {peers['F32']['windows']}: other tokens")
        print(f"{name} {precision}: {mine[precision]['increase_percent']:+.2f} %", file=sys.stderr, flush=True)
    return {"brisk": mine, "llama.cpp": peers}


def bar(precision, result):
    return BARS[precision] if precision in BARS else result["llama.cpp"]["Q4_0"]["increase_percent"] / 2


def table(results):
    names = list(results)
    first = results[names[0]]
    yield "| increase over fp32, % | " + " | ".join(
        f"{n} ({r['llama.cpp']['F32']['windows']} windows)" for n, r in results.items()) + " | at most |"
    yield "|---" * (len(names) + 2) + "|"
    for precision in first["brisk"]:
        cells = [f"{r['brisk'][precision]['increase_percent']:+.2f}" for r in results.values()]
        limit = f"{BARS[precision]}" if precision in BARS else "half of Q4_0"
        yield f"| brisk {precision} | " + " | ".join(cells) + f" | {limit} |"
    for kind in QUANTISERS:
        yield f"| llama.cpp {kind} | " + " | ".join(f"{r['llama.cpp'][kind]['increase_percent']:+.2f}" for r in results.values()) + " | |"
    yield "| perplexity in fp32, brisk / llama.cpp | " + " | ".join(
        f"{next(iter(r['brisk'].values()))['against_perplexity']:.2f} / {r['llama.cpp']['F32']['perplexity']:.2f}" for r in results.values()) + " | |"
    yield "| same top token as fp32, %: " + ", ".join(first["brisk"]) + " | " + " | ".join(
        ", ".join(f"{100 * b['top_agreement']:.1f}" for b in r["brisk"].values()) for r in results.values()) + " | |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--text", action="append")
    parser.add_argument("--precision", action="append", choices=PRECISIONS)
    parser.add_argument("--max-windows", type=int, default=0)
    parser.add_argument("--json", default=str(models.ROOT / "build/peers/perplexity.json"))
    args = parser.parse_args()
    paths = texts.texts()
    unknown = set(args.text or []) - set(paths)
    if unknown:
        parser.error(f"no text {', '.join(sorted(unknown))}; there are {', '.join(paths)}")
    results = {n: measure(n, p, args) for n, p in paths.items() if not args.text or n in args.text}
    with open(args.json, "w") as out:
        json.dump(results, out, indent=1)
    print(*table(results), sep="\n")
    over = [f"{precision} on {name}: {b['increase_percent']:+.2f} %, at most {bar(precision, r):.2f} %" for name, r in results.items()
            for precision, b in r["brisk"].items() if b["increase_percent"] > bar(precision, r)]
    print("bars: " + ("all hold" if not over else "DO NOT HOLD: " + "; ".join(over)))
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
