#!/usr/bin/env python3
"""The test run: stage after stage, each with its time and limit, all of them even when one fails, then a table and
a closing line "N passed, N failed".

usage: tools/run_tests.py [stage...]    (default: all of STAGES; logs in build/test-logs)
"""
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

# THE LIST. Counts are read from ctest's, pytest's or a plain "N passed, N failed" line that a stage prints; a stage
# without such a line counts as one test. Preparing stages count only when they fail, and then nothing after them runs.
#   name       minutes  command
STAGES = [
    ("setup",      15, "tools/setup.sh test"),
    ("build",      25, "tools/build.sh release"),
    ("includes",    1, "python3 tools/check_includes.py"),
    ("text",        1, "python3 tools/check_text.py"),
    ("tools",       4, ".venv/bin/pytest -q tests/tools"),
    ("unit",        6, "tools/unit_tests.sh build"),
    ("cli",         1, "python3 tools/cli_docs.py --check"),
    ("embed",       3, "tools/test_embed.sh"),
    ("hostile",     2, ".venv/bin/pytest -q tests/hostile"),
    ("templates",   3, "tests/real/templates.sh"),
    ("onnx",        5, ".venv/bin/python tests/onnx/suite.py"),
    ("onnx-opsets", 2, ".venv/bin/python tests/onnx/opsets.py"),
    ("contrib",     1, ".venv/bin/python tests/onnx/contrib.py"),
    ("real-onnx",   6, ".venv/bin/python tests/onnx/real_models.py"),
    ("decoders",    4, ".venv/bin/python tests/onnx/decoders.py"),
    ("smollm2",     6, ".venv/bin/pytest -q tests/real"),
    ("server",      4, "tools/smollm2_engine.sh && .venv/bin/pytest -q tests/server"),
]
PREPARING = ("setup", "build")

ROOT = pathlib.Path(__file__).resolve().parent.parent
CTEST = re.compile(r"tests passed, (\d+) tests? failed out of (\d+)$")
CTEST_SKIPPED = re.compile(r"^\s*\d+ - .* \((?:Skipped|Disabled)\)$")
WORDS = "passed|failed|skipped|errors?|warnings?|deselected|xfailed|xpassed"
SUMMARY = re.compile(rf"^[= ]*((?:\d+ (?:{WORDS})(?:, )?)+)(?: in [0-9.:() s]+)?[= ]*$")


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def read_counts(log, code):
    """The last summary in a stage's output; a stage that failed without saying so has one failure more."""
    counts, skipped = None, 0
    for line in log.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()
        if ctest := CTEST.search(line):
            failed, total = map(int, ctest.groups())
            counts, skipped = Counts(total - failed, failed), 0
        elif CTEST_SKIPPED.match(line):
            skipped += 1
        elif summary := SUMMARY.match(line):
            found = {word.rstrip("s"): int(n) for n, word in re.findall(rf"(\d+) ({WORDS})", summary.group(1))}
            counts, skipped = Counts(found.get("passed", 0), found.get("failed", 0) + found.get("error", 0),
                                     found.get("skipped", 0)), 0
    if counts is None:
        return Counts(failed=1) if code else Counts(passed=1)
    counts.passed -= skipped  # ctest counts a skipped test as passed
    counts.skipped += skipped
    if code and not counts.failed:
        counts.failed = 1
    return counts


def kill_group(process):
    """Ends what is left of the stage: asks, and after five seconds insists."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left


def run_stage(command, log_path, seconds):
    """Runs it without stdin, prints what it prints, and writes that to the log. (exit code or None if too slow, text)"""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "wb") as log:
        tee = subprocess.Popen(["tee", "-i", log.name], stdin=subprocess.PIPE)
        process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=tee.stdin,
                                   stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT)
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_group(process)  # what a stage leaves running ends with it
            tee.stdin.close()
            tee.wait()
    return code, log_path.read_text(errors="replace")


def run(stages, logs):
    """Runs the stages; returns (table rows, sum of counts)."""
    rows, total, broken = [], Counts(), None
    for name, minutes, command in stages:
        if broken:
            rows.append(f"{name:<10} not run, since {broken} failed")
            total.add(Counts(failed=1))
            continue
        print(f"\n=== {name}: {command}", flush=True)
        begin = time.monotonic()
        code, text = run_stage(command, logs / f"{name}.log", 60 * minutes)
        took = time.monotonic() - begin
        counts = read_counts(text, code != 0)
        if name in PREPARING:
            counts = Counts(failed=int(code != 0))
            broken = name if code != 0 else None
        note = "" if code == 0 else f"  over its limit of {minutes} min" if code is None else f"  exit code {code}"
        rows.append(f"{name:<10} {took:7.1f} s {counts.passed:6} passed {counts.failed:4} failed "
                    f"{counts.skipped:4} skipped{note}")
        total.add(counts)
    return rows, total


def main():
    wanted = sys.argv[1:]
    unknown = set(wanted) - {stage[0] for stage in STAGES}
    if unknown:
        sys.exit(f"run_tests.py: no stage {', '.join(sorted(unknown))}; there are {', '.join(s[0] for s in STAGES)}")
    stages = [stage for stage in STAGES if not wanted or stage[0] in wanted]
    rows, total = run(stages, ROOT / "build" / "test-logs")
    print("\n=== summary (logs in build/test-logs)", *rows, sep="\n")
    if total.passed + total.failed == 0 and not set(wanted) <= set(PREPARING):
        sys.exit("run_tests.py: no test ran")
    print(f"{total.passed} passed, {total.failed} failed" + (f", {total.skipped} skipped" if total.skipped else ""))
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
