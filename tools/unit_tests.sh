#!/usr/bin/env bash
# Runs the unit tests of one build folder by ctest and prints why each skipped one was skipped. usage: unit_tests.sh DIR
set -uo pipefail
dir=$1
ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$(nproc)" --timeout 120
rc=$?
awk '/: Skipped$/ { print "skipped: " $0; getline; print "  " $0 }' "$dir/Testing/Temporary/LastTest.log"
exit $rc
