"""Goldens of the real ONNX models by onnxruntime: those that are too large to be committed, and other batch sizes and
lengths than the committed ones.

usage: real_onnx.py OUT_DIR [ID...]      OUT_DIR/<id>.npz and OUT_DIR/<id>@<n>.npz, n = 1, 2, ...; needs .cache/real-onnx
Inputs are seeded: of a committed golden its values, repeated and shuffled along the new axes; else uniform in [0, 1).
A file that is there already is kept. Exits 1 where one differs from the committed one (tests/data/real_onnx).
"""
import json
import pathlib
import subprocess
import sys
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / ".cache/real-onnx"
COMMITTED = ROOT / "tests/material/real_onnx"

# Inputs of models whose golden is not committed.
SHAPES = {
    "basic-pitch": {"serving_default_input_2:0": (1, 43844, 1)}, "dddd-common": {"input1": (1, 1, 64, 160)},
    "dddd-det": {"images": (1, 3, 416, 416)}, "dddd-old": {"input1": (1, 1, 64, 160)}, "deskew": {"x": (1, 3, 320, 320)},
    "dnsmos": {"input_1": (1, 144160)}, "eeg-spindle": {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)},
    "nudenet": {"images": (1, 3, 320, 320)}, "ocr4-rec": {"x": (1, 3, 48, 160)},
}
# Other sizes. What is not named stays as it was. oww-jarvis, oww-alexa and dddd-det are static.
OTHERS = {
    "ocr4-det": [{"x": (2, 3, 64, 96)}, {"x": (1, 3, 160, 224)}], "ocr4-rec": [{"x": (3, 3, 48, 96)}],
    "ocr2-cls": [{"x": (5, 3, 48, 192)}], "nudenet": [{"images": (2, 3, 128, 192)}], "deskew": [{"x": (2, 3, 320, 320)}],
    "captcha": [{"image": (3, 3, 60, 160)}], "vad": [{"input": (3, 576), "state": (2, 3, 128)}, {"input": (1, 288), "sr": 8000}],
    "vad-half": [{"input": (3, 576), "state": (2, 3, 128)}], "vad-ifless": [{"input": (2, 576), "state": (2, 2, 128)}],
    "vad-seq": [{"input": (1, 576)}, {"input": (11, 576)}], "dddd-common": [{"input1": (1, 1, 64, 97)}],
    "dddd-old": [{"input1": (1, 1, 64, 97)}], "aecmos": [{"input": (1, 3, 47, 160)}],
    "lac": [{"token_ids": (1, 31), "length": (1,)}, {"token_ids": (1, 1), "length": (1,)}],
    "eeg-seizure": [{"x": (2, 100, 37)}], "roman-enc": [{"src": (3, 17), "src_mask": (3, 17)}, {"src": (1, 1), "src_mask": (1, 1)}],
    "slovorez": [{"input_layer": (3, 29)}], "tashkeel-rawi": [{"input": (2, 33)}],
    "vf-int8": [{"stacked_logmel": (2, 7, 512), "dvec": (2, 256), "h0": (3, 2, 512), "c0": (3, 2, 512)}],
    "title-enc": [{"input_ids": (3, 21), "attention_mask": (3, 21)}], "smart-turn": [{"input_features": (2, 80, 800)}],
    "minilm-int8": [{"input_ids": (3, 21), "attention_mask": (3, 21), "token_type_ids": (3, 21)},
                    {"input_ids": (1, 1), "attention_mask": (1, 1), "token_type_ids": (1, 1)}],
    "rxnmap": [{"atoms": (1, 15), "neighbors": (1, 15), "distances": (1, 15, 15), "roles": (1, 15)}],
    "atspm-head": [{"logit": (7, 3), "Z": (7, 3, 128), "act": (7,)}], "minimol": [{"graphs": 3}],
    "atspm-decode": [{"X": (17, 25)}], "atspm-func": [{"X": (17, 229)}], "oww-mel": [{"input": (2, 8000)}],
    "lkww-mel": [{"input": (1, 12345)}], "oww-embed": [{"input_1": (3, 76, 32, 1)}], "dnsmos": [{"input_1": (2, 144160)}],
    "basic-pitch": [{"serving_default_input_2:0": (2, 43844, 1)}], "attacut": [{"input": (1, 2, 71)}],
    "deepcut": [{"input_1": (33, 21), "input_2": (33, 21)}], "atspm-pair": [{"x": (5, 15, 64)}],
    "eeg-spindle": [{"raw_signal": (2, 1, 7500), "spectrogram": (2, 15, 7500)}], "magika": [{"bytes": (4, 2048)}],
}


def resized(a, shape, random):
    """The values of `a` repeated along each axis; rows but the first are shuffled along their last axis, so that rows differ."""
    for axis, n in enumerate(shape):
        a = np.take(a, np.arange(n) % a.shape[axis], axis)
    if a.dtype != bool and len(shape) > 1:
        for i in range(1, shape[0]):
            a[i] = random.permutation(a[i], axis=a.ndim - 2)
    return a


def several_graphs(inputs, n):
    """minimol: n times the one graph, the nodes of each numbered after the last."""
    nodes, out = len(inputs["batch"]), dict(inputs)
    for name, a in inputs.items():
        if name == "graph_slots":
            out[name] = np.resize(a, (n,))
        elif name == "edge_index":
            out[name] = np.concatenate([a + i * nodes for i in range(n)], 1)
        else:
            out[name] = np.concatenate([a + i if name == "batch" else a for i in range(n)])
    return out


def other_inputs(inputs, change, random):
    if "graphs" in change:
        return several_graphs(inputs, change["graphs"])
    out = dict(inputs)
    for name, to in change.items():
        if isinstance(to, tuple):
            out[name] = resized(inputs[name], to, random)
        else:
            out[name] = np.asarray(to, inputs[name].dtype)
    if "length" in out:  # lac: how many tokens there are
        out["length"] = np.array([out["token_ids"].shape[1]], out["length"].dtype)
    return out


def differing(made):
    """Names of arrays that differ from the committed golden's by more than rounding; none where nothing is committed."""
    committed = ROOT / "tests/data/real_onnx" / made.name
    if not committed.exists():
        return []
    old, new = np.load(committed), np.load(made)
    if old.files != new.files:
        return ["list of names"]
    return [k for k in old.files if old[k].shape != new[k].shape or
            not np.allclose(old[k], new[k], 1e-4, 1e-4 * np.nanmax(np.abs(old[k]), initial=0), equal_nan=True)]


def main():
    import onnxruntime
    out = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or list(json.loads((COMMITTED.parent / "real_onnx.json").read_text()))
    out.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not (MODELS / name / "model.onnx").exists()]
    if missing:
        MODELS.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, ROOT / "tests/material/fetch_real_onnx.py", MODELS, *missing], check=True)
    for name in names:
        wanted = [name] * (name in SHAPES) + [f"{name}@{i + 1}" for i in range(len(OTHERS.get(name, [])))]
        wanted = [w for w in wanted if not (out / f"{w}.npz").exists()]
        if not wanted:
            continue
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(str(MODELS / name / "model.onnx"), options, providers=["CPUExecutionProvider"])
        results = [o.name for o in session.get_outputs()]
        random = np.random.default_rng(zlib.crc32(name.encode()))
        if name in SHAPES:
            base = {key: random.random(shape, np.float32) for key, shape in SHAPES[name].items()}
        else:
            golden = np.load(COMMITTED / f"{name}.npz")
            base = {key[3:]: golden[key] for key in golden.files if key.startswith("in:")}
        for which in wanted:
            given = other_inputs(base, OTHERS[name][int(which.split("@")[1]) - 1], random) if "@" in which else base
            got = session.run(results, given)
            np.savez_compressed(out / f"{which}.npz", **{"in:" + k: v for k, v in given.items()},
                                **{"out:" + k: v for k, v in zip(results, got)})
        print(name, *wanted, flush=True)
    wrong = {f.name: d for f in sorted(out.glob("*@*.npz")) if (d := differing(f))}
    for name, arrays in wrong.items():
        print(f"{name} differs from the committed golden: {', '.join(arrays)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
