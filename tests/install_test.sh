#!/usr/bin/env bash
# Installs into an empty folder, builds a C program with pkg-config and a C++ program with CMake against what
# is there, and runs both with several ranks.
#   install_test.sh SOURCE BUILD PREFIX CC CXX [FLAG...]     FLAGs: for the compilers, e.g. sanitizers
set -euo pipefail
source=$1 build=$2 prefix=$3 cc=$4 cxx=$5
flags=("${@:6}")
ranks=3

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

meson install -C "$build" --no-rebuild --quiet --destdir "$stage"
# Moved away from its prefix: the package files must not hold it.
tree=$stage/moved
mv "$stage$prefix" "$tree"
grep -rlF "$stage" "$tree" && fail "the files above hold the folder of the installation"

# Runs "$@" as $ranks ranks; what they print, sorted.
run_ranks() {
  local token rank pids=()
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK=$rank WORLD_SIZE=$ranks UNISONO_JOB_TOKEN=$token UNISONO_BOOTSTRAP=local UNISONO_TIMEOUT=60s \
      "$@" >"$stage/out.$rank" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "a rank of $* failed"; done
  cat "$stage"/out.* | sort
}

# What has to say "$1" for ranks 0, 1, 2, after "rank R of 3: ".
expect() {
  local expected said=$2 what=$3
  expected=$(for ((rank = 0; rank < ranks; ++rank)); do echo "rank $rank of $ranks: $1"; done)
  [ "$said" = "$expected" ] || fail "$what said: $said"
}

library=$(find "$tree" -name 'libunisono.so.0')
[ -n "$library" ] || fail "no libunisono.so.0 in $(find "$tree")"
readelf -d "$library" | grep -q 'SONAME.*\[libunisono.so.0\]' || fail "its SONAME is not libunisono.so.0"
libraries=$(dirname "$library")

export PKG_CONFIG_PATH=$libraries/pkgconfig
read -ra package < <(pkg-config --cflags --libs unisono)
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror "${flags[@]}" "$source/examples/01_all_reduce.c" "${package[@]}" \
  -Wl,-rpath,"$libraries" -o "$stage/c_program"
expect "3 6 9 12" "$(run_ranks "$stage/c_program")" "the C program"

cmake -S "$source/tests/install" -B "$stage/cmake" -DPROGRAM="$source/examples/05_group.cc" \
  -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="${flags[*]:-}" >"$stage/log" 2>&1 &&
  cmake --build "$stage/cmake" >>"$stage/log" 2>&1 || { cat "$stage/log" >&2; fail "cmake failed"; }
expect "mean gradient 2, 96 samples" "$(run_ranks "$stage/cmake/program")" "the C++ program"

# With an older C++ there is one error, which says so.
echo '#include <unisono/unisono.hpp>' >"$stage/old.cc"
said=$("$cxx" -std=c++17 "${package[@]}" -c "$stage/old.cc" -o "$stage/old.o" 2>&1) && fail "unisono.hpp is C++17"
[ "$(grep -c 'error:' <<<"$said")" = 1 ] && grep -q 'needs C++20' <<<"$said" || fail "unisono.hpp as C++17: $said"

if cmake -S "$source/tests/install" -B "$stage/other" -DPROGRAM="$source/examples/05_group.cc" \
  -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_CXX_COMPILER="$cxx" -DVERSION_WANTED=0.2 >"$stage/log" 2>&1; then
  fail "cmake took version 0.1 for 0.2"
fi
grep -q 'compatible with requested version' "$stage/log" || { cat "$stage/log" >&2; fail "cmake failed otherwise"; }

if [ -x "$tree/bin/unisono" ]; then
  said=$("$tree/bin/unisono" run -n $ranks --no-labels -- "$stage/c_program" | sort)
  expect "3 6 9 12" "$said" "the C program under the installed launcher"
fi
if [ -n "$(find "$libraries/unisono" -name '*ucx*' 2>/dev/null)" ]; then
  expect "3 6 9 12" "$(UNISONO_TRANSPORT=ucx run_ranks "$stage/c_program")" "the C program over ucx"
fi
