# SPDX-License-Identifier: Apache-2.0
"""Lives of communicators on a device, with real processes and the driver in software. Each seed draws 2-4 ranks, one of
which is killed, exits, aborts, falls silent, disagrees, or has a driver that fails. Some replay graphs, and some
register their buffers. Every other rank must get an error that names that rank. After a death, these ranks shrink the
communicator and go on. Nothing may hang, and nothing of the driver may stay alive in the ranks that live on.

usage: device_chaos_test.py DEVICE_CHAOS_RANK [--seeds N] [--seed N] [--jobs N] [--any-driver]"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from job import PATIENCE, run_job  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitized import quarter_of  # noqa: E402

HANG_S = 180.0
GATE_LIVES, ALL_LIVES = 60, 300
FAILED_SEEDS = (90,)  # all seeds of lives that once failed
INIT_TIMEOUT_S = 15 * PATIENCE  # ranks that live meet within this time
REMOTE, TIMEOUT, MISMATCH, ABORTED = "remote rank failed", "timeout", "ranks disagree", "aborted"

# Each kind of fate has a share of a hundred lives, and a status that the other ranks must get (None: any error).
KINDS = {
    "none": (12, "ok"),  # work is late, and nothing fails
    "kill": (18, REMOTE),
    "exit": (8, REMOTE),
    "early": (8, None),  # killed while ranks meet, or soon after
    "abort": (12, ABORTED),
    "silent": (8, TIMEOUT),
    "disagree": (10, MISMATCH),
    "calls": (12, None),  # driver calls of the victim fail for want of memory
    "work": (12, None),   # work on the victim's streams fails
}


# Replays have no numbers, so their errors do not name a rank that leaves, disagrees or makes no call.
REPLAYED = ("none", "kill", "exit", "abort")
ONLY_SOFT = ("calls", "work")  # faults that only the driver in software can inject


class Life:
    def __init__(self, seed, kinds):
        draw = random.Random(seed)
        self.seed = seed
        self.kind = draw.choices(kinds, [KINDS[kind][0] for kind in kinds])[0]
        self.size = draw.choice((2, 2, 3, 4))
        self.victim = draw.randrange(self.size)
        self.delay_us = int(10 ** draw.uniform(0, 5))
        self.count = draw.choice((2, 1000, 20_000, 100_000))
        executor = draw.choice(("auto", "kernel", "kernel", "copy"))  # auto: copy, for processes without MPS
        protocols = ("auto", "simple", "ll", "load_store")
        protocol = draw.choice(protocols if executor == "kernel" else ("auto", "simple"))
        algorithms = ("auto", "ring", "tree", "one_shot", "two_shot", "halving_doubling")
        kernel = "load_store" if protocol == "load_store" else "auto"
        if kernel == "load_store":  # load_store has no protocol, and one_shot takes at most 32 KiB
            algorithms = ("auto", "two_shot", "one_shot" if self.count < 16_000 else "two_shot")
        self.environment = {
            "RONDO_ALGORITHM": draw.choice(algorithms),
            "RONDO_PROTOCOL": "auto" if kernel == "load_store" else protocol,
            "RONDO_KERNEL": kernel,
            "RONDO_CHANNELS": draw.choice(("1", "2")),
            "RONDO_DEVICE_EXECUTOR": executor,
            "RONDO_INIT_TIMEOUT": str(INIT_TIMEOUT_S if self.kind in ("early", "calls") else 60),
        }
        faults = f"seed={seed};delay={draw.choice((0, 0.1, 0.3))}:{draw.choice((100, 3000))}"
        self.environment["SOFT_CUDA_FAULTS"] = faults
        own = {"calls": f";fail={10 ** draw.uniform(-2.5, -0.5):.4f}:2",
               "work": f";work={10 ** draw.uniform(-2.3, -1):.4f}:719"}.get(self.kind, "")
        self.own = {self.victim: {"SOFT_CUDA_FAULTS": faults + own}}
        self.manner = "replays" if self.kind in REPLAYED and draw.random() < 0.5 else "calls"
        # If ranks use MPS or have a device each, they run kernels. By default these are kernels of load_store, which
        # work in the buffers that all ranks have registered.
        self.environment["SOFT_CUDA_MPS"] = draw.choice(("off", "on"))
        self.environment["DEVICE_CHAOS_REGISTERS"] = draw.choice(("0", "1"))
        devices = draw.choice(("1", "2", "4")) if ONLY_SOFT[0] in kinds else "1"
        self.environment |= {"SOFT_CUDA_DEVICES": devices, "DEVICE_CHAOS_DEVICES": devices}

    def __str__(self):
        settings = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return (f"{self.kind} of {self.manner}: rank {self.victim} of {self.size} after {self.delay_us} us, "
                f"{self.count} int32; "
                f"{settings}; the victim's {self.own[self.victim]}")

    def run(self, program):
        """Returns the ranks, and the promise that was broken, or None."""
        ranks = {}
        try:
            words = [self.kind, self.victim, self.delay_us, self.count, self.manner]
            ranks = run_job(program, self.size, [str(word) for word in words], self.environment, seconds=HANG_S,
                            own_environment=self.own)
            for number, rank in ranks.items():
                self.judge(number, rank)
        except AssertionError as broken:
            return ranks, str(broken)
        return ranks, None

    def judge(self, number, rank):
        code = rank.process.returncode
        if number == self.victim and self.kind in ("kill", "early", "exit"):
            assert code in (-signal.SIGKILL, 0), f"the victim ended with {code}"
            return
        assert code == 0, f"rank {number} ended with {code}"
        assert "WRONG" not in rank.output and "left:" not in rank.output
        if "no set-up" in rank.output:
            assert self.kind == "calls" and number == self.victim, "a rank could not begin"
            return
        told, wanted = rank.last(), KINDS[self.kind][1]
        assert wanted in (None, told.status), f"rank {number} got {told.status!r}"
        if number == self.victim or self.kind == "none":
            return
        assert told.status not in ("ok", "the driver failed"), f"rank {number} got {told.status!r}"
        if self.kind == "early":  # while ranks meet, not every step knows for which rank it waits
            return
        names = re.search(rf"\branks? (\d+, )*{self.victim}\b", told.message)
        # Rank 0 runs the store. After rank 0 has given up, nothing can say which ranks were missing.
        alone = "the process that runs it (rank 0" in told.message
        assert names or told.peer == self.victim or (self.kind == "calls" and alone), (
            f"rank {number} does not name rank {self.victim}")
        assert self.kind not in ("kill", "exit") or f"rank {number} goes on" in rank.output, f"rank {number} ends"


def live(seed, program, kinds):
    life = Life(seed, kinds)
    ranks, broken = life.run(program)
    if broken is None:
        return life.kind, None
    said = "".join(f"    {number}: {line}\n" for number, rank in ranks.items() for line in rank.output.splitlines())
    return life.kind, (f"NOT AS PROMISED: seed {seed}: {broken}\n  {life}\n{said}"
                       f"  again: {sys.argv[0]} {program} --seed {seed}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=ALL_LIVES if "RONDO_TEST_ALL" in os.environ else GATE_LIVES)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--any-driver", action="store_true", help="without what only the driver in software can do")
    options = parser.parse_args()
    drawn_seeds = quarter_of(range(1, options.seeds + 1), "lives")
    seeds = sorted({*drawn_seeds, *FAILED_SEEDS}) if options.seed is None else [options.seed]
    drawn = [kind for kind in KINDS if not options.any_driver or kind not in ONLY_SOFT]
    kinds, bad = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for kind, broken in pool.map(lambda seed: live(seed, options.program, drawn), seeds):
            kinds[kind] += 1
            bad += broken is not None
            if broken and bad <= 5:
                print(broken, flush=True)
    print(f"{len(seeds)} lives, {bad} not as promised:", ", ".join(f"{kind} {kinds[kind]}" for kind in drawn))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
