#!/usr/bin/env python3
"""Regenerates every golden of the tests with its oracle and compares it with the committed file.

usage: .venv-oracles/bin/python tools/oracles/regenerate.py [name...]     (`make oracles` makes the environment first)
New files are left in build/oracles; copy one over its golden to accept it. Ends with "N passed, N failed".
"""
import json
import math
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "oracles"
GGUF = ROOT / ".cache" / "SmolLM2-135M-Instruct.Q4_1.gguf"
HF = OUT / "smollm2-hf"  # made on first use

# name -> (committed files, script and arguments). {out} stands for the new file, {dir} for the folder in which several are
# written under their own names, {hf} and {gguf} for SmolLM2; a command with neither {out} nor {dir} writes to stdout. One without
# committed files compares by itself and tells by its exit code.
ORACLES = {
    "greedy": ("tests/data/smollm2_greedy.json", "tools/oracles/greedy.py {hf} {out}"),
    "rope": ("tests/data/rope_frequencies.json", "tools/oracles/rope.py {out}"),
    "families": ("tests/data/families.json", "tools/oracles/families.py tests/data/families {out}"),
    "gguf-blocks": ("tests/data/gguf_blocks.json", "tools/oracles/gguf_blocks.py {out}"),
    "tokenizers": ("tests/data/tokenizer_goldens.json tests/data/smollm2_tokens.json", "tools/oracles/tokenizer.py {dir} --smollm2 {gguf}"),
    "templates": ("tests/data/templates/golden.json", "tools/oracles/templates.py golden {out}"),
    "real-templates": ("tests/data/templates/real.json", "tools/oracles/templates.py hashes .cache/text/templates {out}"),
    "unicode": ("src/text/unicode_tables.inc", "tools/unicode/generate.py"),
    "real-onnx": ("", "tools/oracles/real_onnx.py {dir}/real-onnx"),
    "decoders": ("tests/data/decoders/decoders.json", "tools/oracles/decoders.py {dir}"),
    "onnx-opsets": ("tests/data/onnx_opsets.tar.xz", "tools/oracles/onnx_opsets.py {out}"),
    "contrib": ("", "tools/oracles/contrib.py --check tests/data/contrib.npz"),
    "exports": ("", "tools/oracles/exports.py small {dir}/exports"),
    "export-zoo": ("", "tools/oracles/exports.py zoo {dir}/zoo"),
    "dynamo": ("", "tools/oracles/dynamo.py {hf} {dir}"),
}
IGNORED = ("torch", "transformers", "tokenizers")  # the versions a file was made with
TOLERANCE = 1e-3  # of floats: another processor adds in another order


def differences(old, new, where=""):
    """Where two JSON trees differ, floats aside that differ by rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key in IGNORED:
                continue
            if key not in old or key not in new:
                yield f"{where}.{key} is only in {'the new' if key in new else 'the committed'} file"
            else:
                yield from differences(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where} has {len(old)} elements, now {len(new)}"
        for i, pair in enumerate(zip(old, new)):
            yield from differences(*pair, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not (math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(old) and math.isnan(new))):
            yield f"{where} was {old}, is {new}"
    elif type(old) is not type(new) or old != new:
        yield f"{where} was {str(old)[:60]!r}, is {str(new)[:60]!r}"


def archive(path):
    """A tar file as a tree that differences() takes: arrays of .npz members as lists, digests of the others."""
    import hashlib
    import io
    import tarfile

    import numpy as np
    tree = {}
    with tarfile.open(path) as tar:
        for member in tar:
            data = tar.extractfile(member).read()
            if member.name.endswith(".npz"):
                arrays = np.load(io.BytesIO(data))
                tree[member.name] = {k: [str(arrays[k].dtype), list(arrays[k].shape), arrays[k].astype(object).ravel().tolist()] for k in arrays.files}
            else:
                tree[member.name] = hashlib.sha256(data).hexdigest()
    return tree


def compare(golden, made):
    if golden.suffix == ".json":
        return list(differences(json.loads(golden.read_text()), json.loads(made.read_text())))
    if golden.name.endswith(".tar.xz"):
        return list(differences(archive(golden), archive(made)))
    return [] if golden.read_bytes() == made.read_bytes() else ["the bytes differ"]


def make_hf():
    if not (HF / "config.json").exists():
        subprocess.run([sys.executable, ROOT / "tools/oracles/make_hf.py", GGUF, HF], check=True)


def regenerate(name, goldens, command):
    """Runs one oracle; returns the new files, in the order of the goldens."""
    made = [OUT / golden.name for golden in goldens]
    if "{hf}" in command:
        make_hf()
    words = [word.format(out=made[0] if made else "", dir=OUT, hf=HF, gguf=GGUF) for word in command.split()]
    writes = "{out}" in command or "{dir}" in command or not made  # itself; else what it prints is the new file
    log = OUT / f"{name}.log" if writes else made[0]
    with open(log, "wb") as stdout:
        subprocess.run([sys.executable, ROOT / words[0]] + words[1:], cwd=ROOT, stdout=stdout, check=True)
    return made


def main():
    wanted = sys.argv[1:] or list(ORACLES)
    unknown = set(wanted) - set(ORACLES)
    if unknown:
        sys.exit(f"regenerate.py: no oracle {', '.join(sorted(unknown))}; there are {', '.join(ORACLES)}")
    OUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in wanted:
        goldens, command = [ROOT / path for path in ORACLES[name][0].split()], ORACLES[name][1]
        begin = time.monotonic()
        try:
            found = [f"{golden.name}: {line}" for golden, made in zip(goldens, regenerate(name, goldens, command))
                     for line in compare(golden, made)]
        except subprocess.CalledProcessError as error:
            found = [f"{error}, see {OUT.relative_to(ROOT) / name}.log"]
        verdict = "same" if not found else f"DIFFERS, {len(found)} times, the first:"
        print(f"{name}: {verdict} ({time.monotonic() - begin:.0f} s)", *found[:10], sep="\n  ", flush=True)
        failed += bool(found)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
