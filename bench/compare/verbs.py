#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Rondo over RDMA verbs beside perftest and a raw exchange (raw_verbs.c). Two ranks share one virtual machine
with an RDMA device in software; tests/net/soft_roce.py fetches what is missing from Debian's packages. All take turns,
round by round. It prints a Markdown table. The machine's processors are emulated, so only ratios count.

If other work disturbs a round, its times are far above all others. Then compare the best with the median."""

import argparse
import re
import statistics
import sys
import tempfile
from pathlib import Path

import peers

sys.path.insert(0, str(peers.ROOT / "tests" / "net"))
import soft_roce  # noqa: E402

RUN_S = 60  # the most that one run may take
JOB = f"""
export RONDO_NETWORK=verbs RONDO_INTERFACE=lo
# Server and client of a program of perftest, which meet on its port, 18515.
perftest() {{
  tool timeout {RUN_S} $1 -d rxe0 -x 1 -F $2 > /run/server 2>&1 &
  for look in $(seq 200); do cat /proc/net/tcp* | grep -q ":4853 .* 0A " && break; sleep 0.05; done
  tool timeout {RUN_S} $1 -d rxe0 -x 1 -F $2 localhost 2>&1 | grep "^ *[0-9]"
  wait
}}
rondo() {{
  timeout {RUN_S} $1 run -n 2 -- {soft_roce.OWN_HOST} \
    $1 perf $2 --in-place-only -c 0 --json /run/report > /run/said 2>&1 || cat /run/said
  tr -d " \\n" < /run/report; echo
}}
"""
LATENCY, RATE = "us", "MiB/s"
GATHERED_MIB = 8  # MiB that two ranks gather together, half of it in each direction


class Series:
    """A measurement: a command of the guest, and how its number is read."""

    def __init__(self, name, unit, command, pattern, scale=lambda value: value):
        self.name, self.unit, self.command, self.scale = name, unit, command, scale
        self.pattern, self.values = re.compile(pattern, re.MULTILINE), []

    def read(self, text):
        found = self.pattern.search(text)
        if found is None:
            raise SystemExit(f"{self.name} failed:\n{text}")
        self.values.append(self.scale(float(found[1])))

    def best(self):
        return min(self.values) if self.unit == LATENCY else max(self.values)


def raw(program, title, way, scale=lambda value: value):
    command = f"{program} {way} --interface rxe0 --seconds 0.3 --deadline {RUN_S}"
    return Series(f"raw exchange: {title}", LATENCY, command, r'"median_us": ([\d.]+)', scale)


def all_series(builds, program, latency_only):
    series = [Series(f"`{name}`, one way", LATENCY, f"perftest {name} '-s 8 -n 5000'", r"^ *8 +\d+ +\S+ +\S+ +(\S+)")
              for name in ("ib_write_lat", "ib_send_lat")]
    series += [raw(program, "one after the other, memory polled; half of it", "memory-turns", lambda time: time / 2),
               raw(program, "both at once, memory polled", "memory"),
               raw(program, "both at once, completions polled", "completion")]
    median = r'"in_place":.*?"time_us":\{.*?"median":([\d.]+)'
    series += [Series(f"all_reduce of 8 B, {build}", LATENCY,
                      f"rondo {build}/src/cli/rondo 'all_reduce -b 8 -e 8 -n 2000'", median) for build in builds]
    if latency_only:
        return series
    series.append(Series("`ib_write_bw -b`", RATE, "perftest ib_write_bw '-b -s 65536 -n 400'",
                         r"^ *65536 +\d+ +\S+ +(\S+)"))
    return series + [Series(f"all_gather of 4 MiB a rank, {build}", RATE,
                            f"rondo {build}/src/cli/rondo 'all_gather -b 8M -e 8M -n 5 -w 1'", median,
                            lambda time_us: GATHERED_MIB / time_us * 1e6) for build in builds]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", default="build", metavar="DIR,..", help="builds of Rondo, in turns (build)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--latency-only", action="store_true")
    parser.add_argument("--seconds", type=int, default=1500, help="that the machine may live (1500)")
    parser.add_argument("--image", default="build/soft_roce_perftest", help="where the machine's files are kept")
    return parser.parse_args()


def main():
    args = parse_arguments()
    builds = [Path(build).resolve() for build in args.builds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "raw_verbs")
        try:
            # The guest's processor lacks features of this machine's processor.
            workshop = peers.Workshop(folder, builds[0])
            workshop.compile("the raw exchange over verbs (libibverbs-dev)",
                             [*workshop.cc, "-std=c11", *peers.FLAGS, "-march=x86-64", peers.HERE / "raw_verbs.c",
                              *(peers.HERE / source for source in peers.HARNESS), "-libverbs", "-o", program])
            image = soft_roce.Image(args.image, ("perftest",))
        except (peers.Missing, soft_roce.Missing) as missing:
            raise SystemExit(str(missing)) from None
        series = all_series(builds, program, args.latency_only)
        job = JOB + "".join(f"echo '== {number}'\n{each.command} 2>&1\n" for _ in range(args.rounds)
                            for number, each in enumerate(series))
        outcome, = soft_roce.run(image, job, seconds=args.seconds)
    if outcome.status is None:
        raise SystemExit(f"the machine did not end within {args.seconds} s:\n{outcome.output}\n{outcome.console}")
    parts = re.split(r"^== (\d+)\n", outcome.output, flags=re.MULTILINE)
    for number, text in zip(parts[1::2], parts[2::2]):
        series[int(number)].read(text)
    print("| | unit | median | best | rounds |\n|---|---|---|---|---|")
    for each in series:
        print(f"| {each.name} | {each.unit} | {statistics.median(each.values):.1f} | {each.best():.1f} | "
              f"{len(each.values)} |")


if __name__ == "__main__":
    main()
