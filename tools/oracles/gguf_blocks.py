"""One block of each quantised GGUF type with seeded bytes, and what the gguf package makes of it.
usage: gguf_blocks.py OUT.json     needs: pip install gguf numpy"""
import json, sys
import numpy as np
from gguf import GGMLQuantizationType as T, quants, GGML_QUANT_SIZES

# Where a block keeps its half floats, which must be sane numbers; the rest may be any bytes.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}


def main():
    rng, out = np.random.default_rng(7), []
    for name, halves in HALVES.items():
        elements, size = GGML_QUANT_SIZES[T[name]]
        blocks = 2 if elements == 32 else 1
        raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
        for at in halves:
            raw[:, at:at + 2] = (rng.normal(size=(blocks, 1)) * 0.01).astype(np.float16).view(np.uint8)
        if name == "MXFP4":
            raw[:, 0] = [120, 131]
        values = quants.dequantize(raw.reshape(1, -1), T[name]).astype(np.float32).reshape(-1)
        out.append({"name": name, "type": int(T[name]), "elements": int(values.size), "blocks": raw.tobytes().hex(), "values": values.tobytes().hex()})
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")


main()
