#!/usr/bin/env bash
# Runs the tests that drive the command line from outside with one binary, such as a sanitized one. usage: command_tests.sh BINARY
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(realpath "$1")
export BRISK=$binary BRISK_BINARY=$binary
failed=0
for test in "suite.py $binary" "opsets.py $binary" "contrib.py $binary" decoders.py real_models.py; do
  # shellcheck disable=SC2086 — words
  .venv/bin/python tests/onnx/$test | tail -3 || failed=1
done
.venv/bin/pytest -q tests/hostile || failed=1
exit $failed
