# SPDX-License-Identifier: Apache-2.0
"""The record of scripts/gpu-check: what ran where with which result, as JSON and as Markdown for docs/gpu-evidence.md.
Written anew after each step, so that what was cut off keeps what it has."""

import json
import os
from datetime import datetime, timezone


def verdict(met, soft):
    if met is None:
        return ""
    return "not judged" if soft else "met" if met else "missed"


class Record:
    def __init__(self, folder, machine, soft):
        self.folder, self.machine, self.soft = folder, machine, soft
        self.tests, self.figures = [], []
        self.date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.end = "was cut off"

    def add(self, step, result, seconds, detail=""):
        self.tests.append({"stage": step.stage, "test": step.name, "result": result, "seconds": round(seconds, 1),
                           "detail": detail})
        self.write()

    def add_figures(self, figures):
        for figure in figures:
            self.figures.append({"figure": figure.name, "value": figure.value, "bar": figure.bar,
                                 "verdict": verdict(figure.met, self.soft)})
        self.write()

    def count(self, result):
        return sum(test["result"] == result for test in self.tests)

    def markdown(self):
        lines = [f"## {self.date}", ""]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        lines += [f"- the check {self.end}: {self.count('passed')} passed, {self.count('failed')} failed, "
                  f"{self.count('skipped')} skipped, {self.count('left out')} left out", ""]
        if self.soft:
            lines += ["This ran on the CUDA driver in software: it says nothing of a GPU.", ""]
        lines += ["| stage | test | result | seconds | |", "|---|---|---|---|---|"]
        for test in self.tests:
            lines.append(f"| {test['stage']} | {test['test']} | {test['result']} | {test['seconds']} | "
                         f"{test['detail'].replace('|', '/')} |")
        if self.figures:
            lines += ["", "| figure | value | bar | |", "|---|---|---|---|"]
            lines += [f"| {each['figure']} | {each['value']} | {each['bar']} | {each['verdict']} |"
                      for each in self.figures]
        return "\n".join(lines) + "\n"

    def write(self):
        document = {"date": self.date, "machine": self.machine, "soft": self.soft, "end": self.end,
                    "tests": self.tests, "figures": self.figures}
        for name, text in (("results.json", json.dumps(document, indent=1) + "\n"), ("record.md", self.markdown())):
            path = self.folder / name
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}.new", path)
