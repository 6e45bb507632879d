#!/bin/sh
# A compile with `make -j`: the C sources of spurproc itself, into a folder that is thrown away.
set -eu
here=$(dirname "$(readlink -f "$0")")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
make --no-print-directory -j2 -f "$here/compile.mk" SOURCE="$here/../../csrc" OUT="$out"
