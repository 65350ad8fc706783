#!/usr/bin/env bash
# Runs every fuzzer with libFuzzer, one after the other, from its seeds. usage: tools/fuzz.sh [SECONDS each] [NAME...]
# Corpora grow in build-fuzz/corpus; an input that crashes is left in build-fuzz/found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls ./*_fuzz.cpp | sed 's/^..//; s/\.cpp$//')
tools/build.sh release "$@"
tools/build.sh fuzz "$@"
mkdir -p build-fuzz/found
failed=0
for name in "$@"; do
  corpus=build-fuzz/corpus/$name
  mkdir -p "$corpus"
  build/bin/"$name" --write "$corpus"
  echo "== $name, $seconds s"
  build-fuzz/bin/"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix=build-fuzz/found/"$name"- "$corpus" >build-fuzz/"$name".log 2>&1 || failed=$((failed + 1))
  grep -E 'ERROR|SUMMARY|stat::number_of_executed_units' build-fuzz/"$name".log || true
done
echo "$(($# - failed)) passed, $failed failed"
[ $failed = 0 ]
