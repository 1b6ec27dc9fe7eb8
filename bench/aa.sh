#!/bin/sh
# A/A comparisons of the timing (src/evaluate/aa_bench.cc): how often a kernel seems faster than itself.
#   bench/aa.sh BUILD_FOLDER [COMPARISONS] [N] [LAUNCHES] [SECONDS_PER_LAUNCH]
# About 1.4 s a comparison. Other work on the machine belongs to the test: it widens the intervals, it must not bias them.
set -e
build=${1:?"usage: bench/aa.sh BUILD_FOLDER [COMPARISONS] [N] [LAUNCHES] [SECONDS_PER_LAUNCH]"}
shift
cmake --build "$build" --target aa_bench loopscope-runner >&2
LOOPSCOPE_LIBEXEC="$build/bin" exec "$build/bin/aa_bench" "$@"
