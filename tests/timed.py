# SPDX-License-Identifier: Apache-2.0
"""Promises about time, for tests of the suite "timed", which have the machine to themselves. Such a test does not
retry: it compares a median with its bound.

RONDO_TEST_TIMED=report  a missed bound is only reported, and what can be measured once is not repeated
"""

import os
import statistics

REPETITIONS = 5


def bounds_hold():
    """Returns whether a missed bound fails the test. A sanitizer's build is slow by design, so there it does not."""
    return os.environ.get("RONDO_TEST_TIMED") != "report" and "RONDO_TEST_SANITIZED" not in os.environ


def is_within(name, bound, values, unit="s"):
    """Reports the median of `values`. Returns False if it is above `bound` and bounds hold."""
    median = statistics.median(values)
    print(f"timed: {name}: median {median:.3f} {unit}, bound {bound:.3f} {unit}", flush=True)
    return median <= bound or not bounds_hold()


def check_timed(test, name, bound, measure, repetitions=REPETITIONS, unit="s"):
    """Fails `test` unless the median of several values of measure() is within `bound`."""
    values = [measure() for _ in range(repetitions if bounds_hold() else 1)]
    test.assertTrue(is_within(name, bound, values, unit), f"{name}: {values} {unit}, bound {bound}")
