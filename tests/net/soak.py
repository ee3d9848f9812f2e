# SPDX-License-Identifier: Apache-2.0
"""Repeats faults from seeds on hosts that are network namespaces. The faults are killed ranks and hosts, cables cut one
way or both, stopped ranks, lost packets, cables that come and go. It prints a line for each kind: how often it ran,
what was wrong, and how late the living ranks named the lost rank. Option --latest limits each of these delays, --timed
their medians (tests/timed.py), --latest-return the delay until each peer returns.

usage: soak.py RANK_PROGRAM [--seeds N] [--first SEED] [--minutes M] [--only KIND,...] [--jobs N]
             [--latest SECONDS] [--latest-return SECONDS] [--timed]
The exit status is 0 if all was as promised, 1 if not (with the seed), and 77 without root or nft."""

import argparse
import concurrent.futures
import math
import os
import random
import re
import secrets
import signal
import sys
import threading
import time
from pathlib import Path

import hosts as net

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from timed import bounds_hold, is_within  # noqa: E402

LAYOUT = [0, 0, 1, 1]
# The first two are promised. The third is how long a rank sleeps: peers that needed its next call would return later.
LATE_S, LATE_RETURN_S, SLEEP_S = 2.0, 0.1, 10
LOST = re.compile(r"gave no answer|cannot be reached|has ended|network between the hosts")


class Ranks:
    """A job whose output lines are kept with the times of their arrival."""

    ports = iter(range(29_500, 60_000))

    def __init__(self, hosts, command, layout=None):
        self.layout = layout or LAYOUT
        base = dict(os.environ, WORLD_SIZE=str(len(self.layout)), MASTER_ADDR=hosts.address(self.layout[0]),
                    MASTER_PORT=str(next(self.ports)), RONDO_SECRET=secrets.token_hex(32))
        self.processes = [hosts.start(host, command, env=dict(base, RANK=str(rank)))
                          for rank, host in enumerate(self.layout)]
        self.lines = [[] for _ in self.layout]
        self.readers = [threading.Thread(target=self._read, args=(rank,), daemon=True)
                        for rank in range(len(self.layout))]
        for reader in self.readers:
            reader.start()

    def _read(self, rank):
        for line in self.processes[rank].stdout:
            self.lines[rank].append((time.monotonic(), line.strip()))

    def wait_for(self, text, seconds=200):
        """Waits until each rank has printed `text`."""
        deadline = time.monotonic() + seconds
        while not all(any(text in line for _, line in lines) for lines in self.lines):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all ranks said {text!r}: {self.lines}")
            time.sleep(0.005)

    def inner(self, rank):
        """Returns the process of the rank itself, which is below the process that entered its host."""
        return net.innermost(self.processes[rank].pid)

    def finish(self, seconds):
        """Kills the ranks that are still running after that long, and returns them."""
        deadline = time.monotonic() + seconds
        late = []
        for rank, process in enumerate(self.processes):
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            if process.poll() is None:
                late.append(rank)
                try:
                    os.kill(self.inner(rank), signal.SIGKILL)
                except OSError:
                    pass
                process.kill()
            process.wait()
        for reader in self.readers:
            reader.join(10)
        for process in self.processes:
            process.stdout.close()
        return late

    def report(self, rank):
        """Returns (time, status, peer, message) of the rank's last report, or None."""
        for came, line in reversed(self.lines[rank]):
            found = re.match(r"rank \d+: (.*?) peer (-?\d+) operation \d+: ?(.*)", line)
            if found or "WRONG SUM" in line:
                return (came, found[1], int(found[2]), found[3]) if found else (came, "WRONG SUM", -1, line)
        return None


class Tally:
    def __init__(self, kind, late_s=LATE_S):
        self.kind, self.late_s, self.runs, self.wrong = kind, late_s, 0, []
        self.delays = []  # (seconds, seed, rank)

    def refuse_later_than(self, latest_s):
        self.wrong += [(seed, f"rank {rank}: after {seconds:.3f} s; {latest_s:g} s is the latest")
                       for seconds, seed, rank in self.delays if seconds > latest_s]

    def line(self):
        text = f"{self.kind:24} runs {self.runs:4}  wrong {len(self.wrong):3}"
        if self.delays:
            delays = sorted(seconds for seconds, _, _ in self.delays)
            late = sum(1 for seconds in delays if seconds > self.late_s)
            text += (f"  after: median {delays[len(delays) // 2]:.3f} s, longest {delays[-1]:.3f} s, over "
                     f"{self.late_s:g} s: {late} of {len(delays)}")
        return text


def expect_lost(tally, seed, ranks, began, survivors, lost_of):
    """Checks that each survivor names one of the ranks that it lost."""
    tally.runs += 1
    for rank in survivors:
        said = ranks.report(rank)
        if said is None or said[1] != "remote rank failed" or said[2] not in lost_of(rank) or not LOST.search(said[3]):
            tally.wrong.append((seed, f"rank {rank}: {said}"))
        else:
            tally.delays.append((said[0] - began, seed, rank))


def command_of(program, busy, seconds="120"):
    return [program, "busy", seconds, "3000"] if busy else [program, "quiet", seconds]


def deaths(program, seeds, kind, busy):
    tally = Tally(f"{kind}, {'busy' if busy else 'idle'}")
    for seed in seeds:
        rng = random.Random(seed)
        with net.Hosts(2) as hosts:
            ranks = Ranks(hosts, command_of(program, busy))
            ranks.wait_for("begun")
            time.sleep(rng.uniform(0, 0.5))
            victim, host = rng.randrange(len(LAYOUT)), rng.randrange(2)
            there = {rank for rank, place in enumerate(LAYOUT) if place == host}
            others = set(range(len(LAYOUT))) - there
            inner = ranks.inner(victim)
            began = time.monotonic()
            if kind == "killed rank":
                os.kill(inner, signal.SIGKILL)
                ranks.finish(100)
                expect_lost(tally, seed, ranks, began, set(range(len(LAYOUT))) - {victim}, lambda _: {victim})
            elif kind == "killed host":
                hosts.kill(host)
                ranks.finish(100)
                expect_lost(tally, seed, ranks, began, others, lambda _: there)
            else:
                (hosts.cut if kind == "cut cable" else hosts.cut_one_way)(host)
                ranks.finish(100)
                expect_lost(tally, seed, ranks, began, range(len(LAYOUT)),
                            lambda rank: others if rank in there else there)
    return tally


def stops(program, seeds, busy):
    """Checks that a stopped rank counts as late and not as dead, so all end well."""
    tally = Tally(f"stopped rank, {'busy' if busy else 'idle'}")
    for seed in seeds:
        rng = random.Random(seed)
        with net.Hosts(2) as hosts:
            ranks = Ranks(hosts, command_of(program, busy, "5"))
            ranks.wait_for("begun")
            victim = rng.randrange(len(LAYOUT))
            inner = ranks.inner(victim)
            os.kill(inner, signal.SIGSTOP)
            time.sleep(rng.uniform(1.5, 4))
            os.kill(inner, signal.SIGCONT)
            ranks.processes[victim].send_signal(signal.SIGCONT)  # nsenter stops when its child does
            expect_well(tally, seed, ranks, 60)
    return tally


def stand_ins(program, seeds):
    """Stops the rank that serves its host's control connections, and kills the other host's processes. The neighbour
    of the stopped rank must name a lost rank. So must the stopped rank when it continues. Ranks are idle, because
    a busy neighbour that has all data of the other host would wait only for the stopped rank."""
    tally = Tally("stopped and lost, idle")
    for seed in seeds:
        rng = random.Random(seed)
        with net.Hosts(2) as hosts:
            ranks = Ranks(hosts, command_of(program, False))
            ranks.wait_for("begun")
            host = rng.randrange(2)
            serving, neighbour = (rank for rank, place in enumerate(LAYOUT) if place == host)
            lost = {rank for rank, place in enumerate(LAYOUT) if place != host}
            inner = ranks.inner(serving)
            os.kill(inner, signal.SIGSTOP)
            time.sleep(rng.uniform(0, 1.5))
            began = time.monotonic()
            hosts.kill(1 - host)
            while ranks.processes[neighbour].poll() is None and time.monotonic() < began + 60:
                time.sleep(0.005)
            ranks.readers[neighbour].join(10)
            expect_lost(tally, seed, ranks, began, {neighbour}, lambda _: lost)
            os.kill(inner, signal.SIGCONT)
            ranks.processes[serving].send_signal(signal.SIGCONT)
            began = time.monotonic()
            ranks.finish(100)
            expect_lost(tally, seed, ranks, began, {serving}, lambda _: lost | {neighbour})
            tally.runs -= 1
    return tally


def expect_well(tally, seed, ranks, seconds):
    late = ranks.finish(seconds)
    tally.runs += 1
    for rank in range(len(LAYOUT)):
        said = ranks.report(rank)
        if rank in late or said is None or said[1] != "ok":
            tally.wrong.append((seed, f"rank {rank}: {said}{' (still running)' if rank in late else ''}"))


def losses(program, seeds, busy):
    """Loses every fiftieth packet in each direction. No rank may count as dead."""
    tally = Tally(f"2 % loss, {'busy' if busy else 'idle'}")
    for seed in seeds:
        with net.Hosts(2) as hosts:
            ranks = Ranks(hosts, command_of(program, busy, "4"))
            ranks.wait_for("begun")
            hosts.lose(2)
            expect_well(tally, seed, ranks, 90)
    return tally


def cuts_and_heals(program, seeds, minutes):
    """Cuts and restores cables during jobs. A job must end well or with an error, and never with a wrong sum. It
    must leave nothing behind on its hosts."""
    tally = Tally("cuts and heals")
    ended_well = 0
    end = time.monotonic() + 60 * minutes
    with net.Hosts(2) as hosts:
        empty = [left_on(hosts, host) for host in range(2)]
        for seed in seeds:
            if time.monotonic() > end:
                break
            rng = random.Random(seed)
            ranks = Ranks(hosts, command_of(program, rng.random() < 0.7, "4"))
            ranks.wait_for("begun")
            for _ in range(rng.randrange(1, 5)):
                time.sleep(rng.uniform(0, 1))
                host = rng.randrange(2)
                hosts.cut(host)
                time.sleep(rng.choice([rng.uniform(0.01, 0.3), rng.uniform(0.3, 2)]))
                hosts.heal(host)
            late = ranks.finish(60)
            tally.runs += 1
            said = [ranks.report(rank) for rank in range(len(LAYOUT))]
            ended_well += all(each is not None and each[1] == "ok" for each in said)
            if late or any(each is None or each[1] not in ("ok", "remote rank failed") for each in said):
                tally.wrong.append((seed, f"{said}, still running: {late}"))
            left = [left_on(hosts, host) for host in range(2)]
            if left != empty:
                tally.wrong.append((seed, f"left behind: {left}, before: {empty}"))
                break
    tally.kind += f" ({ended_well} jobs ended well)"
    return tally


def left_on(hosts, host):
    """Returns the host's processes except the reading one, and the files in its shared memory and rendezvous
    folder."""
    script = ("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done; ls /dev/shm /tmp/rondo-0 2>/dev/null; "
              "true")
    process = hosts.start(host, ["sh", "-c", script])
    said = process.communicate(timeout=60)[0]
    return sorted(line for line in said.splitlines() if "rank_program" in line or line.startswith("rondo"))


def returns(program, seeds):
    """Lets a rank return from its last call and sleep. Measures how much later its peers return."""
    tally = Tally("return and sleep", LATE_RETURN_S)
    for seed in seeds:
        with net.Hosts(2) as hosts:
            count = random.Random(seed).choice([1, 1000, 300_000, 3_000_000])
            ranks = Ranks(hosts, [program, "last", str(SLEEP_S), str(count)])
            ranks.wait_for("returned")
            told = [next(int(line.split()[-1]) for _, line in lines if "returned" in line) for lines in ranks.lines]
            expect_well(tally, seed, ranks, SLEEP_S + 60)
            last = max(range(len(LAYOUT) - 1), key=lambda rank: told[rank])
            tally.delays.append(((told[last] - told[-1]) / 1e6, seed, last))
    return tally


# The first program writes the listening ports of one host into a file, again and again. The second program connects to
# these ports from the other host, silently or with nonsense, and keeps a thousand connections open.
LOOK = """import os, time
while True:
    rows = [line.split() for line in open('/proc/net/tcp').readlines()[1:]]
    ports = {int(row[1].split(':')[1], 16) for row in rows if row[3] == '0A'}
    open('%(file)s.new', 'w').write(' '.join(map(str, ports))); os.rename('%(file)s.new', '%(file)s')
    time.sleep(0.001)
"""
STRANGER = """import os, random, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
held, made = [], 0
while True:
    try: ports = open('%(file)s').read().split()
    except OSError: continue
    for port in ports:
        s = socket.socket(); s.settimeout(0.2)
        try: s.connect(('%(address)s', int(port))); made += 1
        except OSError: continue
        try: s.send(random.choice([b'', b'RONDO', b'RONDO\\x02tm' + bytes(64), bytes(4000)]))
        except OSError: pass
        held.append(s)
    held = held[-1000:]
    with open('%(file)s.now', 'w') as file: file.write(f'{made} {len(held)}')
    os.rename('%(file)s.now', '%(file)s.made')
"""


def strangers(program, seeds):
    """Lets a thousand connections of strangers from another host hold the ports while jobs are made and run."""
    tally = Tally("strangers")
    made = held = 0
    with net.Hosts(3) as hosts:
        names = {"file": os.path.join(hosts.folder, "ports"), "address": hosts.address(0)}
        others = [hosts.start(0, [sys.executable, "-c", LOOK % names]),
                  hosts.start(2, [sys.executable, "-c", STRANGER % names])]
        for seed in range(seeds.start, seeds.start + max(8, len(seeds))):
            ranks = Ranks(hosts, command_of(program, True, "0.5"))
            expect_well(tally, seed, ranks, 60)
        try:
            with open(names["file"] + ".made") as file:
                made, held = map(int, file.read().split())
        except OSError:
            pass
        for other in others:
            other.kill()
    for other in others:
        other.wait()
        other.stdout.close()
    tally.kind += f" ({made} connections, {held} held at the end)"
    if made == 0:
        tally.wrong.append((0, "no stranger came: the test shows nothing"))
    return tally


def is_good(tally, kind, options):
    """Prints the outcomes of a kind. Returns whether all of them were as promised."""
    tally.refuse_later_than(options.latest_return if kind == "returns" else options.latest)
    print(tally.line(), flush=True)
    for seed, what in tally.wrong[:10]:
        print(f"  seed {seed}: {what}")
    in_time = not options.timed or is_within(tally.kind, tally.late_s, [seconds for seconds, _, _ in tally.delays])
    return in_time and not tally.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.2)
    parser.add_argument("--only", default="deaths,stops,losses,cuts,returns,strangers")
    parser.add_argument("--jobs", type=int, default=1, help="kinds that run side by side, on hosts of their own; cuts, "
                        "which looks for files that jobs leave on this machine, runs alone")
    parser.add_argument("--latest", type=float, default=math.inf, metavar="SECONDS",
                        help=f"after which a report of a loss is wrong (what is promised: {LATE_S:g})")
    parser.add_argument("--latest-return", type=float, default=math.inf, metavar="SECONDS",
                        help="after which a return of the peers of a rank that has returned and sleeps is wrong "
                             f"(what is promised: {LATE_RETURN_S:g})")
    parser.add_argument("--timed", action="store_true", help="compares the medians with what is promised, or reports")
    options = parser.parse_args()
    why = net.why_not() or (None if net.NFT else "no nft (nftables)")
    if "RONDO_TEST_SANITIZED" in os.environ:
        why = "its limits of time are not for a sanitizer; done without one"
    if why is not None:
        print(f"skipped: soak between hosts: {why}")
        return 77
    program, only = os.path.abspath(options.program), options.only.split(",")
    seeds = range(options.first, options.first + (options.seeds if bounds_hold() or not options.timed else 1))
    kinds = ("killed rank", "killed host", "cut cable", "one-way cut")
    runs = {"deaths": [lambda kind=kind, busy=busy: deaths(program, seeds, kind, busy)
                       for kind in kinds for busy in (True, False)],
            "stops": [*(lambda busy=busy: stops(program, seeds, busy) for busy in (True, False)),
                      lambda: stand_ins(program, seeds)],
            "losses": [lambda busy=busy: losses(program, seeds, busy) for busy in (True, False)],
            "cuts": [lambda: cuts_and_heals(program, range(options.first, 1 << 30), options.minutes)],
            "returns": [lambda: returns(program, seeds)],
            "strangers": [lambda: strangers(program, seeds)]}
    wrong = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        together = [(kind, pool.submit(run)) for kind in only if kind != "cuts" for run in runs[kind]]
        for kind, running in together:
            wrong |= not is_good(running.result(), kind, options)
    if "cuts" in only:
        for run in runs["cuts"]:
            wrong |= not is_good(run(), "cuts", options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
