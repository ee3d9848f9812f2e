# SPDX-License-Identifier: Apache-2.0
"""Makes invented rows of a raw file of bench/compare."""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/compare"))
import results  # noqa: E402
import settings  # noqa: E402

SETTING = replace(settings.SETTINGS[0], bar_ratio=0.5)
PARTS = ("line_us", "copy_us", "copy_streaming_us", "update_us", "read_us", "yield_us")


def row(contender, us, state="near", size=64, setting=SETTING, type_name="float32", **changes):
    run = setting.run(settings.Series(contender, contender, type_name), size)
    outcome = {"state": state, "quiet": True, "median_us": us, "back_to_back_us": us}
    return {**results.run_row(1, run, outcome), **changes}


def floor(state, size, *parts, quiet=True):
    return results.floor_row(1, size, {"state": state, "quiet": quiet, **dict(zip(PARTS, parts))})


def line(rows, state="near", size=64, setting=SETTING, known=("fast", "slow"), runs_min=1):
    found = results.Results(rows, runs_min)
    lines = list(results.lines_of(found, setting, state, known, [size], 2))
    return lines[0] if lines else None
