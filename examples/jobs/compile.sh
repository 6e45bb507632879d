#!/bin/sh
# A compile with `make -j`: the C sources of spurproc itself, into a folder that is thrown away. Submitted from the clone: a job's
# script is copied when it is submitted, so it finds things from the folder that it works in, and not by `$0`.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
make --no-print-directory -j2 -f examples/jobs/compile.mk SOURCE=csrc OUT="$out"
