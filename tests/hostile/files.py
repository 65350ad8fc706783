"""Small model files written by hand, and the lies that can be told in them."""
import json
import struct

U32, F32, TEXT, LIST = 4, 6, 8, 9
HIDDEN, HEADS, KV_HEADS, MLP, VOCAB = 32, 2, 1, 32, 8
TOKENS = ["a", "b", "ab", "<|im_end|>", "c", "abc", "d", "e"]


def text(s):
    b = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def texts(items):
    return struct.pack("<IQ", TEXT, len(items)) + b"".join(map(text, items))


class Gguf:
    """A Llama of one layer; every field may be replaced before bytes() is called."""

    def __init__(self):
        self.version, self.pairs_claimed, self.tensors_claimed = 3, None, None
        number = lambda n: (U32, struct.pack("<I", n))  # noqa: E731
        self.pairs = {
            "general.architecture": (TEXT, text("llama")),
            "llama.block_count": number(1), "llama.embedding_length": number(HIDDEN), "llama.feed_forward_length": number(MLP),
            "llama.context_length": number(64), "llama.attention.head_count": number(HEADS),
            "llama.attention.head_count_kv": number(KV_HEADS),
            "llama.attention.layer_norm_rms_epsilon": (F32, struct.pack("<f", 1e-5)),
            "tokenizer.ggml.model": (TEXT, text("gpt2")), "tokenizer.ggml.pre": (TEXT, text("smollm")),
            "tokenizer.ggml.tokens": (LIST, texts(TOKENS)), "tokenizer.ggml.merges": (LIST, texts(["a b", "ab c"])),
            "tokenizer.ggml.eos_token_id": number(3),
        }
        self.alignment = 32
        self.tensors, self.data = [], b""  # name, dims (row-major), type, offset
        half = HIDDEN // HEADS * KV_HEADS
        for name, rows in (("token_embd", VOCAB), ("blk.0.attn_q", HIDDEN), ("blk.0.attn_k", half), ("blk.0.attn_v", half),
                           ("blk.0.attn_output", HIDDEN), ("blk.0.ffn_gate", MLP), ("blk.0.ffn_up", MLP), ("blk.0.ffn_down", HIDDEN)):
            self.tensor(name + ".weight", [rows, HIDDEN])
        for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
            self.tensor(name + ".weight", [HIDDEN])

    def tensor(self, name, dims):
        count = 1
        for d in dims:
            count *= d
        self.tensors.append([name, dims, 0, len(self.data)])
        self.data += struct.pack(f"<{count}f", *[(i * 37 % 101 - 50) / 400 for i in range(count)])

    def number(self, key, n, kind=U32, form="<I"):
        self.pairs[key] = (kind, struct.pack(form, n))
        return self

    def bytes(self):
        out = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors) if self.tensors_claimed is None else self.tensors_claimed,
                                    len(self.pairs) if self.pairs_claimed is None else self.pairs_claimed)
        out += b"".join(pair(k, *v) for k, v in self.pairs.items())
        for name, dims, kind, offset in self.tensors:
            out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims)) + struct.pack("<IQ", kind, offset)
        return out + b"\0" * (-len(out) % self.alignment) + self.data


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": MLP,
    "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "torch_dtype": "float32",
}
TOKENIZER = {
    "version": "1.0", "added_tokens": [{"id": 3, "content": "<|im_end|>", "single_word": False, "lstrip": False, "rstrip": False,
                                         "normalized": False, "special": True}],
    "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "byte_fallback": False,
              "vocab": {t: i for i, t in enumerate(TOKENS)}, "merges": ["a b", "ab c"]},
}


def safetensors(header=None, data=None, claimed=None):
    """`header`: a dict or raw bytes instead of the right one."""
    names, own = {}, b""
    half = HIDDEN // HEADS * KV_HEADS
    layer = "model.layers.0."
    shapes = {"model.embed_tokens": [VOCAB, HIDDEN], layer + "self_attn.q_proj": [HIDDEN, HIDDEN], layer + "self_attn.k_proj": [half, HIDDEN],
              layer + "self_attn.v_proj": [half, HIDDEN], layer + "self_attn.o_proj": [HIDDEN, HIDDEN], layer + "mlp.gate_proj": [MLP, HIDDEN],
              layer + "mlp.up_proj": [MLP, HIDDEN], layer + "mlp.down_proj": [HIDDEN, MLP], "model.norm": [HIDDEN],
              layer + "input_layernorm": [HIDDEN], layer + "post_attention_layernorm": [HIDDEN]}
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        names[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(own), len(own) + size]}
        own += b"\0\0\0\x3d" * (size // 4)
    if callable(header):
        header(names)
        header = None
    raw = header if isinstance(header, bytes) else json.dumps(names).encode()
    return struct.pack("<Q", len(raw) if claimed is None else claimed) + raw + (own if data is None else data)


def folder(path, config=None, tokenizer=None, weights=None):
    """A Hugging Face folder; each part a dict, bytes, or the right one."""
    path.mkdir(parents=True, exist_ok=True)
    as_bytes = lambda v: v if isinstance(v, bytes) else json.dumps(v).encode()  # noqa: E731
    (path / "config.json").write_bytes(as_bytes(CONFIG if config is None else config))
    (path / "tokenizer.json").write_bytes(as_bytes(TOKENIZER if tokenizer is None else tokenizer))
    (path / "model.safetensors").write_bytes(safetensors() if weights is None else weights)
    return path
