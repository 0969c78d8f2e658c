#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launchers_test.sh KIND UNISONO: the command under another launcher: torchrun's variables, Open MPI's or MPICH's mpirun.
set -eu
kind=$1 unisono=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UNISONO_TIMEOUT=60s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# start RANKS COMMAND…: as the launcher does; fails if any rank fails.
start() {
  ranks=$1
  shift
  case $kind in
    openmpi) timeout 60 mpirun.openmpi --oversubscribe -n "$ranks" "$@" ;;
    mpich) timeout 60 mpirun.mpich -n "$ranks" "$@" ;;
    torchrun) start_by_hand "$@" ;;
  esac
}

start_by_hand() {
  pids= status=0 rank=0
  while [ $rank -lt "$ranks" ]; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=$address \
      MASTER_PORT=$port TORCHELASTIC_RUN_ID=test timeout 60 "$@" &
    pids="$pids $!" rank=$((rank + 1))
  done
  for pid in $pids; do wait "$pid" || status=$?; done
  return $status
}

# check NAME RANKS ARGUMENTS…: one table, of so many ranks, without a wrong result.
check() {
  name=$1 expected=$2
  shift 2
  if ! start "$@" >"$work/out" 2>&1; then
    echo "launchers: $kind: $name failed:"; cat "$work/out"; exit 1
  fi
  if [ "$(grep -c "^# all_reduce, $expected ranks (processes) on 1 host" "$work/out")" != 1 ] ||
    ! grep -Eq '^errors( +0)+ |^ +64Ki .* 0$' "$work/out"; then
    echo "launchers: $kind: $name: expected one table of $expected ranks without errors, got:"; cat "$work/out"; exit 1
  fi
}

# Nobody listens there a moment before; a taken one would be one clear line.
port=$((20000 + $$ % 10000)) address=127.0.0.1
case $kind in
  torchrun) ;;
  *) command -v "mpirun.$kind" >/dev/null || { echo "launchers: no mpirun.$kind here: NOT TESTED"; exit 77; } ;;
esac

check bench 2 2 "$unisono" bench --bytes 8,64K --iterations 20
check "bench of 3" 3 3 "$unisono" bench --bytes 64K --iterations 20
check compare 2 2 "$unisono" compare --bytes 8,64K --iterations 5 --algorithm ring,one_shot
check run 2 1 "$unisono" run -n 2 --no-labels -- "$unisono" bench --bytes 64K --iterations 5
if [ $kind = torchrun ]; then
  address=::1
  check "bench over ::1" 3 3 "$unisono" bench --bytes 64K --iterations 20
  address=localhost
  check "bench by name" 2 2 "$unisono" bench --bytes 64K --iterations 20
fi

# What one rank cannot do, the launcher is told.
if start 2 "$unisono" bench --bytes 64K --algorithm nonsense >"$work/out" 2>&1; then
  echo "launchers: $kind: a job of an unknown algorithm ended well"; cat "$work/out"; exit 1
fi
grep -q "unknown algorithm nonsense" "$work/out" || { echo "launchers: $kind: no cause:"; cat "$work/out"; exit 1; }
