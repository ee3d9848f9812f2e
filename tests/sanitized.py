# SPDX-License-Identifier: Apache-2.0
"""Says whether tests run under a sanitizer, in which case scripts/test sets a variable. Under a sanitizer, leaves out
cases that run the same code as other cases."""

import os

SANITIZED = "RONDO_TEST_SANITIZED" in os.environ


def some_of(cases, few, what):
    """Returns all cases, or a few of them under a sanitizer."""
    if not SANITIZED:
        return cases
    assert all(case in cases for case in few)
    print(f"skipped: {what}: {len(cases) - len(few)} of {len(cases)}, for their time under a sanitizer; "
          "done without one", flush=True)
    return few
