"""SmolLM2 in every form that the comparisons need, each made once in build/peers/models.

Sources: "smollm2" is the public model as a plain Hugging Face folder, "offgrid" the same with weights off every
quantisation grid (tools/oracles/make_offgrid.py). Both contestants start from the same folder: llama.cpp converts it with
its own script and quantises it with its own tool. brisk compiles the folder, or for perplexity the converted F32 file: the
folder's tokenizer.json, written by transformers from a GGUF, cuts spaces before digits otherwise than the model's makers and
llama.cpp do, and windows must hold the same tokens.
"""
import hashlib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRISK = ROOT / "build/bin/brisk"
LLAMA = ROOT / "build/peers/llama.cpp"
PYTHON = ROOT / ".venv-oracles/bin/python"  # torch, transformers
GGUF = ROOT / ".cache/SmolLM2-135M-Instruct.Q4_1.gguf"
MODELS = ROOT / "build/peers/models"


def run(*command):
    """stdout of a command that must succeed; what it said otherwise is shown."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def made(target, command):
    """Runs command(part) unless target is there; a run that is cut short leaves no target."""
    if not target.exists():
        print(f"making {target.relative_to(ROOT)}", file=sys.stderr, flush=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name("part-" + target.name)
        run(*command(part))
        part.rename(target)
    return target


def folder(source):
    if source == "smollm2":
        return made(MODELS / "smollm2", lambda part: [PYTHON, ROOT / "tools/oracles/make_hf.py", GGUF, part])
    return made(MODELS / "offgrid", lambda part: [PYTHON, ROOT / "tools/oracles/make_offgrid.py", folder("smollm2"), part])


def gguf(source, kind):
    """kind: F32, or what llama-quantize knows."""
    whole = made(MODELS / f"{source}-F32.gguf", lambda part: [
        PYTHON, LLAMA / "convert_hf_to_gguf.py", folder(source), "--outtype", "f32", "--outfile", part])
    if kind == "F32":
        return whole
    return made(MODELS / f"{source}-{kind}.gguf", lambda part: [LLAMA / "b/bin/llama-quantize", whole, part, kind])


def engine(source, precision, *options):
    """Compiled anew when the compiler has changed."""
    target = MODELS / f"{source}-{'-'.join([precision, *options]).replace('/', '_')}.engine"
    stamp, compiler = target.with_suffix(".made-by"), hashlib.sha256(BRISK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != compiler:
        target.unlink(missing_ok=True)
    model = gguf(source, "F32") if source == "offgrid" else folder(source)
    made(target, lambda part: [BRISK, "build", model, "-o", part, "--precision", precision, *options])
    stamp.write_text(compiler)
    return target


def weight_bytes(path):
    """Bytes of an engine's weights: with tied embeddings a decode step reads each of them once."""
    return json.loads(run(BRISK, "inspect", path, "--json"))["weight_bytes"]


def config(source):
    return json.loads((folder(source) / "config.json").read_text())
