#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `rondo train` beside PyTorch's DistributedDataParallel over Gloo (ddp.py): the same model, corpus and batch,
one thread and one core a rank. The settings are one rank, two ranks of one host, and two hosts with each link of
--links. The hosts are network namespaces, which need root. In a round every contender runs once in each setting. Each
round begins with another contender. It prints a Markdown table of medians with least and most; --json keeps each run.

    python3 -m venv V
    V/bin/pip install torch==2.11.0
    bench/compare/training.py --build build --python V/bin/python
"""

import argparse
import itertools
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from between import hosts

CORPUS = "/usr/share/common-licenses"
PEER = Path(__file__).resolve().with_name("ddp.py")
DEADLINE_S = 900
PORTS = itertools.count(28_000, 3)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="a build of Rondo (build)")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch (this one)")
    parser.add_argument("--models", default="nano,tiny", help="on one host (nano,tiny)")
    parser.add_argument("--model", default="tiny", help="on two hosts (tiny)")
    parser.add_argument("--links", default="none,1gbit,200mbit", help="what each of two hosts may send; none: no limit")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10, help="of a run, roughly (10)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file to which each run is appended, a line each")
    return parser.parse_args()


def run(made, ranks, words):
    """Returns rank 0's standard output. Each rank has its own host among those that are `made`, or is on this host. If
    there are enough cores, each rank has its own core. A rank that fails ends the run."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
    base.update(OMP_NUM_THREADS="1", RONDO_SECRET=secrets.token_hex(32))
    if ranks > 1:
        base.update(WORLD_SIZE=str(ranks), MASTER_ADDR=made.address(0) if made else "127.0.0.1",
                    MASTER_PORT=str(next(PORTS)), GLOO_SOCKET_IFNAME="eth0" if made else "lo")
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / f"said-{rank}" for rank in range(ranks)]
        errors = [Path(folder) / f"errors-{rank}" for rank in range(ranks)]
        started = []
        try:
            start(started, made, words, base, said, errors)
            deadline = time.monotonic() + DEADLINE_S
            while any(rank.poll() is None for rank in started) and not any(rank.poll() for rank in started):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            statuses = [rank.poll() for rank in started]
        finally:
            for rank in started:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait()
        if any(status != 0 for status in statuses):
            sys.exit(f"{' '.join(words)}: by rank, with None where it had not ended: {statuses}\n" +
                     "".join(path.read_text(encoding="utf-8") for path in errors))
        return said[0].read_text(encoding="utf-8")


def start(started, made, words, base, said, errors):
    cores = sorted(os.sched_getaffinity(0))
    try:
        for rank in range(len(said)):
            os.sched_setaffinity(0, {cores[rank % len(cores)]})  # which the rank inherits
            own = dict(base, RANK=str(rank)) if len(said) > 1 else base
            with said[rank].open("wb") as output, errors[rank].open("wb") as error:
                started.append(subprocess.Popen(made.command(rank, words) if made else words, env=own,
                                                stdin=subprocess.DEVNULL, stdout=output, stderr=error))
    finally:
        os.sched_setaffinity(0, set(cores))


class Rondo:
    def __init__(self, build, options=()):
        self.name = " ".join(["rondo", *options])
        self.program, self.options = str(Path(build).resolve() / "src" / "cli" / "rondo"), options

    def run(self, made, ranks, model, batch, steps):
        with tempfile.NamedTemporaryFile() as file:
            run(made, ranks, [self.program, "train", "--model", model, "--batch", str(batch), "--steps", str(steps),
                               "--corpus", CORPUS, "--measure", str(max(3, steps // 4)), "--json", file.name,
                               *self.options])
            told = json.loads(Path(file.name).read_text(encoding="utf-8"))
        taken = {name: told["measurement"][name + "_us"]["median"] / 1e3 for name in ("computation", "step_overlap")}
        return {"samples_per_second": told["samples_per_second"], "step_ms": told["time_us"]["step"] / 1e3,
                "exposed_ms": taken["step_overlap"] - taken["computation"] if ranks > 1 else 0.0,
                "waited_ms": told["time_us"]["waiting"] / 1e3, "backward_ms": told["time_us"]["backward"] / 1e3,
                "counted": {side: [told["library"][ours] / 1e3, told["time_us"][its] / 1e3] for side, ours, its in
                            (("exposed", "exposed_us", "waiting"), ("in flight", "in_flight_us", "in_flight"))}}


class Ddp:
    def __init__(self, python, bucket_mb):
        self.name, self.python, self.bucket_mb = f"DDP, buckets of {bucket_mb} MB", python, bucket_mb

    def run(self, made, ranks, model, batch, steps):
        return json.loads(run(made, ranks, [self.python, str(PEER), "--model", model, "--batch", str(batch), "--steps",
                                             str(steps), "--bucket-mb", str(self.bucket_mb), "--corpus", CORPUS]))


def settings(options):
    """Yields name, ranks, model, and the limit of the link, which is False on one host."""
    for model in filter(None, options.models.split(",")):
        yield f"{model}, 1 rank", 1, model, False
        yield f"{model}, 2 ranks of a host", 2, model, False
    for link in filter(None, options.links.split(",")):
        limit = None if link == "none" else link
        yield f"{options.model}, 2 hosts, {limit or 'no limit'}", 2, options.model, limit


def contenders(options, ranks, limit):
    yield Rondo(options.build)
    if limit:
        yield Rondo(options.build, ("--compress", "bf16"))
    yield Ddp(options.python, 25)
    if ranks > 1:
        yield Ddp(options.python, 1)


def measure(options, made, found):
    seconds_a_step = {"nano": 0.03, "tiny": 0.5}
    for round_number in range(options.rounds):
        for name, ranks, model, limit in settings(options):
            if limit is not False:
                made.limit(limit)
            steps = max(10, int(options.seconds / seconds_a_step.get(model, 3) / (2 if ranks > 1 else 1)))
            line = list(contenders(options, ranks, limit))
            for at in range(len(line)):
                contender = line[(at + round_number) % len(line)]
                result = contender.run(None if limit is False else made, ranks, model, options.batch, steps)
                found.setdefault((name, contender.name), []).append(result)
                print(f"round {round_number + 1} of {options.rounds}: {name}: {contender.name}: "
                      f"{result['samples_per_second']:.1f} samples/s", file=sys.stderr, flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"setting": name, "contender": contender.name, **result}) + "\n")


def cell(results, key):
    values = sorted(result[key] for result in results)
    return f"{statistics.median(values):.1f} ({values[0]:.1f}-{values[-1]:.1f})"


def print_table(options, found):
    print("| setting | contender | samples/s | by the best DDP | step, ms | exposed, ms |\n|---|---|---|---|---|---|")
    for name, *_ in settings(options):
        rows = {contender: results for (setting, contender), results in found.items() if setting == name}
        rate = {contender: statistics.median(result["samples_per_second"] for result in results)
                for contender, results in rows.items()}
        best = max(value for contender, value in rate.items() if contender.startswith("DDP"))
        for contender, results in sorted(rows.items(), key=lambda item: item[0], reverse=True):
            print(f"| {name} | {contender} | {cell(results, 'samples_per_second')} | {rate[contender] / best:.2f} | "
                  f"{cell(results, 'step_ms')} | {cell(results, 'exposed_ms')} |")


def main():
    options = parse_arguments()
    found = {}
    if options.links:
        why = hosts.why_not()
        if why is not None:
            sys.exit(f"two hosts cannot be made here: {why}; leave them out with --links ''")
        with hosts.Hosts(2) as made:
            measure(options, made, found)
    else:
        measure(options, None, found)
    print_table(options, found)


if __name__ == "__main__":
    main()
