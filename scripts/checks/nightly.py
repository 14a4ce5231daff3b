"""What the gate does not run, in shards: scripts/nightly [--status] [--times] [--stalest MINUTES] [--all] [NAME...]

  NAME...            runs these shards
  --status           the table of all shards; exit 1: one is red; 3: none is red, some are stale
  --times            the seconds of all kept results, as the rows of bench/results/checks.csv
  --stalest MINUTES  runs the shards with the oldest results, as far as they fit into these minutes; a shard that does not
                     end in time is cut, and stays stale
  --all              runs every shard that is stale or red
  --list             the names of the shards

A shard's result is kept outside the tree ($XDG_CACHE_HOME/janus/nightly/NAME), with its logs and a hash of the sources
that it depends on. A result is stale if one of these has changed. .ci/nightly.toml says what each shard runs.
"""

import argparse
import datetime
import sys
import time

import process
import shards
from outcome import problems, times_table


def age(record):
    seconds = time.time() - record["at"]
    return str(datetime.timedelta(seconds=int(seconds)))


def table(all_shards):
    lines = [f"{'shard':28} {'state':8} {'seconds':>8} {'building':>9}  {'budget':>7}  last run"]
    for shard in all_shards:
        now, record = shards.state(shard)
        seconds = f"{record['seconds']:.0f}" if record and record.get("seconds") is not None else "-"
        built = f"{record['built']:.0f}" if record and record.get("built") else "-"
        when = f"{age(record)} ago" if record else "never"
        lines.append(f"{shard.name:28} {now:8} {seconds:>8} {built:>9}  {shard.cold_minutes:>3} min  {when}")
    return "\n".join(lines)


def times(all_shards):
    """CSV: a row for each shard that has a time."""
    rows = []
    for shard in all_shards:
        record = shards.kept(shard)
        if record and record.get("seconds") is not None:
            rows.append(("shard", shard.name, record["seconds"], record.get("built", 0), record["status"]))
    return times_table(rows)


def red_lines(all_shards):
    """The red shards, with the commands that repeat them; empty: there is no red shard."""
    lines = []
    for shard in all_shards:
        now, record = shards.state(shard)
        if now != "red":
            continue
        changed = " (its sources have changed since)" if shards.due(shard) else ""
        lines.append(f"RED  shard {shard.name}{changed}; its logs: {shards.log_folder(shard)}")
        for suite, test, repeat, reason in record["failures"]:
            lines.append(f"  {suite}  {test}".rstrip() + (f": {reason}" if reason else ""))
            lines.append(f"      {repeat}")
    return lines


def show_result(status, outcome):
    built = f", of them {outcome.built:.0f} s of building" if outcome.built >= 1 else ""
    print(f"=== shard {outcome.name}: {status}, {outcome.seconds:.0f} s{built}", flush=True)
    for line in problems([outcome]):
        print(line)


def stalest(all_shards, minutes, shown=False):
    """Runs due shards, the oldest first, as far as they fit. Returns [(status, outcome)]."""
    until = time.monotonic() + 60 * minutes
    waiting = [s for s in all_shards if shards.due(s)]
    waiting.sort(key=lambda s: (shards.kept(s) or {"at": 0})["at"])
    done = []
    for shard in waiting:
        left = until - time.monotonic()
        if shards.expected_seconds(shard) > left:
            continue
        print(f"=== shard {shard.name} (about {shards.expected_seconds(shard):.0f} s)", flush=True)
        status, outcome = shards.run(shard, all_shards, left, shown)
        show_result(status, outcome)
        done.append((status, outcome))
    too_long = [s.name for s in waiting if shards.expected_seconds(s) > 60 * minutes]
    if too_long:
        print(f"never run in {minutes:g} minutes, so run them by name: scripts/nightly {' '.join(too_long)}", flush=True)
    if not done:
        print("no shard that is due fits" if waiting else "no shard is due", flush=True)
    return done


def exit_status(all_shards):
    states = [shards.state(s)[0] for s in all_shards]
    return 1 if "red" in states else 3 if "stale" in states else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/nightly", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--stalest", type=float, metavar="MINUTES")
    wanted = parser.parse_args()
    all_shards = shards.load()
    known = {s.name: s for s in all_shards}
    unknown = [n for n in wanted.names if n not in known]
    if unknown:
        parser.error(f"no shard is named {', '.join(unknown)}; --list names them all")
    if wanted.list:
        print("\n".join(known))
        return 0
    if wanted.times:
        print(times(all_shards), end="")
        return 0
    if wanted.status:
        print(table(all_shards))
        for line in red_lines(all_shards):
            print(line)
        return exit_status(all_shards)
    if wanted.stalest is not None:
        stalest(all_shards, wanted.stalest)
        for line in red_lines(all_shards):
            print(line)
        return exit_status(all_shards)
    chosen = [known[n] for n in wanted.names] or ([s for s in all_shards if shards.due(s)] if wanted.all else [])
    if not chosen and not wanted.all:
        parser.error("name a shard, or say --status, --times, --stalest MINUTES or --all")
    bad = False
    for shard in chosen:
        status, outcome = shards.run(shard, all_shards)
        show_result(status, outcome)
        bad = bad or status == "red"
    return int(bad)


if __name__ == "__main__":
    process.end_on_signals()
    try:
        sys.exit(main())
    finally:
        process.kill_all()
