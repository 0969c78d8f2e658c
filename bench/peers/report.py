# SPDX-License-Identifier: Apache-2.0
"""What bench/against-peers says of the times that its contenders took."""

import json
import math
import os
import statistics

CPUS = len(os.sched_getaffinity(0))


def format_size(size):
    for shift, unit in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def summarise(args, contenders):
    """One dictionary a size."""
    unisono, mapped = contenders[:2]
    floor = next((c for c in contenders if c.peer == "floor" and not c.failed), None)
    rows = []
    for size in args.bytes:
        time_us = unisono.time_us(size)
        row = {"bytes": size, "ranks": args.ranks, "unisono_us": time_us, "unisono_mapped_us": mapped.time_us(size),
               "busbw_GBps": size / time_us / 1e3 * 2 * (args.ranks - 1) / args.ranks, "peers": {}}
        for c in contenders:
            if c.failed or c.peer in ("unisono", "unisono_mapped", "floor"):
                continue
            best = row["peers"].get(c.peer)
            if best is None or c.time_us(size) < best["time_us"]:
                row["peers"][c.peer] = {"time_us": c.time_us(size), "setting": c.setting}
        if row["peers"]:
            best = min(row["peers"], key=lambda peer: row["peers"][peer]["time_us"])
            row["best_peer"] = best
            row["times_faster"] = row["peers"][best]["time_us"] / time_us
            row["mapped_times_faster"] = row["peers"][best]["time_us"] / row["unisono_mapped_us"]
        if floor:
            row["floor_us"] = floor.time_us(("private", size))
            row["mapped_floor_us"] = floor.time_us(("mapped", size))
            row["over_floor"] = time_us / row["floor_us"]
            row["mapped_over_floor"] = row["unisono_mapped_us"] / row["mapped_floor_us"]
        rows.append(row)
    return rows


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def print_table(args, rows):
    peers = list(rows[0]["peers"])
    print(f"# all_reduce f32 sum, {args.ranks} ranks on {CPUS} CPUs, "
          f"{'hot' if args.hot else 'fresh'} inputs, "
          f"medians of {args.rounds} interleaved round{'s' if args.rounds > 1 else ''}; times in µs, busbw in GB/s")
    header = f"{'size':>6}{'unisono':>11}{'busbw':>8}" + "".join(f"{peer:>11}" for peer in peers)
    if peers:
        header += f"{'faster':>9}"
    has_floor = "floor_us" in rows[0]
    if has_floor:
        header += f"{'floor':>11}{'over':>7}"
    header += f"{'mapped':>11}"
    if peers:
        header += f"{'faster':>9}"
    if has_floor:
        header += f"{'floor':>11}{'over':>7}"
    print(header + ("  best peer" if peers else ""))
    for row in rows:
        line = f"{format_size(row['bytes']):>6}{row['unisono_us']:>11.2f}{row['busbw_GBps']:>8.2f}"
        line += "".join(f"{row['peers'][peer]['time_us']:>11.2f}" for peer in peers)
        if peers:
            line += f"{row['times_faster']:>8.2f}x"
        if has_floor:
            line += f"{row['floor_us']:>11.2f}{row['over_floor']:>7.2f}"
        line += f"{row['unisono_mapped_us']:>11.2f}"
        if peers:
            line += f"{row['mapped_times_faster']:>8.2f}x"
        if has_floor:
            line += f"{row['mapped_floor_us']:>11.2f}{row['mapped_over_floor']:>7.2f}"
        if peers:
            best = row["best_peer"]
            line += f"  {best} ({row['peers'][best]['setting']})"
        print(line)
    if peers:
        faster = [row["times_faster"] for row in rows]
        print(f"# faster than the best peer: geometric mean {geometric_mean(faster):.2f}x, least {min(faster):.2f}x")
    if has_floor:
        over = [row["over_floor"] for row in rows]
        print(f"# over the floor: geometric mean {geometric_mean(over):.2f}, most {max(over):.2f}")


def write_json(path, rows, contenders):
    """One object a line: each size, then what each contender took in each round."""
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            print(json.dumps(row), file=file)
        for c in contenders:
            if c.peer == "floor":
                sizes = [(kind, size, t) for (kind, size), t in c.times.items() if kind]
            else:
                sizes = [(None, size, t) for size, t in c.times.items()]
            for kind, size, times in sizes:
                setting = kind or c.setting
                print(json.dumps({"contender": c.peer, "setting": setting, "bytes": size, "rounds_us": times}), file=file)
