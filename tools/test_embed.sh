#!/usr/bin/env bash
# Installs brisk into a folder, builds examples/embed against that by find_package, and asks the program a question.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=build/embed
rm -rf "$place"
mkdir -p "$place"
cmake --install build --prefix "$place/prefix" >"$place/install.log"
cp -r examples/embed "$place/source"  # outside the tree: nothing of brisk but what was installed
cmake -S "$place/source" -B "$place/build" -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_PREFIX_PATH="$PWD/$place/prefix"
cmake --build "$place/build"
if grep -rn "$PWD/src" "$place/prefix/lib/cmake"; then
  echo "the installed package points into the source tree"
  exit 1
fi
tools/smollm2_engine.sh
answer=$("$place/build/embed" build/smollm2.engine "What is the capital of France?")
echo "$answer"
[[ $answer == *Paris* ]]
