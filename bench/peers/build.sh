#!/usr/bin/env bash
# Builds what the comparisons need: brisk with its benchmarks, and (once, in build/peers/llama.cpp, some five minutes on
# two cores) llama.cpp from the locked source package: Release, native, GCC 12, as its own instructions say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"

cmake --preset release -DBRISK_BENCH=ON >build/cmake.log 2>&1 || { cat build/cmake.log >&2; exit 1; }
cmake --build build --target brisk device_limits

source=.cache/llama_cpp_python.tar.gz
folder=build/peers/llama.cpp
tools=(llama-bench llama-quantize llama-perplexity)
made_from=$(sha256sum "$source" "${BASH_SOURCE[0]}")
[ "$(cat "$folder/made-from" 2>/dev/null)" = "$made_from" ] && exit 0

rm -rf "$folder" "$folder.part"
mkdir -p "$folder.part"
tar xzf "$source" -C "$folder.part" --strip-components=3 --wildcards '*/vendor/llama.cpp'
mv "$folder.part" "$folder"
cmake -S "$folder" -B "$folder/b" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc-12 -DCMAKE_CXX_COMPILER=g++-12 \
  -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >"$folder/cmake.log"
cmake --build "$folder/b" --target "${tools[@]}"
echo "$made_from" >"$folder/made-from"
