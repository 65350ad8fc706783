"""Tiny models of every family, and the logits that transformers gives for them in fp32.
usage: families.py DIR OUT.json          logits of the models in DIR
       families.py DIR OUT.json --make   makes the models first: seeded random weights, exact in bf16"""
import json, os, sys
import torch
from transformers import (AutoModelForCausalLM, GemmaConfig, GraniteConfig, LlamaConfig, MistralConfig, Phi3Config,
                          Qwen2Config, Qwen3Config, SmolLM3Config)

TOKENS = 24
BASE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
            vocab_size=40, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
MODELS = {
    "llama": LlamaConfig(**BASE, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3),
    "mistral": MistralConfig(**BASE, head_dim=16, sliding_window=8),
    "qwen2": Qwen2Config(**{**BASE, "tie_word_embeddings": True}, use_sliding_window=True, sliding_window=8, max_window_layers=1),
    "qwen3": Qwen3Config(**BASE, head_dim=16, rope_parameters=YARN),
    "smollm3": SmolLM3Config(**BASE, no_rope_layers=[1, 0]),
    "phi3": Phi3Config(**BASE, partial_rotary_factor=0.5, sliding_window=12),
    "granite": GraniteConfig(**BASE, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.25, logits_scaling=2.0),
    "gemma": GemmaConfig(**{**BASE, "tie_word_embeddings": True}, head_dim=8),
}


def make(folder):
    for name, config in MODELS.items():
        torch.manual_seed(11)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for key, p in model.named_parameters():
                centre = 1.0 if "norm" in key and name != "gemma" else 0.0
                p.copy_(centre + torch.randn(p.shape) * (0.3 if p.dim() == 1 else 0.25))
        model.to(torch.bfloat16).save_pretrained(os.path.join(folder, name))


def logits(path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(3, BASE["vocab_size"], (1, TOKENS), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        return ids[0].tolist(), model(input_ids=ids).logits[0]


def main():
    folder, out = sys.argv[1:3]
    if "--make" in sys.argv:
        make(folder)
    cases = []
    for name in sorted(MODELS):
        ids, rows = logits(os.path.join(folder, name))
        cases.append({"name": name, "ids": ids, "logits": [[float(f"{v:.6g}") for v in row] for row in rows.tolist()]})
        print(name, "largest logit", float(rows.abs().max()))
    with open(out, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
