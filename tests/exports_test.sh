#!/usr/bin/env bash
# The symbols that the library exports are those of the list, which are those of the header.
#   exports_test.sh SOURCE LIBRARY
set -euo pipefail
list=$1/tests/exported_symbols.txt
if ! diff <(nm -D --defined-only "$2" | awk '{print $NF}' | sort) "$list"; then
  echo "exports_test: $2 (<) exports other symbols than $list (>)" >&2
  exit 1
fi
if ! diff <(grep -o '\bunisono_[a-z_]*(' "$1/include/unisono/unisono.h" | tr -d '(' | sort -u) "$list"; then
  echo "exports_test: the header (<) declares other functions than $list (>)" >&2
  exit 1
fi
