#!/usr/bin/env python3
"""usage: templates.py DIR RUNNER    (templates.sh says what for); ends with "N passed, N failed"."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "oracles"))
import templates  # noqa: E402


def main():
    directory, runner = sys.argv[1:]
    wanted = json.loads((ROOT / "tests/data/templates/real.json").read_text())
    names, jobs = templates.jobs_of(directory)
    passed = failed = 0
    for name, answer in zip(names, templates.run(runner, jobs)):
        if wanted.get(name) == templates.digest(answer):
            passed += 1
            continue
        failed += 1
        if failed <= 10:
            print(f"error: {name}: not what transformers renders: {json.dumps(answer, ensure_ascii=False)[:400]}")
    if len(names) != len(wanted):
        failed += 1
        print(f"error: {len(names)} renderings, {len(wanted)} hashes")
    seen, wrong = templates.origin(runner, names, jobs)
    print(f"{passed + seen - wrong} passed, {failed + wrong} failed")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
