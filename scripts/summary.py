# SPDX-License-Identifier: Apache-2.0
"""Adds up the results of tests: summary.py FILE... prints the failed and skipped ones and "N passed, N failed, N
skipped".

A FILE is a testlog.json of Meson, or the "pass NAME" and "fail NAME" lines of scripts/fuzz. For programs of Catch2 and
of Python's unittest their test cases count; any other program counts as one. A case is skipped if its program prints a
line `skipped: NAME: why`, or if unittest says so. A program that exits with 77 is skipped as a whole.
"""

import json
import re
import sys
from dataclasses import dataclass, field

CATCH_PASSED = re.compile(r"^All tests passed \(.*?(\d+) assertions? in (\d+) test cases?\)", re.M)
CATCH_COUNTS = re.compile(r"^test cases:\s*(\d+)\s*\|(.*)$", re.M)
UNITTEST_COUNT = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_OUTCOME = re.compile(r"(failures|errors|skipped)=(\d+)")
SKIPPED_LINE = re.compile(r"^skipped: (.+)$", re.M)
UNITTEST_SKIPPED = re.compile(r"^(\w+) \(.*?\n?.*?\.\.\. skipped ['\"](.*)['\"]$", re.M)


@dataclass
class Tally:
    passed: int = 0
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)

    def add(self, name, passed, failed, skipped):
        self.passed += passed
        self.failed += [name] * failed
        self.skipped += skipped


def count_catch(text):
    """Returns (passed, failed) test cases of a Catch2 program, or None if it is not one. Its cases may have run in
    several processes, each with its own counts."""
    counts = [(int(match[2]), 0) for match in CATCH_PASSED.finditer(text)]
    for match in CATCH_COUNTS.finditer(text):
        parts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", match[2])}
        counts.append((parts.get("passed", 0), parts.get("failed", 0)))
    return tuple(map(sum, zip(*counts))) if counts else None


def count_unittest(text):
    """Returns (passed, failed, skip reasons) of a program of Python's unittest, or None if it is not one."""
    ran = UNITTEST_COUNT.search(text)
    if not ran:
        return None
    outcome = {word: int(number) for word, number in UNITTEST_OUTCOME.findall(text[ran.end():])}
    failed = outcome.get("failures", 0) + outcome.get("errors", 0)
    skipped = [f"{name}: {why}" for name, why in UNITTEST_SKIPPED.findall(text)]
    skipped += ["(unnamed)"] * (outcome.get("skipped", 0) - len(skipped))
    return max(int(ran[1]) - failed - len(skipped), 0), failed, skipped


def count_program(tally, test):
    name, result = test["name"], test["result"]
    text = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    if result == "SKIP":
        reasons = SKIPPED_LINE.findall(text) or [text.strip().splitlines()[-1] if text.strip() else "no reason given"]
        tally.add(name, 0, 0, [f"{name}: {reasons[0]}"])
        return
    bad = result not in ("OK", "EXPECTEDFAIL")
    said = [f"{name}: {line}" for line in SKIPPED_LINE.findall(text)]
    if counted := count_catch(text):
        passed, failed = counted
        tally.add(name, max(passed - len(said), 0), max(failed, int(bad)), said)
    elif counted := count_unittest(text):
        passed, failed, skipped = counted
        skipped = said + [f"{name}: {line}" for line in skipped]
        tally.add(name, max(passed - len(said), 0), max(failed, int(bad)), skipped)
    else:
        tally.add(name, int(not bad), int(bad), said)


def read(tally, path):
    with open(path, encoding="utf-8", errors="replace") as file:
        if not path.endswith(".json"):
            for outcome, name in (line.split(maxsplit=1) for line in file if line.strip()):
                tally.add(name.strip(), int(outcome == "pass"), int(outcome != "pass"), [])
            return
        for line in file:
            count_program(tally, json.loads(line))


def main(paths):
    tally = Tally()
    for path in paths:
        read(tally, path)
    for reason in dict.fromkeys(tally.skipped):
        print(f"skipped: {reason}")
    for name in dict.fromkeys(tally.failed):
        print(f"FAILED: {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
