# SPDX-License-Identifier: Apache-2.0
"""Says whether tests run under a sanitizer, in which case scripts/test sets a variable. At the gate, and mostly only
under a sanitizer, leaves out cases that run the same code as other cases."""

import os
import unittest

SANITIZED = "RONDO_TEST_SANITIZED" in os.environ


def some_of(cases, few, what):
    """Returns all cases, or a few of them under a sanitizer."""
    if not SANITIZED:
        return cases
    assert all(case in cases for case in few)
    print(f"skipped: {what}: {len(cases) - len(few)} of {len(cases)}, for their time under a sanitizer; "
          "done without one", flush=True)
    return few


def quarter_of(cases, what, in_every_build=False):
    """Returns a quarter of the cases at the gate, otherwise all of them: under a sanitizer, or in every build. The
    quarter is another one each time that the gate runs this test."""
    quarter = os.environ.get("RONDO_TEST_QUARTER")  # set by scripts/test
    if quarter is None or not (SANITIZED or in_every_build):
        return cases
    why = "other gates run them" if in_every_build else "take long under a sanitizer; done without one"
    print(f"skipped: three quarters of {len(cases)} {what}: {why}", flush=True)
    return cases[int(quarter) % 4::4]


def quarter_of_cases(_loader, suite, _pattern, in_every_build=False):
    """Selects the cases of a module by quarter_of(). A module of at least four cases assigns this to `load_tests`, by
    which unittest makes its suite. Cases of one class keep their order, so that setUpClass() runs once."""
    return unittest.TestSuite(quarter_of([case for cases in suite for case in cases], "cases", in_every_build))


def quarter_of_cases_in_every_build(loader, suite, pattern):
    """Selects the cases of a module likewise, in every build."""
    return quarter_of_cases(loader, suite, pattern, in_every_build=True)
