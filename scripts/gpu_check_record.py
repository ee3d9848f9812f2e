# SPDX-License-Identifier: Apache-2.0
"""The record of scripts/gpu-check: what ran where with which result, as JSON, Markdown (docs/lab/gpu-records.md), and
an archive of all logs. The three files are written anew after each step, so that what was cut off keeps what it has."""

import json
import os
import tarfile
from datetime import datetime, timezone

ARCHIVE_BYTES_MAX = 15 << 20  # a machine may give back no larger file


def verdict(met, soft):
    if met is None:
        return ""
    return "not judged" if soft else "met" if met else "missed"


def written(path, write):
    """Writes `path`, whole or not at all."""
    write(f"{path}.new")
    os.replace(f"{path}.new", path)


class Record:
    def __init__(self, folder, work, soft):
        self.folder, self.work, self.soft = folder, work, soft
        self.machine, self.tests, self.figures, self.costs = {}, [], [], []
        self.date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.end = "was cut off"

    def add(self, step, result, seconds, detail=""):
        self.tests.append({"part": step.part, "test": step.name, "result": result, "seconds": round(seconds, 1),
                           "detail": detail})
        self.write()

    def add_figures(self, figures):
        for figure in figures:
            self.figures.append({"figure": figure.name, "value": figure.value, "bar": figure.bar,
                                 "verdict": verdict(figure.met, self.soft)})

    def count(self, result):
        return sum(test["result"] == result for test in self.tests)

    def seconds_of(self, part):
        return sum(test["seconds"] for test in self.tests if test["part"] == part)

    def markdown(self):
        parts = sorted({test["part"] for test in self.tests})
        lines = [f"## {self.date}", ""]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        lines += [f"- parts: {', '.join(f'{part} in {self.seconds_of(part):.0f} s' for part in parts) or 'none'}",
                  f"- the check {self.end}: {self.count('passed')} passed, {self.count('failed')} failed, "
                  f"{self.count('skipped')} skipped, {self.count('left out')} left out", ""]
        if self.soft:
            lines += ["This ran on the CUDA driver in software: it says nothing of a GPU.", ""]
        lines += ["| part | test | result | seconds | |", "|---|---|---|---|---|"]
        for test in self.tests:
            lines.append(f"| {test['part']} | {test['test']} | {test['result']} | {test['seconds']} | "
                         f"{test['detail'].replace('|', '/')} |")
        if self.costs:
            lines += ["", "| device cost | value | unit |", "|---|---|---|"]
            lines += [f"| {each['cost']} | {each['value']:.4g} | {each['unit']} |" for each in self.costs]
        if self.figures:
            lines += ["", "| figure | value | bar | |", "|---|---|---|---|"]
            lines += [f"| {each['figure']} | {each['value']} | {each['bar']} | {each['verdict']} |"
                      for each in self.figures]
        return "\n".join(lines) + "\n"

    def write(self):
        document = {"date": self.date, "machine": self.machine, "soft": self.soft, "end": self.end,
                    "tests": self.tests, "costs": self.costs, "figures": self.figures}
        for name, text in (("results.json", json.dumps(document, indent=1) + "\n"), ("record.md", self.markdown())):
            def write_text(path, text=text):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            written(self.folder / name, write_text)
        written(self.folder / "logs.tar.gz", self.write_archive)

    def write_archive(self, path):
        """Logs and reports, the small ones first; what would make it too large is left out, and named."""
        left, names = ARCHIVE_BYTES_MAX, []
        with tarfile.open(path, "w:gz", compresslevel=3) as archive:
            for file in sorted(self.work.iterdir(), key=lambda each: (each.stat().st_size, each.name)):
                if file.stat().st_size > left:
                    names.append(file.name)
                    continue
                left -= file.stat().st_size
                archive.add(file, arcname=f"logs/{file.name}")
        self.machine.pop("logs left out", None)
        if names:
            self.machine["logs left out"] = ", ".join(names)
