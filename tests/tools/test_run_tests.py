"""The test runner: reading other runners' summaries, going on after a failure, limits."""
import time

import pytest
import run_tests
from run_tests import Counts

CTEST_GREEN = "100% tests passed, 0 tests failed out of 3\n"
CTEST_RED = """67% tests passed, 1 tests failed out of 3

Total Test time (real) =   0.05 sec

The following tests did not run:
\t  2 - A.Skips (Skipped)

The following tests FAILED:
\t  3 - A.Fails (Failed)
Errors while running CTest
"""


@pytest.mark.parametrize("log, code, expected", [
    (CTEST_GREEN, 0, Counts(3, 0, 0)),
    (CTEST_RED, 8, Counts(1, 1, 1)),
    ("...\n2 failed, 5 passed, 1 skipped, 1 warning in 0.19s\n", 1, Counts(5, 2, 1)),
    ("==== 5 passed, 1 error in 61.20s (0:01:01) ====\n", 1, Counts(5, 1, 0)),
    ("7 passed, 0 failed\n", 0, Counts(7, 0, 0)),
    ("1 passed, 0 failed\n7 passed, 2 failed, 3 skipped\n", 1, Counts(7, 2, 3)),
    ("it says that 3 passed the door\n", 0, Counts(1, 0, 0)),
    ("Segmentation fault\n", 1, Counts(0, 1, 0)),
    ("7 passed, 0 failed\n", 1, Counts(7, 1, 0)),
])
def test_counts(log, code, expected):
    assert run_tests.read_counts(log, code) == expected


def test_goes_on_after_a_failing_stage(tmp_path):
    rows, total = run_tests.run([("a", 1, "exit 3"), ("b", 1, "echo 2 passed, 0 failed")], tmp_path)
    assert "exit code 3" in rows[0]
    assert total == Counts(2, 1, 0)


def test_stops_after_a_failing_build(tmp_path):
    rows, total = run_tests.run([("build", 1, "false"), ("b", 1, "touch ran")], tmp_path)
    assert "not run" in rows[1] and total == Counts(0, 2, 0)


def test_green_preparing_stages_are_no_tests(tmp_path):
    assert run_tests.run([("setup", 1, "true")], tmp_path)[1] == Counts()


def test_limit_ends_the_stage_and_its_children(tmp_path):
    rows, total = run_tests.run([("slow", 1 / 120, f"(sleep 1; touch {tmp_path}/late) & sleep 60")], tmp_path)
    assert "over its limit" in rows[0] and total.failed == 1
    time.sleep(0.8)
    assert not (tmp_path / "late").exists()


def test_stdin_is_empty_and_all_output_is_logged(tmp_path):
    _, total = run_tests.run([("cat", 1, "cat; echo out; echo err >&2")], tmp_path)
    assert total == Counts(1, 0, 0)
    assert (tmp_path / "cat.log").read_text() == "out\nerr\n"
