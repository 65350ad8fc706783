"""Rotary frequencies of each kind of scaling, as transformers computes them. usage: rope.py OUT.json"""
import json, sys
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

CASES = [
    (64, {"rope_type": "default", "rope_theta": 100000.0}),
    (32, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
    (128, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    (64, {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}),
    (128, {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096}),
    (16, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 64}),
]


def main():
    out = []
    for head_dim, parameters in CASES:
        config = LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim, max_position_embeddings=4096, rope_parameters=dict(parameters))
        rope = LlamaRotaryEmbedding(config)
        out.append({"head_dim": head_dim, "parameters": parameters, "magnitude": float(rope.attention_scaling), "frequencies": rope.inv_freq.tolist()})
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")


main()
