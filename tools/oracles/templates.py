#!/usr/bin/env python3
"""Compares brisk's chat templates with transformers' own Jinja environment.

usage: templates.py folder DIR [RUNNER]     every *.jinja in DIR with 13 conversations (needs transformers, jinja2)
       templates.py fuzz COUNT [SEED] [RUNNER]  generated snippets of template code
       templates.py hashes DIR OUT.json     what tests/real/templates.sh compares with: a hash of each rendering
       templates.py golden OUT.json         writes tests/data/templates/golden.json (cases: template_cases.py)
RUNNER: the render_templates binary, build/bin/render_templates by default.
Exits 1 when any rendering differs. That both fail counts as equal: what an error says is not compared.
"""
import datetime
import glob
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)


def oracle():
    """transformers' compiler of templates, with a clock that stands still."""
    from transformers.utils import chat_template_utils as utils

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    utils.datetime = Clock
    return getattr(utils, "_cached_compile_jinja_template", None) or utils._compile_jinja_template


def expected(compile_template, source, context):
    try:
        return {"text": compile_template(source).render(**json.loads(json.dumps(context)))}
    except Exception as e:  # a template may raise anything
        return {"error": f"{type(e).__name__}: {e}"[:300]}


def run(runner, jobs):
    text = "".join(json.dumps(j, ensure_ascii=False) + "\n" for j in jobs)
    done = subprocess.run([runner], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


# Texts of Python's own objects, with their addresses in memory.
ADDRESSES = ["object at 0x", "<built-in method", "<generator object", "<function", "<bound method", "<class "]


def compare(runner, names, jobs, show=20):
    compile_template = oracle()
    got = run(runner, jobs)
    assert len(got) == len(jobs), "the runner answered %d of %d" % (len(got), len(jobs))
    wrong = errors = 0
    for name, job, g in zip(names, jobs, got):
        e = expected(compile_template, job["source"], job["context"])
        errors += "error" in e
        if g == e or ("error" in g and "error" in e) or any(x in e.get("text", "") for x in ADDRESSES):
            continue
        wrong += 1
        if wrong <= show:
            print("DIFFERS", name)
            print("  expected", json.dumps(e, ensure_ascii=False)[:600])
            print("  got     ", json.dumps(g, ensure_ascii=False)[:600])
    print(f"{len(jobs)} renderings, {errors} of them errors by design, {wrong} differ")
    return 1 if wrong else 0


TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": 'Weather <now> in a "city" & more',
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "City é"}, "n": {"type": "integer", "enum": [1, 2]}}}}}
TOOL2 = {"type": "function", "function": {
    "name": "noop", "description": "Nothing.", "parameters": {"type": "object", "properties": {}}}}
USER = {"role": "user", "content": 'Hi <there> "you" é\n'}
ASSISTANT = {"role": "assistant", "content": " Hello! "}
SYSTEM = {"role": "system", "content": "Be brief."}


def call(arguments, **more):
    return dict({"role": "assistant", "content": "", "tool_calls": [
        {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}, **more)


CALL = call({"city": "Köln", "n": 1})
RESULT = {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": '{"t": 21.5}'}
THINK = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}
CASES = {
    "user": dict(messages=[USER], add_generation_prompt=True),
    "user-nogen": dict(messages=[USER], add_generation_prompt=False),
    "sys": dict(messages=[SYSTEM, USER], add_generation_prompt=True),
    "multi": dict(messages=[SYSTEM, USER, ASSISTANT, USER], add_generation_prompt=True),
    "multi-nosys": dict(messages=[USER, ASSISTANT, USER, ASSISTANT], add_generation_prompt=False),
    "parts": dict(messages=[{"role": "user", "content": [
        {"type": "text", "text": "part one"}, {"type": "text", "text": " two"}]}], add_generation_prompt=True),
    "image": dict(messages=[{"role": "user", "content": [
        {"type": "image"}, {"type": "text", "text": "what is it?"}]}], add_generation_prompt=True),
    "think": dict(messages=[USER, THINK, USER], add_generation_prompt=True),
    "nothink": dict(messages=[USER], add_generation_prompt=True, enable_thinking=False),
    "thinking": dict(messages=[USER], add_generation_prompt=True, enable_thinking=True, thinking=True),
    "reasoning": dict(messages=[USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "hm"}, USER],
                      add_generation_prompt=True),
    "tools": dict(messages=[SYSTEM, USER], tools=[TOOL], add_generation_prompt=True),
    "tools-nosys": dict(messages=[USER], tools=[TOOL, TOOL2], add_generation_prompt=True),
    "call": dict(messages=[USER, CALL, RESULT], tools=[TOOL], add_generation_prompt=True),
    "call-text": dict(messages=[USER, call('{"city": "Köln"}'), RESULT], tools=[TOOL], add_generation_prompt=True),
    "call-null": dict(messages=[USER, call({}, content=None), RESULT], tools=[TOOL], add_generation_prompt=True),
    "call-reasoning": dict(messages=[USER, call({"city": "x", "n": 2.5}, reasoning_content="why"), RESULT, RESULT],
                           tools=[TOOL, TOOL2], add_generation_prompt=True),
    "call-done": dict(messages=[USER, CALL, RESULT, ASSISTANT, USER], tools=[TOOL], add_generation_prompt=True),
    "bad-order": dict(messages=[USER, USER, ASSISTANT, ASSISTANT], add_generation_prompt=True),
    "sys-late": dict(messages=[USER, SYSTEM, USER], add_generation_prompt=True),
    "developer": dict(messages=[{"role": "developer", "content": "Rules"}, USER], add_generation_prompt=True),
    "documents": dict(messages=[USER], documents=[{"title": "T", "text": "text é", "doc_id": 1}],
                      add_generation_prompt=True),
    "options": dict(messages=[SYSTEM, USER, ASSISTANT, USER], add_generation_prompt=True, reasoning_effort="high",
                    date_string="1 May 2026", model_identity="You are X.", custom_tools=[TOOL], builtin_tools=["python"],
                    keep_all_reasoning=True, clear_thinking=False, tools_in_user_message=False),
    "empty": dict(messages=[], add_generation_prompt=True),
    "spaces": dict(messages=[{"role": "user", "content": " \n x \n\n"}, {"role": "assistant", "content": "\ty\n"},
                             {"role": "user", "content": ""}], add_generation_prompt=True),
}


def jobs_of(directory):
    names, jobs = [], []
    for path in sorted(glob.glob(os.path.join(directory, "*.jinja"))):
        source = open(path, encoding="utf8", newline="").read()
        for name, case in CASES.items():
            context = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", tools=None,
                           documents=None)
            context.update(case)
            names.append(os.path.basename(path) + ": " + name)
            jobs.append({"source": source, "context": context})
    if not jobs:
        sys.exit(f"no *.jinja in {directory}")
    return names, jobs


def folder(directory, runner):
    names, jobs = jobs_of(directory)
    return compare(runner, names, jobs) | (origin(runner, names, jobs)[1] > 0)


def digest(answer):
    return hashlib.sha256(answer["text"].encode()).hexdigest()[:10] if "text" in answer else "error"


def hashes(directory, out):
    names, jobs = jobs_of(directory)
    compile_template = oracle()
    answers = {n: digest(expected(compile_template, j["source"], j["context"])) for n, j in zip(names, jobs)}
    with open(out, "w", encoding="utf8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(h)}" for n, h in answers.items()) + "\n}\n")
    return 0


MARK = "Qz<|im_end|>zQ"  # what a user might write to end a turn


def marked(value, key=None):
    """The same data with MARK in every text; roles, types and names stay what templates know."""
    if isinstance(value, dict):
        return {k: marked(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [marked(v, key) for v in value]
    free = isinstance(value, str) and key in ("content", "text", "description", "reasoning_content", "city", "title")
    return value + MARK if free else value


def origin(runner, names, jobs):
    """Whatever comes from data is known to: no byte of a user's text passes for the template's."""
    jobs = [dict(source=j["source"], chat=True, context=marked(j["context"])) for j in jobs]
    wrong = seen = 0
    for name, g in zip(names, run(runner, jobs)):
        if "error" in g:
            continue
        text = g["text"].encode()
        at = text.find(b"Qz")
        while at >= 0:
            seen += 1
            end = at + len(MARK)
            if not any(b <= at and end <= e for b, e in g["data"]):
                wrong += 1
                print("TAKEN FOR THE TEMPLATE'S", name, text[max(0, at - 40):end + 10])
            at = text.find(b"Qz", at + 1)
        rest = bytearray(text)  # what is left without data must still hold the template's own tokens whole
        for b, e in g["data"]:
            rest[b:e] = b"\0" * (e - b)
        for token in (b"<|im_start|>", b"<|im_end|>", b"<|eot_id|>", b"<|start_header_id|>", b"<start_of_turn>", b"[INST]"):
            own = text.replace(MARK.encode(), b"").count(token)
            if bytes(rest).count(token) != own:
                wrong += 1
                print("TAKEN FOR DATA", name, token)
    print(f"{seen} texts of users found in the prompts, {wrong} of unclear origin")
    return seen, wrong


def fuzz(count, seed, runner):
    sys.path.insert(0, str(ROOT / "tools" / "oracles"))
    import template_fuzz
    rng = random.Random(seed)
    jobs = [{"source": template_fuzz.snippet(rng), "context": template_fuzz.CONTEXT} for _ in range(count)]
    return compare(runner, [repr(j["source"]) for j in jobs], jobs, 40)


def golden(out):
    """{"context": ..., "cases": [{"source", "text" or "error"}]}; checked by tests/unit/chat_template_test.cpp."""
    sys.path.insert(0, str(ROOT / "tools" / "oracles"))
    import template_cases
    import template_fuzz
    compile_template = oracle()
    rng = random.Random(20260102)
    sources = template_cases.CASES + [template_fuzz.snippet(rng) for _ in range(400)]
    cases = []
    for source in sources:
        e = expected(compile_template, source, template_fuzz.CONTEXT)
        if any(x in e.get("text", "") for x in ADDRESSES):
            continue
        cases.append(dict(source=source, **({"text": e["text"]} if "text" in e else {"error": True})))
    with open(out, "w", encoding="utf8") as f:
        f.write('{"context": ' + json.dumps(template_fuzz.CONTEXT, ensure_ascii=False) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")
    print(f"{len(cases)} cases")
    return 0


def main():
    args = sys.argv[1:]
    runner = str(ROOT / "build" / "bin" / "render_templates")
    if len(args) >= 2 and args[0] == "folder":
        return folder(args[1], args[2] if len(args) > 2 else runner)
    if len(args) >= 2 and args[0] == "fuzz":
        return fuzz(int(args[1]), int(args[2]) if len(args) > 2 else 1, args[3] if len(args) > 3 else runner)
    if len(args) == 3 and args[0] == "hashes":
        return hashes(args[1], args[2])
    if len(args) == 2 and args[0] == "golden":
        return golden(args[1])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
