#!/usr/bin/env bash
# From a fresh clone to a streamed answer: installs what is missing, builds, fetches real weights, compiles them into
# an engine, asks it, and prints what it took. Every step is skipped when its result is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
brisk=build/bin/brisk
engine=build/smollm2.engine
question="What is the capital of France?"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n== %s\n' "$*"; }

step "1/5 what the machine lacks"
tools/setup.sh demo
echo "all there"

step "2/5 build"
tools/build.sh release brisk

step "3/5 compile SmolLM2-135M-Instruct into $engine"
tools/smollm2_engine.sh

step "4/5 ask it: $question"
answer=build/demo-answer.txt
"$brisk" generate "$engine" --chat -p "$question" -n 64 2>build/demo-generate.log | tee "$answer" ||
  { cat build/demo-generate.log >&2; exit 1; }
grep -q Paris "$answer" || { echo "demo: the answer should name Paris" >&2; exit 1; }

step "5/5 figures (prompt of 128 tokens, 64 generated; $(nproc) cores)"
"$brisk" bench "$engine" --prompt-len 128 --gen-len 64 --requests 3 --json --log-level warning >build/demo-bench.json
python3 - build/demo-bench.json <<'PY'
import json, sys
figures = json.load(open(sys.argv[1]))
print(f"time to first token   {figures['ttft_ms']['p50']:8.1f} ms")
print(f"time per next token   {figures['tpot_ms']['p50']:8.2f} ms")
print(f"peak memory           {figures['peak_rss_bytes'] / 2**20:8.0f} MiB")
print(f"engine loaded in      {figures['load_ms']:8.1f} ms")
PY

printf '\nWhat to try next:\n  %s chat %s\n' "$brisk" "$engine"
if "$brisk" --help | grep -q '^  serve '; then
  cat <<END
  $brisk serve $engine --http-port 8000 &
  curl -N http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' -d \\
    '{"model": "smollm2", "stream": true, "temperature": 0, "messages": [{"role": "user", "content": "$question"}]}'
END
fi
