"""Greedy continuations of a Hugging Face folder by transformers in fp32: the golden of the generation tests.
usage: greedy.py HF_DIR OUT.json [--tokens 64]
For each prompt: its ids (so that the golden judges the model and not a tokenizer), the greedy ids (end-of-text ids are
taken like any other, so every answer has the same length) and, for each of them, the gap between the two largest logits
(a runtime that differs only where the gap is tiny is not wrong). Same packages, same file: nothing is drawn at random."""
import argparse, json, torch, transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

# (name, chat?, text). Chat prompts pass through the model's own template with a generation prompt.
LONG = ("The harbour master kept a ledger in which every ship was written down: its name, its captain, the cargo it "
        "carried and the hour of the tide at which it had come in. On the first page stood the Marigold, with wool and "
        "salted fish; beneath it the Anna Catharina, with timber; and beneath that a nameless barge full of bricks. ")
PROMPTS = [
    ("capital", True, "What is the capital of France?"),
    ("sky", True, "Why is the sky blue? Answer in two sentences."),
    ("list", True, "Give me five names for a small grey cat."),
    ("arithmetic", True, "What is 17 plus 25? Think step by step."),
    ("poem", True, "Write a short poem about the sea in winter."),
    ("french-chat", True, "Écris une phrase sur le printemps à Paris."),
    ("one-token", False, "The"),
    ("story", False, "Once upon a time, in a village at the edge of a dark forest, there lived"),
    ("encyclopedia", False, "The Industrial Revolution began in Great Britain in the late 18th century and"),
    ("python", False, "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n"),
    ("cpp", False, "#include <vector>\n\nint sum(const std::vector<int>& v) {\n  int total = 0;\n"),
    ("json", False, '{"name": "Ada", "born": 1815, "works": ['),
    ("html", False, "<html>\n<head><title>Weather</title></head>\n<body>\n"),
    ("german", False, "Die Katze sitzt am Fenster und"),
    ("spanish", False, "En un lugar de la Mancha, de cuyo nombre"),
    ("chinese", False, "北京是中国的"),
    ("numbers", False, "1, 1, 2, 3, 5, 8, 13, 21,"),
    ("symbols", False, "x = (a + b) * (c - d) / 2;  // 🙂 naïve café\n"),
    ("long-text", False, LONG * 8 + "On the last page"),
    ("long-chat", True, LONG * 5 + "\n\nWhich ships are named in this text, and what did they carry?"),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder"), parser.add_argument("out"), parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.folder)
    model = AutoModelForCausalLM.from_pretrained(args.folder, dtype=torch.float32, attn_implementation="eager").eval()
    cases = []
    for name, chat, text in PROMPTS:
        full = text
        if chat:
            turns = [{"role": "user", "content": text}]
            full = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(full, add_special_tokens=False)["input_ids"]
        ids, gaps, cache, feed = [], [], None, torch.tensor([prompt])
        with torch.no_grad():
            for _ in range(args.tokens):
                result = model(input_ids=feed, past_key_values=cache, use_cache=True)
                cache, best = result.past_key_values, torch.topk(result.logits[0, -1], 2)
                ids.append(int(best.indices[0])), gaps.append(round(float(best.values[0] - best.values[1]), 5))
                feed = best.indices[:1].view(1, 1)
        cases.append({"name": name, "chat": chat, "text": text, "prompt": prompt, "ids": ids, "gaps": gaps})
        print(f"{name}: {len(prompt)} tokens, least gap {min(gaps)}: {tokenizer.decode(ids)[:70]!r}", flush=True)
    with open(args.out, "w") as f:
        f.write('{"torch": %s, "transformers": %s, "cases": [\n' % (json.dumps(torch.__version__), json.dumps(transformers.__version__)))
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
