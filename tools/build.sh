#!/usr/bin/env bash
# Configures (once) and builds one preset of CMakePresets.json. usage: tools/build.sh PRESET [target...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift
dir=build
[ "$preset" = release ] || dir=build-$preset
# Objects are shared between clones of any path.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"
[ -f "$dir/build.ninja" ] || cmake --preset "$preset"
cmake --build "$dir" ${1:+--target "$@"}
