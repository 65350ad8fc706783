"""The real SmolLM2 as torch's dynamo exporter writes it, through `brisk run` on the reference kernels, against torch; and as
the generative engine that it becomes, against the ids of tests/data/smollm2_greedy.json.
usage: dynamo.py HF_DIR WORK_DIR     exits 1 when a logit differs by more than 1e-5 of the largest, or an id
The export (540 MB) is made once in WORK_DIR. Its sequence length is dynamic and is asked at another length than it was
traced at; greedy next tokens have to be torch's, too."""
import json, pathlib, subprocess, sys
import numpy as np
import torch
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACED, ASKED = 12, 21


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def talks(onnx, engine):
    """Does the converted decoder say what the model of the Hugging Face folder says?"""
    brisk = str(ROOT / "build/bin/brisk")
    subprocess.run([brisk, "build", onnx, "-o", engine, "--precision", "fp32"], check=True, stdout=subprocess.DEVNULL)
    cases = json.loads((ROOT / "tests/data/smollm2_greedy.json").read_text())["cases"]
    right = 0
    for case in cases:
        done = subprocess.run([brisk, "generate", engine, "--ids", ",".join(map(str, case["prompt"])), "-n", str(len(case["ids"])),
                               "--ignore-eos", "--json"], check=True, capture_output=True, text=True)
        right += json.loads(done.stdout)["ids"] == case["ids"]
    print(f"as a generative engine: {right} of {len(cases)} prompts answered with the same ids")
    return right == len(cases)


def main():
    hf, work = sys.argv[1], pathlib.Path(sys.argv[2])
    model = Logits(AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float32)).eval()
    random = torch.Generator().manual_seed(7)
    ids = torch.randint(100, 40000, (1, ASKED), generator=random)
    onnx = work / "dynamo" / "model.onnx"
    if not onnx.exists():
        onnx.parent.mkdir(parents=True, exist_ok=True)
        part = onnx.with_name("part.onnx")
        torch.onnx.export(model, (ids[:, :TRACED],), str(part), dynamo=True, opset_version=18, optimize=False, external_data=False,
                          input_names=["input_ids"], output_names=["logits"], dynamic_shapes={"input_ids": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}})
        part.rename(onnx)
    with torch.no_grad():
        want = model(ids).numpy()
    np.save(work / "dynamo/ids.npy", ids.numpy())
    out = work / "dynamo/out.npz"
    subprocess.run([ROOT / "build/bin/brisk", "run", onnx, "--device", "ref", "--input", f"input_ids={work / 'dynamo/ids.npy'}",
                    "--outputs", out], check=True)
    have = np.load(out)["logits"]
    if have.shape != want.shape:
        sys.exit(f"logits {have.shape}, torch's {want.shape}")
    far, allowed = np.abs(have - want).max(), 1e-5 * np.abs(want).max()
    same = (have.argmax(-1) == want.argmax(-1)).all()
    print(f"{ASKED} positions: largest difference {far:.3g}, allowed {allowed:.3g}; most likely tokens {'equal' if same else 'DIFFER'}")
    sys.exit(0 if far <= allowed and same and talks(onnx, work / "dynamo/step.engine") else 1)


main()
