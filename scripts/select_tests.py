# SPDX-License-Identifier: Apache-2.0
"""Selects which tests of a build folder a stage of scripts/test runs, and prints their names, one on a line.

usage: select_tests.py FOLDER STAGE [--all] [--quarter N] [--changed] [--lanes | --targets]
       select_tests.py --long

With --changed, it reads the names of files that have changed from standard input, one on a line. With --lanes, the lane
of each test and a tab precede its name: `alone`, `waiting` (WAITING) or `busy`. With --targets, it prints what ninja
must build for the tests instead. With --long, it names the tests that took more than 30 s in the last
run of scripts/test, with the reason.

The gate runs every test except these:

    OCCASIONAL   take long for what they find beyond the others: a quarter of them runs
    TOOL_FILES   test a developer's tool, or code in a few files: they run when one has changed, and in their quarter
    suite timed  asserts times: a quarter of them runs by itself, in the stage "timed"

Under AddressSanitizer (stage asan) the gate runs the tests that are programs of their own. Tests that start other
programs, which are written in Python, are occasional there. Under ThreadSanitizer (stage tsan) it runs the suite
"threads". In both stages, the tests in OCCASIONAL_SANITIZED are occasional, too, and in stage tsan those in
OCCASIONAL_TSAN. With --all, a stage runs all of its tests.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

QUARTERS = 4
STAGES = ("tests", "asan", "tsan", "timed")
NOT_SANITIZED = {"lint", "abi"}  # they run no code that a sanitizer could look into

# Tests, as patterns of their names.
OCCASIONAL = (
    "order without *",
    "budgets, *", "copy executor, *", "device matrix, *", "device processes, *", "device seeds, *", "device, *",
    "shared launch, *", "collectives of processes", "regions of processes",
    "device messages*, small slots", "load_store, peers, vmm", "load_store, several devices acted by one",
    "device costs", "perf beside a product", "perf on a device", "train on a device",
    "tune on a device",
    "device programs, eight devices", "device programs, * peers", "devices that do not reach each other, *",
    "clocks", "containers", "devices of several hosts", "launchers", "many hosts", "preflight",
    "processes of hosts", "rails", "six hosts", "soft roce",
    "collectives between hosts",  # threads do each collective over each network, and "several hosts" does them, too
    "init strangers", "perf matrix*", "train division", "train modes", "train resume", "tune command",
    "disagree processes", "huge sum", "run manual",
    "nccl programs, toolkit",  # the cases of "nccl programs", built with the header of a CUDA toolkit
)

# These run cases of another test again, on another device in software, or only compute numbers.
OCCASIONAL_SANITIZED = (
    "budgets", "load_store_model", "many communicators", "plan", "sim",
    "*, copies", "load_store, peers",
    "hazards, [!p]*",
    "load_store, short", "load_store, apart", "load_store, refused", "load_store, image", "load_store, no domains",
    "soft cuda [!p]*",
)

# Under ThreadSanitizer, other tests run the threads of these, with fewer types and sizes.
OCCASIONAL_TSAN = ("device", "device disagreements", "device programs", "premul", "train")

# These wait for deadlines, or for devices in software, for about half of their time, and need about half of a core.
WAITING = (
    "addresses", "api", "bootstrap", "device chaos", "gpu check", "grow", "grow of hosts", "grow processes",
    "hazards, plain", "init", "init processes", "launches", "meet", "messages", "messages between hosts",
    "messages of hosts", "preflight", "regions of processes", "run hosts", "run orphans", "shrink", "split", "suspend",
    "ucx", "watch", "windows between hosts", "windows of hosts",
)

# The files of each developer's tool, by the name of its test. "budgets" and "sim command" take long, and test no tool.
TOOL_FILES = {
    "commands": ("docs/*", "tests/proc/commands_test.py"),
    "compare": ("bench/compare/*", "tests/proc/compare*"),
    "compare peers": ("bench/compare/*", "tests/proc/compare*"),
    "compare report": ("bench/compare/*", "tests/proc/compare*"),
    "budgets": ("cuda/*", "src/engine/*", "src/plan/*", "src/proto/*", "tests/gpu/budget*"),
    "sim command": ("src/cli/sim/*", "src/plan/*", "src/sim/*", "tests/proc/sim_test.py"),
    "compile kernels": ("cuda/compile_kernels.py", "tests/gpu/compile_kernels_test.py"),
    "gpu check": ("bench/compare/ddp.py", "scripts/gpu*", "tests/gpu/gpu_check_test.py"),
    "kernels of a release, a sample": ("cuda/kernels/*", "tests/gpu/image_test.py"),
    "lives self-test": ("tests/sim/*",),
    "soak between hosts": ("tests/net/soak.py",),
}

# These are about the seconds for which occasional tests keep a core on an optimised build, so that quarters take
# equally long. Other tests count as one second. A test that must be alone keeps two cores.
SECONDS = {
    "budgets": 20, "chaos, timed": 30, "collectives between hosts": 60,
    "collectives of processes": 30, "commands": 12, "compare": 6, "compare peers": 9, "compile kernels": 11,
    "copy executor, late ends": 5, "device chaos": 17, "device matrix, eight devices": 5,
    "device matrix, five devices": 5, "device matrix, no peers": 6,
    "device matrix, shared launch, 8 ranks, 8 queues": 8, "device processes, auto": 15, "device processes, copy": 15,
    "device processes, kernel": 15, "device seeds, devices": 12, "device seeds, load_store": 12,
    "device seeds, shared launch": 12, "device, late means": 5, "device, plan memory": 8,
    "device messages, copies, small slots": 11, "device messages, small slots": 10,
    "devices of several hosts": 48, "devices that do not reach each other, five to eight": 11, "failure": 14,
    "gpu check": 50, "hosts, timed": 25, "huge sum": 17, "init processes": 8,
    "kernels of a release, a sample": 25, "launchers": 8, "lives self-test": 16, "load_store, peers, vmm": 8,
    "load_store, several devices acted by one": 6, "load_store, short": 5,
    "many hosts": 12, "messages": 2, "nccl programs": 8, "nccl programs, toolkit": 8, "perf beside a product": 15,
    "perf command": 12, "perf matrix": 16, "perf matrix registered": 10, "perf on a device": 50, "plan": 19,
    "preflight": 6, "rails": 50, "regions of processes": 23, "run hosts": 11, "six hosts": 14,
    "shared launch, 2 queues": 9, "shared launch, plain": 10, "sim": 8, "sim command": 30, "soak between hosts": 63,
    "soak between hosts, timed": 17, "split processes": 6, "status": 10, "train command": 6, "train division": 23,
    "train modes": 16, "train on a device": 7, "train resume": 22, "tune command": 50, "tune on a device": 19,
}
# Under a sanitizer, a test takes SLOWER times as long. The tests here take another time, or are skipped there.
SANITIZED_SECONDS = {
    "asan": {
        "budgets": 40, "budgets, shared launch": 6, "chaos": 9, "collectives between hosts": 18, "device chaos": 9,
        "device matrix, shared launch": 9, "device messages, copies": 16,
        "device messages, copies, small slots": 17, "device messages, small slots": 16,
        "device programs, copies": 4, "device processes, auto": 9, "device processes, copy": 9,
        "device processes, kernel": 9, "device, plan memory": 54, "devices of several hosts": 20,
        "devices that do not reach each other": 16,
        "devices that do not reach each other, five to eight": 58, "failure": 12, "gpu check": 0, "huge sum": 0,
        "init processes": 15, "launchers": 8, "limits": 8, "lives self-test": 10, "load_store, peers": 15,
        "load_store, short": 13, "load_store_model": 13, "many communicators": 9, "many communicators, copies": 10,
        "many hosts": 14, "nccl programs": 9, "nccl programs, toolkit": 9, "perf beside a product": 8,
        "perf command": 8, "perf matrix": 14, "perf matrix alloc": 14, "perf matrix registered": 14,
        "perf on a device": 30, "plan": 30, "preflight": 8, "rails": 15, "regions of processes": 25, "run hosts": 0,
        "several hosts": 20, "six hosts": 8, "shared launch, plain": 10, "sim": 14, "sim command": 16,
        "soak between hosts": 0, "split processes": 7, "status": 8, "train command": 14, "train division": 18,
        "train modes": 14, "train on a device": 15, "train resume": 12, "tune command": 30, "tune on a device": 18,
    },
    "tsan": {
        "copy executor, late ends": 5, "device": 40, "device disagreements": 20, "device messages, copies": 24,
        "device messages, copies, small slots": 57, "device messages, small slots": 30, "device programs": 18,
        "device programs, copies": 12,
        "device seeds, auto launch": 7, "device seeds, devices": 8, "device seeds, load_store": 8,
        "device seeds, shared launch": 8, "device seeds, shared launch, 2 queues": 7, "load_store, peers": 53,
        "load_store, several devices acted by one": 37, "load_store, short": 28, "many communicators": 19,
        "many communicators, copies": 14, "premul": 4, "shared launch, 2 queues": 16, "shared launch, 8 queues": 17,
        "shared launch, plain": 20, "train": 10,
    },
}
SLOWER = {"asan": 2, "tsan": 2}

LONG_S = 30
# Why a test takes more than LONG_S seconds on two cores.
LONG_REASONS = {
    "budgets": "every row of the budgets is counted, access by access",
    "chaos": "60 lives with real processes, each of which ends by a kill, a stop or a deadline",
    "chaos, timed": "240 lives one after the other",
    "collectives between hosts": "every collective over each network",
    "collectives of processes": "every collective among up to 8 processes, whose accesses are counted",
    "commands": "every command that a page shows",
    "copy executor": "every collective and type, called and replayed, and timeouts that must pass",
    "device chaos": "60 lives with real processes on the driver in software",
    "device": "a sanitizer: emulated kernels of every algorithm, protocol and type",
    "device programs": "a sanitizer: random programs on 2 to 8 ranks, a quarter of them at the gate",
    "device, plan memory": "240 calls of 320 emulated blocks each: as many plans as fill the memory",
    "devices of several hosts": "every network, with slots on the host and on the device",
    "device processes, auto": "processes that begin, meet and die, by each executor",
    "device processes, copy": "processes that begin, meet and die, by each executor",
    "device processes, kernel": "processes that begin, meet and die, by each executor",
    "failure": "deadlines must pass: of calls, and of what a dead rank leaves behind",
    "emulated": "a sanitizer: every kind of kernel, with a thread of the system for each of the device's",
    "init processes": "deadlines must pass: of each phase of initialisation",
    "lives": "10,000 seeded lives in virtual time, a quarter of them at the gate",
    "messages between hosts": "a sanitizer: groups of up to 65 ranks, and messages that exceed all slots",
    "nccl programs": "a sanitizer: eight programs, each with every collective, type and operation; timeouts must pass",
    "network": "a sanitizer: hundreds of seeds of a network in software",
    "processes of hosts": "ranks that end while their children live, between hosts",
    "preflight": "networks that swallow packets are noticed by deadlines only",
    "rails": "each of several networks is cut, slowed and restored",
    "regions of processes": "29 arrangements of ranks, devices and handles; deadlines must pass",
    "run hosts": "logins by sshd, and hosts that are cut off",
    "several hosts": "hosts that are cut, stopped and killed, and silence that must pass",
    "soak between hosts": "deaths, cuts and returns of hosts, by seed",
    "sim command": "16,384 simulated ranks",
    "train division": "a sanitizer: about 60 trainings of up to 8 ranks, each to its end",
    "train on a device": "a sanitizer: about 30 trainings on emulated blocks, each to its end",
    "tune on a device": "more than 100 runs of `rondo perf`, one for each candidate",
}


@dataclass
class Test:
    name: str
    suites: set
    starts_programs: bool
    needs: list  # of targets, their numbers
    alone: bool = False  # nothing may run beside it


def introspect(folder, what):
    asked = subprocess.run(["meson", "introspect", folder, what], capture_output=True, text=True, check=True)
    return json.loads(asked.stdout)


def read_tests(folder):
    return [Test(test["name"], {suite.split(":")[-1] for suite in test["suite"]},
                 Path(test["cmd"][0]).name.startswith("python"), test["depends"], not test.get("is_parallel", True))
            for test in introspect(folder, "--tests")]


def targets_of(folder, tests):
    """Returns the files that ninja makes for these tests, relative to the folder."""
    needed = {need for test in tests for need in test.needs}
    files = [file for target in introspect(folder, "--targets") if target["id"] in needed
             for file in target["filename"]]
    return [str(Path(file).relative_to(Path(folder).resolve())) for file in files]


def of_stage(tests, stage):
    if stage == "timed":
        return [test for test in tests if "timed" in test.suites]
    untimed = [test for test in tests if "timed" not in test.suites]
    if stage == "asan":
        return [test for test in untimed if not test.suites & NOT_SANITIZED]
    return [test for test in untimed if stage != "tsan" or "threads" in test.suites]


def is_occasional(test, stage):
    """Returns whether the test is left out of most gates."""
    if stage == "timed" or test.name in TOOL_FILES or (stage == "asan" and test.starts_programs):
        return True
    patterns = OCCASIONAL + (OCCASIONAL_SANITIZED if stage in ("asan", "tsan") else ())
    patterns += OCCASIONAL_TSAN if stage == "tsan" else ()
    return any(fnmatch.fnmatchcase(test.name, pattern) for pattern in patterns)


def has_changed(test, changed):
    patterns = TOOL_FILES.get(test.name, ())
    return any(fnmatch.fnmatch(path, pattern) for path in changed for pattern in patterns)


def seconds_of(name, stage):
    usual = SECONDS.get(name, 1) * SLOWER.get(stage, 1)
    return SANITIZED_SECONDS.get(stage, {}).get(name, usual)


def divide(names, stage):
    """Returns the names in QUARTERS sets. The longest test comes first. Each test joins the set that takes least so
    far."""
    quarters = [(0, number, set()) for number in range(QUARTERS)]
    for name in sorted(names, key=lambda name: (-seconds_of(name, stage), name)):
        seconds, number, members = min(quarters, key=lambda quarter: quarter[:2])
        quarters[number] = (seconds + seconds_of(name, stage), number, members | {name})
    return [members for _, _, members in quarters]


def select(tests, stage, everything, quarter, changed):
    """Returns the selected tests in the order of the build files."""
    candidates = of_stage(tests, stage)
    if everything:
        return candidates
    drawn = divide((test.name for test in candidates if is_occasional(test, stage)), stage)[quarter]
    return [test for test in candidates
            if not is_occasional(test, stage) or test.name in drawn
            or (stage == "tests" and has_changed(test, changed))]


def lane_of(test):
    if test.alone:
        return "alone"
    return "waiting" if test.name in WAITING else "busy"


def long_ones(root):
    """Yields (seconds, stage, name) of tests that took long."""
    for log in sorted(root.glob("build-*/meson-logs/*.json")):
        if log.stem in STAGES:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
                test = json.loads(line)
                if test["duration"] > LONG_S:
                    yield test["duration"], log.stem, test["name"].split(" / ", 1)[-1]


def print_long_ones(root):
    for seconds, stage, name in sorted(long_ones(root), reverse=True):
        print(f"{seconds:6.0f} s  {stage:6} {name}: {LONG_REASONS.get(name, 'no reason is given for it')}")


def main(arguments):
    if arguments == ["--long"]:
        print_long_ones(Path(__file__).resolve().parent.parent)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quarter", type=int, choices=range(QUARTERS), default=0)
    parser.add_argument("--changed", action="store_true", help="reads the names of files that changed")
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--lanes", action="store_true", help="prints the lane of each test, too")
    printed.add_argument("--targets", action="store_true", help="prints what ninja must build for the tests")
    asked = parser.parse_args(arguments)
    changed = sys.stdin.read().splitlines() if asked.changed else []
    chosen = select(read_tests(asked.folder), asked.stage, asked.all, asked.quarter, changed)
    names = [f"{lane_of(test)}\t{test.name}" if asked.lanes else test.name for test in chosen]
    print("\n".join(targets_of(asked.folder, chosen) if asked.targets else names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
