#!/usr/bin/env bash
# Makes build/smollm2.engine from the real weights, unless it is there and made by this binary from these weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
brisk=build/bin/brisk
model=.cache/SmolLM2-135M-Instruct.Q4_1.gguf
engine=build/smollm2.engine

made_from=$(sha256sum "$brisk" "$model")
if [ -s "$engine" ] && [ "$(cat "$engine.made-from" 2>/dev/null)" = "$made_from" ]; then
  echo "$engine is up to date"
  exit 0
fi
rm -f "$engine.made-from"
"$brisk" build "$model" -o "$engine"
echo "$made_from" >"$engine.made-from"
