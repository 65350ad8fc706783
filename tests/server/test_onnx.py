"""A decoder from ONNX behind the server: the tokenizer given by --tokenizer or found beside the model, streams included."""
import json
import pathlib
import shutil
import subprocess

import openai
import pytest

from serving import BRISK

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/decoders"
GOLDEN = json.loads((DATA / "decoders.json").read_text())


def tokenizer_files(folder):
    """Token i is the word "wi": what a text says is its ids."""
    vocabulary = {f"w{i}": i for i in range(96)}
    model = {"type": "WordPiece", "vocab": vocabulary, "unk_token": "w0", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    whole = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
             "post_processor": None, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False}, "model": model}
    template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0", "chat_template": template}))


def text_of(ids):
    return " ".join(f"w{i}" for i in ids)


@pytest.mark.parametrize("beside", [False, True], ids=["given", "beside the model"])
@pytest.mark.parametrize("name", ["llama-dynamo23-past", "gpt2-legacy-past"])
def test_an_onnx_decoder_is_served(start, tmp_path, name, beside):
    model = tmp_path / "model.onnx"
    shutil.copy(DATA / f"{name}.onnx", model)
    tokenizer_files(tmp_path if beside else tmp_path / "tokenizer")
    flags = [] if beside else ["--tokenizer", tmp_path / "tokenizer"]
    engine = tmp_path / "tiny.engine"
    subprocess.run([BRISK, "build", model, "-o", engine, "--precision", "fp32", *flags], check=True, capture_output=True)

    server = start(engine=engine, max_model_len=0)
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)
    (served,) = client.models.list().data
    for prompt, ids in zip(GOLDEN["prompts"], GOLDEN["models"][name]["answers"]):
        ask = dict(model=served.id, max_tokens=len(ids), temperature=0, extra_body={"ignore_eos": True})
        whole = client.completions.create(prompt=prompt, **ask)
        assert whole.choices[0].text.split() == text_of(ids).split()
        assert whole.usage.prompt_tokens == len(prompt) and whole.usage.completion_tokens == len(ids)
        pieces = [c.choices[0].text for c in client.completions.create(prompt=text_of(prompt), stream=True, **ask) if c.choices]
        assert "".join(pieces) == whole.choices[0].text and len(pieces) > len(ids) // 2
        chat = client.chat.completions.create(messages=[{"role": "user", "content": text_of(prompt)}], **ask)
        assert chat.choices[0].message.content.split() == text_of(ids).split()
