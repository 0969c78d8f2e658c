#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/against-peers for one short round: every size gets its row and its lines of JSON, and a peer
# that is missing is left out with a loud line.
#   against_peers_test.sh SCRIPT BUILD_FOLDER
set -euo pipefail
script=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$(python3 -c 'import sys; print(sys.executable)')  # not a wrapper, which would need PATH
short=(--rounds 1 --bytes "8,64K" --iterations 3 --settings 1 --build "$build")

fail() {
  echo "against-peers: $1" >&2
  cat "$folder"/* >&2
  exit 1
}
# check NAME: both sizes are in the table and in the JSON of the run of that name.
check() {
  grep -q '^ *8 ' "$folder/$1.out" || fail "$1: no row of 8 B"
  grep -q '^ *64Ki ' "$folder/$1.out" || fail "$1: no row of 64 KiB"
  "$python" - "$folder/$1.json" <<'END' || fail "$1: wrong JSON"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
sizes = [row for row in rows if "unisono_us" in row]
assert [row["bytes"] for row in sizes] == [8, 65536]
assert all(row["unisono_us"] > 0 and row["unisono_mapped_us"] > 0 and row["mapped_over_floor"] > 0 and row["floor_us"] > 0 and row["mapped_floor_us"] > 0 for row in sizes)
END
}

"$python" "$script" "${short[@]}" --json "$folder/all.json" >"$folder/all.out" 2>"$folder/all.err" || fail "exit status $?"
check all
cat "$folder/all.out" "$folder/all.err"

mkdir "$folder/empty"
PATH="$folder/empty" "$python" "$script" "${short[@]}" --json "$folder/none.json" >"$folder/none.out" 2>"$folder/none.err" ||
  fail "exit status $? without peers"
rmdir "$folder/empty"
check none
for peer in openmpi mpich gloo; do
  grep -q "SKIPPED $peer: no .* here" "$folder/none.err" || fail "$peer is missing, and nothing says so"
done

if "$python" "$script" --build "$build" --bytes 7 >"$folder/bad.out" 2>"$folder/bad.err"; then
  fail "accepts a size of 7 B"
fi
grep -q "multiples of 4" "$folder/bad.err" || fail "does not say what is wrong with 7 B"
