"""Tiny decoders as exporters write them, with the ids that torch says greedily: tests/data/decoders.
usage: decoders.py FOLDER [NAME...]      writes FOLDER/<name>.onnx and FOLDER/decoders.json
The files are without the exporter's notes, so that they stay small. Rows named genai need onnxruntime-genai and are left as
they are in tests/data/decoders where it is not installed. Weights are seeded; a seed is taken at which the two best logits are never
closer than MARGIN, so that rounding decides no id.
"""
import copy, json, pathlib, shutil, subprocess, sys, tempfile, warnings

import onnx
import torch
import transformers

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
COMMITTED = pathlib.Path(__file__).resolve().parents[2] / "tests/data/decoders"
MARGIN, TOKENS, VOCAB, LAYERS = 2e-3, 20, 96, 2
PROMPTS = [[5, 9, 70, 33], [7, 7, 7, 11, 20, 30, 40, 17, 19, 23, 29, 31], [3], [51, 40, 77, 12, 90, 5, 6]]
SMALL = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUPED = dict(SMALL, num_key_value_heads=2)
# Names that end in half are exported in 16 bits; their ids are those of the same weights in f32, as devices without 16-bit
# arithmetic compute them.
# name -> (config, model, settings, exporter): legacy or dynamo, opset, with past or without; genai: onnxruntime-genai's builder
MODELS = {
    "llama-dynamo23-past": ("LlamaConfig", "LlamaForCausalLM", GROUPED, "dynamo", 23, True),
    "mistral-dynamo18-past": ("MistralConfig", "MistralForCausalLM", dict(GROUPED, sliding_window=8), "dynamo", 18, True),
    "qwen3-dynamo18": ("Qwen3Config", "Qwen3ForCausalLM", dict(GROUPED, head_dim=8), "dynamo", 18, False),
    "gemma2-dynamo18-past": ("Gemma2Config", "Gemma2ForCausalLM", dict(GROUPED, head_dim=8, sliding_window=8, query_pre_attn_scalar=8), "dynamo", 18, True),
    "gemma3-dynamo23-past": ("Gemma3TextConfig", "Gemma3ForCausalLM", dict(GROUPED, head_dim=8, sliding_window=8, query_pre_attn_scalar=8), "dynamo", 23, True),
    "phi3-dynamo18-past": ("Phi3Config", "Phi3ForCausalLM", GROUPED, "dynamo", 18, True),
    "gpt2-legacy-past": ("GPT2Config", "GPT2LMHeadModel", dict(vocab_size=VOCAB, n_embd=32, n_layer=LAYERS, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2), "legacy", 17, True),
    "opt-dynamo18-past": ("OPTConfig", "OPTForCausalLM", dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4, ffn_dim=48, max_position_embeddings=64, word_embed_proj_dim=32, pad_token_id=1, bos_token_id=2, eos_token_id=2), "dynamo", 18, True),
    "gptneox-dynamo18": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SMALL, "dynamo", 18, False),
    "falcon-dynamo18-past": ("FalconConfig", "FalconForCausalLM", dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4, new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False, bos_token_id=1, eos_token_id=2), "dynamo", 18, True),
    "mixtral-dynamo18-past": ("MixtralConfig", "MixtralForCausalLM", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32), "dynamo", 18, True),
    "llama-dynamo18-past-half": ("LlamaConfig", "LlamaForCausalLM", GROUPED, "dynamo", 18, True),
    "qwen2-legacy-past-half": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED, "legacy", 17, True),
    "qwen2-genai": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED, "genai", 0, True),
}


class Whole(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class WithPast(Whole):
    def forward(self, input_ids, attention_mask, *past):
        cache = transformers.DynamicCache()
        for i in range(LAYERS):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return (out.logits, *(t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)))


def build(row, seed):
    torch.manual_seed(seed)
    config = getattr(transformers, row[0])(**row[2])
    model = getattr(transformers, row[1])(config).eval().float()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() >= 2:
                p.mul_(6)
            elif "norm" in name.lower() or "ln_" in name.lower():
                p.add_(0.1 * torch.randn_like(p))
    return config, model


def greedy(model):
    """The answers to PROMPTS, and the closest that the two best logits come."""
    answers, margin = [], float("inf")
    for prompt in PROMPTS:
        ids = list(prompt)
        for _ in range(TOKENS):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            best = logits.topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
        answers.append(ids[len(prompt):])
    return answers, margin


def example(config, past):
    ids, mask = torch.randint(3, VOCAB, (2, 7)), torch.ones(2, 12 if past else 7, dtype=torch.long)
    values, names = [ids, mask], ["input_ids", "attention_mask"]
    axes = [{0: "batch", 1: "seq"}, {0: "batch", 1: "total" if past else "seq"}]
    heads = 1 if config.model_type == "falcon" else getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for i in range(LAYERS if past else 0):
        for part in ("key", "value"):
            values.append(torch.randn(2, heads, 5, size))
            names.append(f"past_key_values.{i}.{part}")
            axes.append({0: "batch", 2: "past"})
    return values, names, axes


def torch_export(row, config, model, path):
    _, _, _, how, opset, past = row
    values, names, axes = example(config, past)
    results = ["logits"] + [n.replace("past_key_values", "present") for n in names[2:]]
    module = (WithPast if past else Whole)(model).eval()
    values = [v.to(model.dtype) if v.is_floating_point() else v for v in values]
    if how == "legacy":
        torch.onnx.export(module, tuple(values), path, dynamo=False, opset_version=opset, input_names=names, output_names=results,
                          dynamic_axes=dict(zip(names, axes)))
        return
    free = [{k: torch.export.Dim.AUTO for k in a} for a in axes]
    shapes = {"input_ids": free[0], "attention_mask": free[1], "past": tuple(free[2:])} if past else tuple(free)
    torch.onnx.export(module, tuple(values), path, dynamo=True, opset_version=opset, input_names=names, output_names=results,
                      dynamic_shapes=shapes, external_data=False, verbose=False)


def genai_export(model, path):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder + "/hf")
        from tokenizers import Tokenizer, models
        words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w3"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w3").save_pretrained(folder + "/hf")
        subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", folder + "/hf", "-o", folder + "/out", "-p", "fp32",
                        "-e", "cpu", "-c", folder + "/cache"], check=True, capture_output=True)
        onnx.save(onnx.load(folder + "/out/model.onnx"), path)


def slim(path):
    """Without notes, and with weights shared by equal content."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    model.doc_string = model.graph.doc_string = ""
    for item in [*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output]:
        item.doc_string = ""
        del item.metadata_props[:]
    seen, renamed, kept = {}, {}, []
    for t in model.graph.initializer:
        bare = copy.deepcopy(t)
        bare.name = ""
        first = seen.setdefault(bare.SerializeToString(), t.name)
        if first != t.name:
            renamed[t.name] = first
        else:
            kept.append(t)
    kept = [copy.deepcopy(t) for t in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
    onnx.save(model, path)


def main():
    folder, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(MODELS)
    folder.mkdir(parents=True, exist_ok=True)
    golden = {}
    for name in wanted:
        row = MODELS[name]
        for seed in range(7, 60):
            config, model = build(row, seed)
            if name.endswith("half"):
                model.half().float()
            answers, margin = greedy(model)
            if margin >= MARGIN:
                break
        else:
            sys.exit(f"{name}: no seed gives a margin of {MARGIN}")
        path = folder / f"{name}.onnx"
        if name.endswith("half"):
            model.half()
        if row[3] != "genai":
            with torch.no_grad():
                torch_export(row, config, model, str(path))
            slim(str(path))
        else:
            try:
                import onnxruntime_genai  # noqa: F401
                genai_export(model, str(path))
                slim(str(path))
            except ImportError:
                print(f"{name}: onnxruntime-genai is not installed; the committed file is taken")
                shutil.copy(COMMITTED / path.name, path)
        golden[name] = {"seed": seed, "margin": round(margin, 5), "answers": answers}
        print(name, seed, round(margin, 4), path.stat().st_size, flush=True)
    (folder / "decoders.json").write_text(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                                                      "prompts": PROMPTS, "models": golden}) + "\n")


main()
