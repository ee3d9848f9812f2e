# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of a test side by side, each in a process of its own. It suits cases that mostly wait for deadlines,
and need no processor meanwhile. A module calls main() where it would call unittest.main().

When the command line names cases, only these run, one after the other, in the process itself."""

import concurrent.futures
import os
import re
import subprocess
import sys
import time
import unittest

CASE = "RONDO_TEST_CASE"  # names the case that a process of run_case() runs
ENDING = re.compile(r"^(Ran (\d+) tests? in .*|OK.*|FAILED.*|NO TESTS RAN.*|-{70})\n?", re.M)
COUNT = re.compile(r"(failures|errors|skipped)=(\d+)")


def cases_of(suite):
    """Yields the names of all cases, such as Class.test_name."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield ".".join(test.id().split(".")[-2:])


def run_case(case):
    """Runs one case. Returns its output, without the lines that count cases, and how many cases had each outcome."""
    began = time.monotonic()
    done = subprocess.run(sys.orig_argv, env={**os.environ, CASE: case}, stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", errors="replace", check=False)
    counts = {"ran": sum(int(found[2] or 0) for found in ENDING.finditer(done.stderr))}
    for found in ENDING.finditer(done.stderr):
        counts |= {outcome: int(count) for outcome, count in COUNT.findall(found[1])}
    # Standard output is first, since a reason to skip must be a separate line there.
    told = (done.stdout + ENDING.sub("", done.stderr)).strip("\n")
    bad = counts.get("failures", 0) + counts.get("errors", 0)
    if bad == 0 and (done.returncode not in (0, 5) or counts["ran"] + counts.get("skipped", 0) == 0):
        counts["errors"] = 1
        told += f"\n{case}: its process ended with {done.returncode}"
    return f"{told}\n  {case}: {time.monotonic() - began:.1f} s\n", counts


def main(jobs, whole_classes=False):
    """Runs every case, at most `jobs` of them at a time, and exits as unittest.main() does. With `whole_classes`, the
    cases of a class share a process, and so the objects that setUpClass() makes."""
    case = os.environ.pop(CASE, None)
    if case is not None or len(sys.argv) > 1:
        unittest.main(module="__main__", argv=[sys.argv[0], *([case] if case else sys.argv[1:])], verbosity=2)
    began, total = time.monotonic(), {"ran": 0, "failures": 0, "errors": 0, "skipped": 0}
    cases = list(cases_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    if whole_classes:
        cases = list(dict.fromkeys(case.split(".")[0] for case in cases))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for told in concurrent.futures.as_completed([pool.submit(run_case, case) for case in cases]):
            output, counts = told.result()
            print(output, flush=True)
            total = {outcome: total[outcome] + counts.get(outcome, 0) for outcome in total}
    bad = total["failures"] + total["errors"]
    named = ", ".join(f"{outcome}={total[outcome]}" for outcome in ("failures", "errors", "skipped") if total[outcome])
    print(f"Ran {total['ran']} tests in {time.monotonic() - began:.1f} s\n")
    print(("FAILED" if bad else "OK") + (f" ({named})" if named else ""))
    sys.exit(1 if bad else 0)
