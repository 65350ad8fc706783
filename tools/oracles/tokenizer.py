"""Ids and texts by the `tokenizers` package: the goldens of the tokenizer tests.
usage: tokenizer.py OUT_DIR [--smollm2 MODEL.gguf]
Writes OUT_DIR/tokenizer_goldens.json: small tokenizers of every kind, each as its tokenizer.json, with the ids of many
texts (special tokens added and parsed; neither) and the text decoded again. With --smollm2 also
OUT_DIR/smollm2_tokens.json: ids by the vocabulary of that file, split the way the model's makers do.
Vocabularies are made here by a plain count of pairs, so that the same package gives the same file."""
import argparse
import collections
import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as PP

CORPUS = """The quick brown fox jumps over the lazy dog. We've said that she'll be there, hasn't he? In 1984 there were
123456 words; the 3 best were these: there, where, here. HTTPServer and camelCase words read well in code: for (int i = 0;
i < 10; ++i) { total += values[i]; } // the end. Über den Flüssen; café, naïve, déjà vu. Привет мир, как дела? Это просто
слова. 世界 こんにちは 世界 カタカナ 한국어 안녕하세요 नमस्ते दुनिया Ελληνικά γράμματα العربية עברית ไทย 🙂 👍 🚀
the then they them this that with within without other another brother weather whether
"""

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" +
         LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
SPACE = "\u2581"


def texts():
    rng = random.Random(3)
    fixed = ["", " ", "  ", "\n", "\t\n \r\n", "Hello world", "Hello, y'all! How are you 😁 ?😁 ...", "The capital of France is Paris.",
             "don't DON'T I'LL we'Ve x'ſ", "3 33 333 3333 33333 333333", "a" * 200, "   leading and trailing   ",
             "\0 nul\x01\x7f\x85", "e\u0301 é ﬁne Ⅷ ²³ ½ İI ΣΑΣ ß", "q\u0323\u0307 \u0315\u0300a \u0300", "한국어 \u1112\u1161\u11ab",
             "世界こんにちは カタカナ", "नमस्ते दुनिया", "👨‍👩‍👧 👍🏽 🇺🇳", "\u00a0\u3000\u2028\u180e\u200b\ufeff\ufffd\ue000", SPACE + "mark" + SPACE,
             "<s>text</s> <unk> <0x41> [MASK] <tool>x word sword <l>  <r>  y", "HTTPServer camelCase foo_bar a1b2c3",
             "if (x) {\n\treturn y;  // done\n}\n\n", "ĠĊ [CLS] ##ing", "12/12/2012 3.14e-10 0x1F $5,000", "…—“quoted”‘’·•¡¿"]
    pool = ["the", " The", "dog's", "Привет", "世", "\n", " \n", "  ", "\t", "1", "22", "333", "'ll", "é", "e\u0301", "\u0300", "👍", "<s>",
            "<tool>", " word", ".", "!!", "_", "Ω", "ſ", "\u00a0", "\U00031350", "\U0001f600", "\0", "/", "[MASK]"]
    for _ in range(40):
        words = [rng.choice(pool) if rng.random() < .7 else chr(rng.choice([rng.randrange(32, 0x250), rng.randrange(0x300, 0x1100),
                 rng.randrange(0x2000, 0x3100), rng.randrange(0xe000, 0x10000), rng.randrange(0x10000, 0x110000)]))
                 for _ in range(rng.randrange(2, 14))]
        fixed.append("".join(words))
    return fixed


def learn(words, count, first, join):
    """A vocabulary and merges: the most frequent pair of neighbours, `count` times."""
    pieces = collections.Counter(tuple(first(w)) for w in words)
    vocab = sorted({s for w in pieces for s in w})
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, n in pieces.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        pairs = {p: n for p, n in pairs.items() if p not in merges}
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        both = join(*best)
        if both not in vocab:
            vocab.append(both)
        merged = collections.Counter()
        for word, n in pieces.items():
            out = []
            for s in word:
                if out and (out[-1], s) == best:
                    out[-1] = both
                else:
                    out.append(s)
            merged[tuple(out)] += n
        pieces = merged
    return vocab, merges


def byte_level(pre, count=300, special=("<s>", "</s>"), **kwargs):
    words = [w for w, _ in P.ByteLevel(add_prefix_space=False).pre_tokenize_str(CORPUS)]
    vocab, merges = learn(words, count, list, lambda a, b: a + b)
    alphabet = sorted(P.ByteLevel.alphabet())
    names = alphabet + [v for v in vocab if v not in alphabet]
    t = Tokenizer(M.BPE({v: i for i, v in enumerate(names)}, merges, **kwargs))
    t.pre_tokenizer = pre
    t.decoder = D.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in special])
    return t


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern), behavior, invert)


def raw_bytes():
    return P.ByteLevel(add_prefix_space=False, use_regex=False)


def sentencepiece(prefix):
    """As Llama 2 and Gemma: merges of characters, spaces marked, bytes for what is missing."""
    words = [SPACE + w for w in CORPUS.split()]
    vocab, merges = learn(words, 250, list, lambda a, b: a + b)
    names = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + vocab
    t = Tokenizer(M.BPE({v: i for i, v in enumerate(names)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if prefix == "normalizer":
        t.normalizer = N.Sequence([N.Prepend(SPACE), N.Replace(" ", SPACE)])
    elif prefix == "first":
        t.pre_tokenizer = P.Metaspace(SPACE, "first", split=False)
    else:
        t.normalizer = N.Replace(" ", SPACE)
        t.pre_tokenizer = P.Split(" ", "merged_with_previous")
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ("<unk>", "<s>", "</s>")])
    t.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("word", single_word=True, normalized=False),
                  AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False)])
    t.post_processor = PP.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    steps = [D.Replace(SPACE, " "), D.ByteFallback(), D.Fuse()] + ([D.Strip(" ", 1, 0)] if prefix != "none" else [])
    t.decoder = D.Sequence(steps)
    return t


def wordpiece(**kwargs):
    words = [w for w, _ in P.BertPreTokenizer().pre_tokenize_str(N.BertNormalizer().normalize_str(CORPUS))]
    vocab, _ = learn(words, 200, lambda w: [w[0]] + ["##" + c for c in w[1:]], lambda a, b: a + b[2:])
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + vocab
    t = Tokenizer(M.WordPiece({v: i for i, v in enumerate(names)}, unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(**kwargs), P.BertPreTokenizer(), D.WordPiece()
    t.add_special_tokens(names[:5])
    t.post_processor = PP.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def unigram(byte_fallback):
    words = [SPACE + w for w in CORPUS.split()]
    vocab, _ = learn(words, 250, list, lambda a, b: a + b)
    special = ["<s>", "</s>", "<unk>"] + (["<0x%02X>" % b for b in range(256)] if byte_fallback else [])
    scores = [(s, 0.0) for s in special] + [(v, -8.0 - i / 64 + len(v)) for i, v in enumerate(vocab)]
    t = Tokenizer(M.Unigram(scores, 2, byte_fallback))
    t.normalizer = N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace()]) if byte_fallback else P.Metaspace()
    t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace()]) if byte_fallback else D.Metaspace()
    t.add_special_tokens(["<s>", "</s>", "<unk>", AddedToken("[MASK]", lstrip=True)])
    t.post_processor = PP.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    return t


def suffixed():
    """As CLIP: a word's last symbol is marked."""
    mapped = [w for w, _ in P.ByteLevel(add_prefix_space=False).pre_tokenize_str(CORPUS.lower())]
    words = [w.replace("Ġ", "").replace("Ċ", "") for w in mapped]
    vocab, merges = learn([w for w in words if w], 200, lambda w: list(w[:-1]) + [w[-1] + "</w>"], lambda a, b: a + b)
    alphabet = sorted(P.ByteLevel.alphabet())
    base = alphabet + [a + "</w>" for a in alphabet]
    names = base + [v for v in vocab if v not in base] + ["<s>", "</s>"]
    t = Tokenizer(M.BPE({v: i for i, v in enumerate(names)}, merges, unk_token="</s>", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), raw_bytes()])
    t.decoder = D.ByteLevel()
    t.add_special_tokens(["<s>", "</s>"])
    t.post_processor = PP.RobertaProcessing(("</s>", len(names) - 1), ("<s>", len(names) - 2))
    return t


def words_with_unknown():
    words = N.NFD().normalize_str(CORPUS).split()
    vocab, merges = learn(words, 150, lambda w: [w[0]] + ["##" + c for c in w[1:]], lambda a, b: a + b[2:])
    names = ["[UNK]"] + [v for v in vocab if "e" not in v or len(v) > 4]
    known = set(names)
    merges = [m for m in merges if m[0] in known and m[1] in known and m[0] + m[1][2:] in known]
    t = Tokenizer(M.BPE({v: i for i, v in enumerate(names)}, merges, unk_token="[UNK]", continuing_subword_prefix="##"))
    t.normalizer = N.Sequence([N.Strip(), N.NFD(), N.StripAccents()])
    t.pre_tokenizer, t.decoder = P.Whitespace(), D.WordPiece(cleanup=False)
    return t


def with_normalizer(t, normalizer, post=None):
    t.normalizer = normalizer
    if post:
        t.post_processor = post
    return t


def goldens():
    byte_steps = lambda *steps: P.Sequence(list(steps) + [raw_bytes()])
    yield "gpt2", with_normalizer(byte_level(P.ByteLevel(add_prefix_space=True)), N.NFC())
    yield "smollm", byte_level(P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]))
    llama3 = byte_level(byte_steps(split(LLAMA3)), ignore_merges=True)
    begin = ("<s>", llama3.token_to_id("<s>"))
    yield "llama3", with_normalizer(llama3, N.NFKD(), PP.Sequence(
        [PP.ByteLevel(trim_offsets=False), PP.TemplateProcessing(single="<s> $A", special_tokens=[begin])]))
    yield "o200k", byte_level(byte_steps(split(O200K)))
    yield "deepseek", byte_level(byte_steps(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK)))
    yield "kimi", byte_level(byte_steps(split(KIMI)))
    yield "falcon", byte_level(P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False),
                                           split("[0-9][0-9][0-9]")]))
    yield "other-engine", byte_level(byte_steps(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\s")))
    yield "merged", byte_level(byte_steps(split(r"[\p{P}\p{S}]|\s", "merged_with_previous"), split(r"\p{Lu}", "merged_with_next"),
                                          P.CharDelimiterSplit("z")))
    yield "lower", with_normalizer(byte_level(byte_steps(P.Whitespace())), N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase()]))
    yield "mapped-normalizer", with_normalizer(byte_level(split("Ġ?[^Ġ]+")), N.ByteLevel())
    yield "llama2", sentencepiece("normalizer")
    yield "mistral", sentencepiece("first")
    yield "gemma", sentencepiece("none")
    yield "bert", wordpiece()
    yield "bert-cased", wordpiece(lowercase=False, clean_text=False, handle_chinese_chars=False)
    yield "unigram", unigram(False)
    yield "unigram-bytes", unigram(True)
    yield "clip", suffixed()
    yield "unknown-words", words_with_unknown()


def encode(t, text, special):
    t.encode_special_tokens = not special
    return t.encode(text, add_special_tokens=special).ids


def write_goldens(path):
    all_texts = texts()
    with open(path, "w") as out:
        head = {"tokenizers": tokenizers.__version__, "texts": all_texts}
        out.write(json.dumps(head)[:-1] + ',\n"goldens": [\n')
        rows = []
        for name, t in goldens():
            special, plain = [encode(t, x, True) for x in all_texts], [encode(t, x, False) for x in all_texts]
            rows.append(json.dumps({"name": name, "tokenizer": json.loads(t.to_str()), "special": special, "plain": plain,
                                    "decoded": [t.decode(ids) for ids in special]}, separators=(",", ":")))
        out.write(",\n".join(rows) + "\n]}\n")


def write_smollm2(path, model):
    from gguf import GGUFReader
    reader = GGUFReader(model)
    field = lambda key: reader.fields["tokenizer.ggml." + key].contents()
    tokens, types = field("tokens"), field("token_type")
    merges = [(m[:m.index(" ", 1)], m[m.index(" ", 1) + 1:]) for m in field("merges")]
    t = Tokenizer(M.BPE({s: i for i, s in enumerate(tokens)}, merges))
    t.pre_tokenizer = P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)])
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s, k in zip(tokens, types) if k == 3])
    cases = texts() + [CORPUS, "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"]
    t.decoder = D.ByteLevel()
    rows = []
    for x in cases:
        special, plain = encode(t, x, True), encode(t, x, False)
        decoded = t.decode(plain, skip_special_tokens=False)  # not always the text: the vocabulary lacks a few bytes
        rows.append(json.dumps({"text": x, "special": special, "plain": plain, "decoded": decoded}, separators=(",", ":")))
    with open(path, "w") as out:
        out.write('{"tokenizers": "%s", "cases": [\n' % tokenizers.__version__ + ",\n".join(rows) + "\n]}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path), parser.add_argument("--smollm2")
    args = parser.parse_args()
    write_goldens(args.out / "tokenizer_goldens.json")
    if args.smollm2:
        write_smollm2(args.out / "smollm2_tokens.json", args.smollm2)


if __name__ == "__main__":
    main()
