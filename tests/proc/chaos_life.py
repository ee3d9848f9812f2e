# SPDX-License-Identifier: Apache-2.0
"""A life of a communicator with real processes, for chaos_test.py. This module draws a life from a seed, runs it,
and checks the promises of docs/tests.md."""

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

from job import PATIENCE

REMOTE, TIMEOUT, MISMATCH, ABORTED, SYSTEM = "remote", "timeout", "mismatch", "aborted", "system"
TIMEOUT_S = 5.0 * PATIENCE  # of operations that must miss it
INIT_TIMEOUT_S = 8.0 * PATIENCE
HANG_S = 400.0  # the deadline of a whole life

# Each kind of event has its share of a hundred lives, the other ranks' outcome, and the most seconds until the outcome.
KINDS = {
    "kill": (24, REMOTE, 2.0),
    "crash": (8, REMOTE, 2.0),
    "exit": (8, REMOTE, 2.0),    # _exit() on another thread, in the middle of an operation
    "leave": (6, REMOTE, 2.0),   # exit() between two operations
    "stop": (14, TIMEOUT, TIMEOUT_S + 1.0),
    "silent": (8, TIMEOUT, TIMEOUT_S + 1.0),
    "disagree": (8, MISMATCH, 1.0),
    "abort": (10, ABORTED, 0.1),
    # The descriptor of its memory is another file's. If the memory is copied, not exported, the rank aborts in the end.
    "replaced": (6, SYSTEM, 2.0),
    "early": (8, None, INIT_TIMEOUT_S + 3.0),  # killed during initialisation, or soon after
    "launcher": (6, None, 2.0),
}
DEATH_S = KINDS["kill"][2]
ANSWER_S = 0.1  # rondo_comm_get_async_error() does not wait


def is_stopped(pid):
    """Returns whether a signal has stopped the process. A stop by a tracer does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].startswith("T")
    except OSError:
        return False


class Line:
    """A line of a rank's output: RANK EVENT TIME_NS WORDS..."""

    def __init__(self, text):
        words = text.split(" ", 3)
        self.rank, self.event, self.seconds = int(words[0]), words[1], int(words[2]) * 1e-9
        self.words = words[3].rstrip("\n") if len(words) > 3 else ""

    def error(self):
        """Returns (status, peer, operation, message)."""
        status, peer, operation, message = self.words.split(" ", 3)
        return int(status), int(peer), int(operation), message


class Broken(Exception):
    """The exception for a broken promise."""


def check(condition, *what):
    if not condition:
        raise Broken(" ".join(str(word) for word in what))


def statuses():
    """Returns the numbers of the statuses, from the public header."""
    names = {"RONDO_ERROR_REMOTE": REMOTE, "RONDO_ERROR_TIMEOUT": TIMEOUT, "RONDO_ERROR_MISMATCH": MISMATCH,
             "RONDO_ERROR_ABORTED": ABORTED, "RONDO_ERROR_SYSTEM": SYSTEM}
    header = Path(__file__).resolve().parents[2] / "include" / "rondo" / "types.h"
    found = {}
    for line in header.read_text(encoding="utf-8").splitlines():
        words = line.replace(",", " ").split()
        if len(words) >= 3 and words[1] == "=" and words[0] in names:
            found[int(words[2])] = names[words[0]]
    assert len(found) == len(names), found
    return found


STATUS = statuses()


def processes_with(token):
    """Returns the processes whose environment has the variable `token`. Dead processes that were not reaped have no
    environment. Other lives run at the same time, and their tokens may begin with this token."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class Life:
    """The life that a seed describes, and its execution."""

    def __init__(self, seed, rondo, program):
        draw = random.Random(seed)
        self.seed, self.rondo, self.program = seed, rondo, program
        self.kind = draw.choices(list(KINDS), [KINDS[kind][0] for kind in KINDS])[0]
        self.size = draw.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
        self.victim = draw.randrange(self.size)
        self.delay_us = int(10 ** draw.uniform(0, 5 if self.kind != "early" else 5.3))
        self.count = draw.choice((1, 10, 1000, 5000, 20_000, 100_000))
        self.buffers = draw.choice(("private", "alloc", "registered"))
        self.environment = {
            "RONDO_WAIT": draw.choice(("auto", "auto", "sleep", "yield")),
            "RONDO_ALGORITHM": draw.choice(("auto", "auto", "ring", "tree", "one_shot", "two_shot",
                                            "halving_doubling")),
            "RONDO_PROTOCOL": draw.choice(("auto", "simple", "ll")),
            "RONDO_MAPPING": draw.choice(("auto", "off")),
            "RONDO_CROSS_MEMORY": draw.choice(("auto", "off")),
            # The deadline may pass before other errors only if a rank waits for an event that never happens.
            "RONDO_TIMEOUT": str(TIMEOUT_S if KINDS[self.kind][1] == TIMEOUT else 100),
            "RONDO_INIT_TIMEOUT": str(INIT_TIMEOUT_S if self.kind == "early" else 60),
        }
        # Only a communicator that fails writes a recording. Its folder may be slow.
        self.recorder = draw.choices(("none", "folder", "slow"), (6, 2, 2))[0] if KINDS[self.kind][1] else "none"
        self.times = []  # (what, seconds, limit)
        self.too_early = False  # the life failed before its event
        self.token = f"RONDO_CHAOS_TOKEN={os.getpid()}-{seed}"
        self.lines = []
        self.statuses = {}

    def __str__(self):
        settings = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return (f"{self.kind}: rank {self.victim} of {self.size} after {self.delay_us} us, {self.count} int32 in "
                f"{self.buffers} buffers; {settings}; recorder: {self.recorder}")

    def command(self, folder):
        return [self.program, self.kind, str(self.victim), str(self.delay_us), str(self.count), self.buffers, folder]

    def start(self, folder):
        """Starts the processes. Returns them by rank (or "launcher"). Their output goes to files, so that no process
        waits for a reader."""
        name, value = self.token.split("=")
        base = dict(os.environ, **self.environment, TMPDIR=folder, **{name: value})
        if self.recorder != "none":
            base["RONDO_RECORDER_DIR"] = f"{folder}/recordings"
            os.mkdir(base["RONDO_RECORDER_DIR"])
        if self.recorder == "slow":
            base["RONDO_CHAOS_SLOW"] = "1"
        for unwanted in ("RONDO_RANK", "RONDO_SIZE", "RONDO_STORE"):
            base.pop(unwanted, None)

        def open_process(who, command, **own):
            with open(f"{folder}/out-{who}", "wb") as out:
                return subprocess.Popen(command, env=dict(base, **own), stdout=out, stderr=subprocess.STDOUT)
        if self.kind == "launcher":
            return {"launcher": open_process("launcher", [self.rondo, "run", "-n", str(self.size), "--",
                                                          *self.command(folder)])}
        return {rank: open_process(rank, self.command(folder), RONDO_CHAOS_RANK=str(rank),
                                   RONDO_CHAOS_SIZE=str(self.size)) for rank in range(self.size)}

    def read(self, folder):
        self.lines = []
        for path in Path(folder).glob("out-*"):
            text = path.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                if self.recorder != "none" and f"recording of its ranks is in {folder}/recordings/rondo-" in line:
                    continue
                if self.kind == "replaced" and "was closed by the program, and may be another file's" in line:
                    continue
                check(line[:1].isdigit(), "unexpected output:", line)
                self.lines.append(Line(line))

    def came(self, what, seconds, limit):
        self.times.append((what, seconds, limit))

    def events(self, event, rank=None):
        return [line for line in self.lines if line.event == event and rank in (None, line.rank)]

    def run(self, folder):
        """Runs the life until all processes have ended. A stopped victim continues when the others have ended."""
        processes = self.start(folder)
        deadline = time.monotonic() + HANG_S
        try:
            if self.kind == "launcher":
                self.kill_launcher(folder, processes["launcher"])
            while time.monotonic() < deadline:
                running = [who for who, process in processes.items() if process.poll() is None]
                if self.kind == "early" and 0 not in running:
                    Path(folder, "gone").touch()  # so that no rank waits for an id that rank 0 did not make
                # The signal is sent once: another would continue threads that the victim's leak check stops at its end.
                if self.kind == "stop" and running == [self.victim] and is_stopped(processes[self.victim].pid):
                    processes[self.victim].send_signal(signal.SIGCONT)
                if not running:
                    break
                time.sleep(0.01)
        finally:
            late = [who for who, process in processes.items() if process.poll() is None]
            for process in processes.values():
                if process.poll() is None:
                    process.kill()
                process.wait()
        self.statuses = {who: process.returncode for who, process in processes.items()}
        self.read(folder)
        check(not late, "still running after", HANG_S, "s:", late)

    def kill_launcher(self, folder, launcher):
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline and launcher.poll() is None:
            self.read(folder)
            if len(self.events("ready")) == self.size:
                break
            time.sleep(0.005)
        check(len(self.events("ready")) == self.size, "not all ranks came to life")
        time.sleep(self.delay_us * 1e-6)
        launcher.kill()
        launcher.wait()
        struck = time.monotonic()
        while time.monotonic() < deadline and processes_with(self.token):
            time.sleep(0.01)
        ended = time.monotonic()
        left = processes_with(self.token)
        for process in left:
            os.kill(process, signal.SIGKILL)
        check(not left, "the launcher's death left", len(left), "processes")
        self.came("launcher", ended - struck, KINDS["launcher"][2])

    def judge(self):
        check(not self.events("wrong"), "rank", *[f"{line.rank}: {line.words}" for line in self.events("wrong")])
        check(not self.events("disturbed"), "another communicator was disturbed:",
              *[f"{line.rank}: {line.words}" for line in self.events("disturbed")])
        if self.kind == "launcher":
            return
        strikes = self.events("strike")
        # These lives have a short timeout. If an operation misses the timeout before the event, the life shows nothing.
        before = [line.seconds for line in self.events("failed") if STATUS.get(line.error()[0]) == TIMEOUT and
                  (not strikes or line.seconds < strikes[0].seconds)]
        if KINDS[self.kind][1] == TIMEOUT and before:
            self.too_early = True
            return
        check(len(strikes) == 1, "the victim did not strike")
        expected = {"kill": -signal.SIGKILL, "early": -signal.SIGKILL, "crash": -signal.SIGABRT}
        for rank, status in self.statuses.items():
            wanted = expected.get(self.kind, 0) if rank == self.victim else 0
            allowed = (0, 1) if self.kind == "early" and rank != self.victim else (wanted,)
            check(status in allowed, "rank", rank, "ended with", status)
        survives = self.kind in ("stop", "silent", "disagree", "abort", "replaced")
        for rank in range(self.size):
            if rank != self.victim or survives:
                self.judge_rank(rank, strikes[0].seconds)
        for line in self.events("answered"):
            self.came("answer", int(line.words) * 1e-9, ANSWER_S)

    def judge_rank(self, rank, struck):
        if self.kind == "early":
            self.judge_early(rank, struck)
        else:
            failed = self.events("failed", rank)
            check(len(failed) == 1, "rank", rank, "did not get a failure")
            status, peer, operation, message = failed[0].error()
            _, wanted, limit = KINDS[self.kind]
            copied = self.kind == "replaced" and STATUS.get(status) == ABORTED
            check(STATUS.get(status) == wanted or copied, "rank", rank, "got status", status, message)
            check(operation >= 1, "rank", rank, "was told of operation", operation)
            named = peer if self.kind != "disagree" or rank != self.victim else self.victim
            if self.kind == "stop":  # it may have called, so that others wait elsewhere
                named = self.victim if f"rank {self.victim} (host" in message else None
            if self.kind == "disagree":
                check(f"of {self.count} int32 (sum)" in message and f"of {self.count + 1} int32" in message,
                      "rank", rank, "does not see both calls:", message)
                named = self.victim if f"rank {self.victim} " in message else None
            check(named == self.victim, "rank", rank, "names the wrong rank:", peer, message)
            if self.kind not in ("abort", "disagree") and not copied:
                pid = self.events("begins", self.victim)[0].words.split()[-1]
                check(f"rank {self.victim} (host" in message and f"process {pid})" in message,
                      "rank", rank, "does not name the process:", message)
            if rank != self.victim:
                since = max(struck, self.events("ready", rank)[0].seconds)
                self.came(self.kind, failed[0].seconds - since, limit)
                check(self.events("undisturbed", rank), "rank", rank, "lost the other communicator")
        begins, ends = self.events("begins", rank), self.events("ends", rank)
        if self.events("no_id", rank):
            return
        check(len(ends) == 1, "rank", rank, "did not come to its end")
        before, after = begins[0].words.split()[:3], ends[0].words.split()
        check(before == after, "rank", rank, "left behind (descriptors, threads, mappings):", before, "->", after)

    def judge_early(self, rank, struck):
        """Judges a life whose victim was killed before, while or after all ranks met."""
        outcomes = [line for line in self.lines
                    if line.rank == rank and line.event in ("failed", "no_init", "no_id")]
        check(len(outcomes) == 1, "rank", rank, "had no outcome")
        line = outcomes[0]
        if line.event == "no_id":
            return check(self.victim == 0, "rank", rank, "got no id, but rank 0 lives")
        status, peer, _, message = line.error()
        met = line.event == "failed"
        since = max(struck, self.events("ready" if met else "joins", rank)[0].seconds)
        self.came("early, met" if met else "early", line.seconds - since, DEATH_S if met else KINDS["early"][2])
        check(STATUS.get(status) in (REMOTE, TIMEOUT), "rank", rank, "got status", status, message)
        # Rank 0 runs the store. Without rank 0, nothing can say which ranks are missing.
        if met:
            check(peer == self.victim, "rank", rank, "names the wrong rank:", message)
        elif self.victim != 0:
            listed = re.search(rf"\branks? (\d+, )*{self.victim}\b", message)
            # Rank 0 has named the victim and has ended. A rank that comes later finds no store.
            maker = self.events("begins", 0)[0].words.split()[-1]
            too_late = rank != 0 and peer == -1 and f"process {maker}, which made" in message
            check(listed or peer == self.victim or too_late, "rank", rank, "does not name the missing rank:", message)

    def judge_recording(self, folder):
        """Checks that one rank has written a whole recording by the time all ranks have destroyed the communicator."""
        if self.recorder == "none" or self.too_early:
            return
        files = list(Path(folder, "recordings").iterdir())
        check(len(files) == 1, "recordings:", sorted(file.name for file in files))
        head, *lines = [json.loads(line) for line in files[0].read_text(encoding="ascii").splitlines()]
        check(head["record"] == "communicator" and head["rank_count"] == self.size, "recording:", head)
        check(head["failure"]["message"] in {line.error()[3] for line in self.events("failed")}, "recording:", head)
        ranks = [line["rank"] for line in lines if line["record"] == "rank"]
        check(ranks == list(range(self.size)), "the recording has ranks", ranks)
        for rank in ranks:
            latest = max([line["operation"] for line in lines
                          if (line["record"], line["rank"]) == ("operation", rank)], default=0)
            check(latest == lines[rank]["entered"], "the recording of rank", rank, "ends at operation", latest)
