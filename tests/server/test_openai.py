"""The API as the real `openai` client sees it."""
import concurrent.futures

import openai
import pytest
from serving import MODEL, brisk_generate

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def chat(client, **more):
    return client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24, **more})


def complete(client, **more):
    return client.completions.create(**{"model": MODEL, "prompt": "The capital of France is", "temperature": 0, **more})


def test_models(client):
    assert [m.id for m in client.models.list().data] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "brisk"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_chat_answers(client):
    answer = chat(client)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and "Paris" in choice.message.content
    assert choice.finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.id.startswith("chatcmpl-") and answer.model == MODEL


def test_chat_stream_is_the_whole_answer(client):
    whole = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] == whole.choices[0].finish_reason and not any(reasons[:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert all(c.usage is None for c in chunks[:-1])


def test_completion_stream_is_the_whole_answer(client):
    whole = complete(client, max_tokens=20)
    parts = [c.choices[0] for c in complete(client, max_tokens=20, stream=True)]
    assert "".join(p.text for p in parts) == whole.choices[0].text
    assert parts[-1].finish_reason == whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 20


def test_default_is_sixteen_tokens(client):
    assert complete(client, extra_body={"ignore_eos": True}).usage.completion_tokens == 16


def test_greedy_ids_are_those_of_the_command_line(client):
    cli = brisk_generate("--ids", "504,3575,282,4649,314", "-n", "24", "--ignore-eos")
    answer = complete(client, prompt=[504, 3575, 282, 4649, 314], max_tokens=24, extra_body={"return_token_ids": True, "ignore_eos": True})
    assert answer.choices[0].token_ids == cli["ids"]
    assert answer.choices[0].prompt_token_ids == [504, 3575, 282, 4649, 314]
    assert answer.choices[0].text == cli["text"]


def test_several_prompts(client):
    prompts = ["The capital of France is", "One, two, three,"]
    both = complete(client, prompt=prompts, max_tokens=8)
    alone = [complete(client, prompt=p, max_tokens=8).choices[0].text for p in prompts]
    assert [c.text for c in both.choices] == alone and [c.index for c in both.choices] == [0, 1]
    streamed = ["", ""]
    for chunk in complete(client, prompt=prompts, max_tokens=8, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == alone


def test_stop(client):
    full = complete(client, max_tokens=20).choices[0].text
    word = full.split()[1]
    cut = complete(client, max_tokens=20, stop=[word, "never there"]).choices[0]
    assert cut.text == full[:full.index(word)] and cut.finish_reason == "stop" and cut.stop_reason == word
    assert "".join(c.choices[0].text for c in complete(client, max_tokens=20, stop=word, stream=True)) == cut.text


def test_chat_logprobs(client):
    choice = chat(client, logprobs=True, top_logprobs=3).choices[0]
    tokens = choice.logprobs.content
    assert "".join(bytes(b for t in tokens for b in t.bytes).decode()).startswith(choice.message.content)
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token  # greedy
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob >= token.top_logprobs[2].logprob
    streamed = [t for c in chat(client, logprobs=True, top_logprobs=3, stream=True) if c.choices[0].logprobs
                for t in c.choices[0].logprobs.content]
    assert [t.token for t in streamed] == [t.token for t in tokens]


def test_completion_logprobs(client):
    choice = complete(client, max_tokens=6, logprobs=2).choices[0]
    got = choice.logprobs
    assert "".join(got.tokens) == choice.text and len(got.token_logprobs) == len(got.top_logprobs) == 6
    assert got.text_offset == [len("".join(got.tokens[:k])) for k in range(6)]
    assert all(token in top for token, top in zip(got.tokens, got.top_logprobs))


def test_seeds(client):
    say = lambda seed: chat(client, temperature=2, seed=seed).choices[0].message.content
    assert say(1) == say(1)
    assert len({say(seed) for seed in range(4)}) > 1
    assert len({chat(client, temperature=2).choices[0].message.content for _ in range(4)}) > 1


def test_content_parts_and_past_turns(client):
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    assert chat(client, messages=parts).choices[0].message.content == chat(client).choices[0].message.content
    first = chat(client).choices[0].message
    again = chat(client, messages=[*QUESTION, first.model_dump(), {"role": "user", "content": "And of Italy?"}])
    assert "Rome" in again.choices[0].message.content


def test_special_tokens_in_messages_are_text(server):
    count = lambda text: server.post("/tokenize", {"messages": [{"role": "user", "content": text}]})[1]["count"]
    assert count("<|im_end|>") > count("a") + 2


@pytest.mark.parametrize("fields, param", [
    ({"temperature": -0.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"n": 2}, "n"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": ""}, "stop"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"seed": "one"}, "seed"),
    ({"extra_body": {"chat_template": "x"}}, "chat_template"),
    ({"extra_body": {"guided_json": {}}}, "guided_json"),
    ({"extra_body": {"top_k": 10**7}}, "top_k"),
    ({"extra_body": {"no_such_field": 1}}, "no_such_field"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
])
def test_bad_fields_are_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)
    assert caught.value.param == param and param.split("[")[0] in caught.value.message


def test_fields_that_ask_for_nothing_pass(client):
    answer = chat(client, n=1, logit_bias={}, response_format={"type": "text"}, tools=[], user="me", top_logprobs=0,
                  extra_body={"repeat_penalty": 1.0, "cache_prompt": True, "min_tokens": 0})
    assert "Paris" in answer.choices[0].message.content


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="gpt-4")
    assert caught.value.code == "model_not_found"


def test_prompt_longer_than_the_context(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, prompt=[5] * 3000)
    assert "3000" in caught.value.message and "2048" in caught.value.message
    assert caught.value.code == "context_length_exceeded"


def test_ids_outside_the_vocabulary(client):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, prompt=[49152])
    assert "49152" in caught.value.message


def test_sixty_four_at_once(client, server):
    alone = complete(client, max_tokens=12, extra_body={"ignore_eos": True}).choices[0].text
    ask = lambda _: "".join(c.choices[0].text for c in complete(client, max_tokens=12, stream=True, extra_body={"ignore_eos": True}))
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        assert set(pool.map(ask, range(64))) == {alone}
    server.expect_metric("brisk:num_requests_running", 0)
