"""Transformers as torch's exporters write them (tests/material/export_zoo.py), against PyTorch's outputs.

usage: exports.py small OUT_DIR     makes the few of tests/data/exports anew, smaller than the zoo's, and compares their outputs
                                    with the committed ones
                                    (legacy-bert, dynamo-llama and dynamo-past-gpt2 there are the zoo's own, for the tests of passes)
       exports.py zoo OUT_DIR       exports the whole zoo (legacy 17, dynamo 18 and 23, each with and without past) and sends
                                    every file through `brisk build` and `brisk run` at three sizes, against PyTorch
Exits 1 where something differs by more than 1e-4 of the largest value; rows of padding are not compared.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "tests/data/exports"
BRISK = os.environ.get("BRISK", str(ROOT / "build/bin/brisk"))
SMALL = ["dynamo23-qwen3", "legacy-past-phi3", "dynamo-gemma2", "legacy-gptneox", "dynamo23-past-mistral", "legacy-t5-enc", "dynamo-vit"]
WAYS = {"legacy": 17, "dynamo": 18, "dynamo23": 23, "legacy-past": 17, "dynamo-past": 18, "dynamo23-past": 23}
SIZES = [(2, 7), (3, 11), (1, 1)]  # batch, length; the first is the traced one
TOLERANCE = 1e-4


def load_zoo(small):
    spec = importlib.util.spec_from_file_location("export_zoo", ROOT / "tests/material/export_zoo.py")
    zoo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zoo)
    zoo.check = lambda *_: {}  # its own check needs onnxruntime, and is not ours
    if small:
        narrow = {"vocab_size": 64, "hidden_size": 32, "n_embd": 32, "dim": 32, "d_model": 32, "intermediate_size": 48,
                  "max_position_embeddings": 32, "n_positions": 32, "d_kv": 8, "d_ff": 48, "hidden_dim": 48, "head_dim": 8,
                  "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
        zoo.V, zoo.H = 64, 32
        for name, (kind, config, model, values) in zoo.MODELS.items():
            zoo.MODELS[name] = (kind, config, model, {k: narrow.get(k, v) for k, v in values.items()})
    return zoo


def wrapped(zoo, way, name):
    """(kind, configuration, module of flat tensors, has a past, names of outputs)"""
    kind, config, model = zoo.build(name)
    past = way.endswith("-past")
    module = (zoo.Past(model, zoo.L) if past else zoo.Dec(model) if kind == "dec" else zoo.Enc(model, kind)).eval()
    outputs = ["logits"] + [f"present.{i}.{k}" for i in range(zoo.L) for k in ("key", "value")] * past
    return kind, config, module, past, outputs if kind == "dec" else ["out"]


def golden(zoo, parts, batch, length):
    """Inputs and PyTorch's outputs at a size, as npz arrays."""
    import torch
    kind, config, module, past, outputs = parts
    x, names, _ = zoo.sample(kind, config, past, b=batch, n=length)
    with torch.no_grad():
        y = module(*x)
    y = y if isinstance(y, tuple) else (y,)
    return {"in:" + n: v.numpy() for n, v in zip(names, x)} | {"out:" + n: v.numpy() for n, v in zip(outputs, y)}


def only_inputs_of(model, arrays):
    """Exporters drop inputs that nothing reads."""
    import onnx
    known = {i.name for i in onnx.load(str(model), load_external_data=False).graph.input}
    return {k: v for k, v in arrays.items() if not k.startswith("in:") or k[3:] in known}


def export(zoo, way, name, folder):
    zoo.export(name, way, str(folder), WAYS[way])
    return folder / way / name / "model.onnx"


def far(arrays, got):
    """The largest difference over the largest value, rows of padding left out."""
    worst = 0.0
    mask = arrays.get("in:attention_mask")
    for key in (k for k in arrays if k.startswith("out:")):
        want, have = arrays[key], got[key[4:]]
        if want.shape != have.shape:
            return np.inf
        d = np.abs(want.astype(np.float64) - have)
        if mask is not None and want.ndim == 3 and want.shape[0] == mask.shape[0] and want.shape[1] <= mask.shape[1]:
            d = d * mask[:, -want.shape[1]:, None]
        worst = max(worst, d.max() / np.abs(want).max())
    return worst


def stripped(path):
    """The file without what exporters note for debugging (half of it): stack traces, documentation, inferred shapes."""
    import onnx
    model = onnx.load(str(path))
    del model.graph.value_info[:]
    for thing in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del thing.metadata_props[:]
        thing.doc_string = ""
    return model.SerializeToString()


def make_small(out):
    zoo, wrong = load_zoo(True), 0
    for label in SMALL:
        way = max((w for w in WAYS if label.startswith(w + "-")), key=len)
        name = label[len(way) + 1:]
        model = export(zoo, way, name, out / "raw")
        folder = out / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(stripped(model))
        parts = wrapped(zoo, way, name)
        for i, size in enumerate(SIZES):
            arrays = only_inputs_of(model, golden(zoo, parts, *size))
            file = "io.npz" if i == 0 else f"io@{i}.npz"
            np.savez_compressed(folder / file, **arrays)
            if not (COMMITTED / label / file).exists():
                continue
            old = np.load(COMMITTED / label / file)
            if sorted(old.files) != sorted(arrays) or far(arrays, {k[4:]: old[k] for k in old.files if k.startswith("out:")}) > TOLERANCE:
                wrong += 1
                print(f"{label}/{file} differs from the committed one")
    return wrong


def check_zoo(out):
    zoo, wrong = load_zoo(False), 0
    for way in WAYS:
        for name, (kind, *_) in zoo.MODELS.items():
            if way.endswith("-past") and kind != "dec":
                continue
            zoo.EXPERTS = "batched_mm" if name in ("mixtral", "qwen3-moe") else None
            try:
                model = export(zoo, way, name, out)
            except Exception as error:  # what this exporter cannot write (falcon at opset 23) is not ours to judge
                print(f"skip {way} {name}: not exported ({type(error).__name__})", flush=True)
                continue
            wrong += not check_one(zoo, way, name, model)
    return wrong


def check_one(zoo, way, name, model):
    parts = wrapped(zoo, way, name)
    with tempfile.TemporaryDirectory() as folder:
        engine = f"{folder}/m.engine"
        done = subprocess.run([BRISK, "build", model, "-o", engine, "--precision", "fp32", "--log-level", "error", "--disable-pass",
                               "convert-decoder"], capture_output=True, text=True)
        said = [] if done.returncode == 0 else [done.stderr.strip()[-200:]]
        for size in SIZES if not said else []:
            arrays = only_inputs_of(model, golden(zoo, parts, *size))
            np.savez(f"{folder}/in.npz", **{k[3:]: v for k, v in arrays.items() if k.startswith("in:")})
            done = subprocess.run([BRISK, "run", engine, "--inputs", f"{folder}/in.npz", "--outputs", f"{folder}/out.npz"],
                                  capture_output=True, text=True)
            d = far(arrays, np.load(f"{folder}/out.npz")) if done.returncode == 0 else np.inf
            if not d <= TOLERANCE:
                said.append(f"{size}: {d:.2g} {done.stderr.strip()[-200:]}")
    print(f"{'FAIL' if said else 'ok  '} {way} {name} {'; '.join(said)}", flush=True)
    return not said


def main():
    what, out = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = {"small": make_small, "zoo": check_zoo}[what](out)
    print(f"{wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
