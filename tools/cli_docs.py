#!/usr/bin/env python3
"""The command line as `brisk --help` shows it: writes docs/cli.md, or with --check compares.

usage: tools/cli_docs.py [--check] [path of the brisk binary]
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
INTRO = """# The command line
Made by `tools/cli_docs.py` from `--help`; a test compares the two.

Messages go to stderr, results to stdout; `--json` is one JSON object. Exit codes: 0 done, 1 the work failed, 2 wrong
usage or bad input, 3 the model needs something brisk does not support (all of it listed). `brisk --version` prints
version, commit and instruction sets.
"""


def help_of(binary, *command):
    text = subprocess.run([binary, *command, "--help"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line.rstrip() for line in text.replace(binary, "brisk").strip().splitlines())


def page(binary):
    top = help_of(binary)
    commands = re.findall(r"^  ([a-z-]+) +\S", top.split("Subcommands:")[1], re.M)
    parts = [INTRO, "```\n" + top + "\n```\n"]
    for name in commands:
        parts.append(f"## brisk {name}\n```\n{help_of(binary, name)}\n```\n")
    return "\n".join(parts)


def main(arguments):
    check = "--check" in arguments
    binary = next((a for a in arguments if not a.startswith("--")), str(ROOT / "build" / "bin" / "brisk"))
    made = page(binary)
    if not check:
        PAGE.write_text(made)
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    if old == made:
        print("1 passed, 0 failed")
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), made.splitlines(True), "docs/cli.md", "brisk --help"))
    print("docs/cli.md differs from --help: run tools/cli_docs.py\n0 passed, 1 failed")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
