#!/usr/bin/env python3
"""How long a build of BERT-large in fp32 takes, and what its engine's temporaries are, against their bars.

usage: .venv-oracles/bin/python bench/bert_large.py [--threads N] [--folder DIR]     (DIR on tmpfs, default /dev/shm)
The model: transformers' BertModel of BERT-large's sizes with seeded random weights, by torch's legacy exporter (1.3 GB, made
once in DIR). Two builds, one after the other (brisk times nothing yet while it builds: they differ by caches alone). Bars: 60 s, 10 s, and an arena of at most 1.2 times the most that is alive at once. Exits 1 where one does not hold.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BRISK = os.environ.get("BRISK", str(ROOT / "build/bin/brisk"))
COLD_S, WARM_S, ARENA = 60, 10, 1.2
NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def export(path):
    import torch
    import transformers
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    bert = transformers.BertModel(config, add_pooling_layer=False).eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.bert(input_ids, attention_mask, token_type_ids)[0]

    ids = torch.randint(0, config.vocab_size, (1, 128))
    part = path.with_suffix(".part")
    with torch.no_grad():
        torch.onnx.export(Hidden(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(part), dynamo=False, opset_version=17,
                          input_names=NAMES, output_names=["hidden"], dynamic_axes={n: {0: "batch", 1: "seq"} for n in NAMES + ["hidden"]})
    part.rename(path)


def build(model, engine, threads):
    profile = ";".join(f"{n}:1x1,1x128,8x512" for n in NAMES)
    begin = time.monotonic()
    subprocess.run([BRISK, "build", model, "-o", engine, "--precision", "fp32", "--threads", str(threads), "--profile", profile,
                    "--log-level", "error"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/dev/shm/brisk-bert-large"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    model, engine = options.folder / "model.onnx", options.folder / "model.engine"
    if not model.exists():
        export(model)
    cold, warm = build(model, engine, options.threads), build(model, engine, options.threads)
    report = json.loads(subprocess.run([BRISK, "inspect", engine, "--json"], capture_output=True, text=True, check=True).stdout)
    function = report["functions"][0]
    share = max(c["bytes"] / c["live_bytes"] for c in function["arena"])
    steps = len(function["steps"])
    bad = [name for name, holds in (("cold", cold <= COLD_S), ("warm", warm <= WARM_S), ("arena", share <= ARENA)) if not holds]
    print(f"build cold {cold:.1f} s (bar {COLD_S}), again {warm:.1f} s (bar {WARM_S}); {steps} steps, {(steps - 4) / 24:.1f} a layer; "
          f"arena {share:.3f} of what is alive (bar {ARENA})")
    print(f"{3 - len(bad)} passed, {len(bad)} failed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
