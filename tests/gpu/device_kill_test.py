# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes on one device, one of which is killed at a random moment, by seed: the others end and name
it.   usage: device_kill_test.py DEVICE_RANK [--seeds N] [--first SEED]"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from job import run_job  # noqa: E402


def live(program, seed):
    """What is wrong, or nothing; and the seconds from the death to the last survivor's end."""
    draw = random.Random(seed)
    size = draw.randint(2, 4)
    victim = draw.randrange(size)
    # Before a call, or some microseconds after the first one, which shows that all have begun.
    scenario = ["kill", str(victim), str(draw.randint(2, 6))] if draw.random() < 0.3 else \
        ["kill_after", str(victim), str(draw.randint(0, 30_000))]
    ranks = run_job(program, size, scenario, seconds=90)
    wrong = []
    if ranks[victim].process.returncode != -9:
        wrong.append(f"the victim ended with {ranks[victim].process.returncode}: {ranks[victim].output!r}")
    for number, rank in ranks.items():
        reports = rank.reports()
        if number == victim:
            continue
        if not reports:
            wrong.append(f"rank {number} said nothing: {rank.output!r}")
        elif (reports[-1].status, reports[-1].peer) != ("remote rank failed", victim):
            wrong.append(f"rank {number} said {reports[-1].status}, peer {reports[-1].peer}: {reports[-1].message}")
    took = max(rank.seconds for rank in ranks.values()) - ranks[victim].seconds
    return [f"seed {seed} ({size} ranks, {' '.join(scenario)}): {each}" for each in wrong], took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    failed, longest, begin = 0, 0.0, time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        wrong, took = live(options.program, seed)
        longest = max(longest, took)
        failed += bool(wrong)
        for each in wrong:
            print("FAILED:", each)
    print(f"{options.seeds} lives from seed {options.first}, {failed} failed, {time.monotonic() - begin:.0f} s; the "
          f"longest from a death to the end of the survivors: {longest:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
