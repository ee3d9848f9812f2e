# SPDX-License-Identifier: Apache-2.0
"""The record of scripts/gpu-check: what ran where with which result, as JSON, Markdown (docs/lab/gpu-records.md),
and an archive of all logs. The files are rewritten after each step, so a run that is cut off keeps its results."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from datetime import datetime, timezone

KERNEL = re.compile(r"NVRM|\bXid\b|nvidia", re.I)


def output_of(command, environment=None, log=None):
    """Returns what the command prints, or "" if it fails. If `log` is given, that file gets all output."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60,
                              env=environment, check=False, errors="replace", stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as why:
        text, out = f"{why}\n", ""
    else:
        text, out = done.stdout + done.stderr, done.stdout.strip() if done.returncode == 0 else ""
    if log is not None:
        log.write_text(text, encoding="utf-8")
    return out


def kernel_messages():
    """Returns the kernel's messages about the driver, mainly an Xid. Without dmesg there are none."""
    tool = shutil.which("dmesg")
    return [line for line in (output_of([tool]) if tool else "").splitlines() if KERNEL.search(line)]


def machine_of(bundle, work, environment, soft):
    """Returns the record's description of the machine. It has "refused" if Rondo cannot use the device."""
    machine = {"commit": (bundle / "COMMIT").read_text(encoding="utf-8").strip(),
               "host": f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors"}
    text = output_of([bundle / "bin/rondo", "info", "--json"], environment, work / "rondo-info.log")
    cuda = json.loads(text)["cuda"] if text else {"error": "rondo info failed", "devices": []}
    device = cuda["devices"][0] if cuda["devices"] else cuda
    if device.get("error"):
        machine["refused"] = device["error"]
        return machine
    kernels, budget = device["kernels"], device["budget"]
    machine["device"] = "the CUDA driver in software" if soft else (
        f"{len(cuda['devices'])} x {device['name']}, compute capability {device['compute_capability']}, "
        f"{device['multiprocessors']} multiprocessors, {device['memory_bytes'] >> 20} MiB; CUDA {cuda['driver']}")
    machine["kernels"] = (f"{len(kernels)} in {cuda['image']['bytes']} bytes, at most "
                          f"{max(each['registers'] for each in kernels)} registers and "
                          f"{max(each['local_bytes'] for each in kernels)} bytes of local memory; {budget['blocks']} "
                          f"blocks of {budget['block_threads']} threads fit")
    if not soft and (tool := shutil.which("nvidia-smi")):
        output_of([tool, "-q"], log=work / "nvidia-smi.log")
    return machine


def written(path, write):
    """Writes `path` as a whole or not at all."""
    write(f"{path}.new")
    os.replace(f"{path}.new", path)


class Record:
    def __init__(self, folder, work, soft):
        self.folder, self.work, self.soft = folder, work, soft
        self.machine, self.tests, self.figures, self.costs = {}, [], [], []
        self.date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.end = "was cut off"

    def add(self, step, result, seconds, detail=""):
        self.tests.append({"priority": step.priority, "test": step.name, "result": result, "seconds": round(seconds, 1),
                           "detail": detail})
        self.write()

    def add_figures(self, figures):
        for figure in figures:
            verdict = "" if figure.met is None else "not judged" if self.soft else "met" if figure.met else "missed"
            self.figures.append({"figure": figure.name, "value": figure.value, "bar": figure.bar, "verdict": verdict})

    def count(self, result):
        return sum(test["result"] == result for test in self.tests)

    def markdown(self):
        lines = [f"## {self.date}", "", *(f"- {name}: {value}" for name, value in self.machine.items()),
                 f"- the check {self.end}: {self.count('passed')} passed, {self.count('failed')} failed, "
                 f"{self.count('skipped')} skipped, {self.count('left out')} left out", ""]
        if self.soft:
            lines += ["This ran on the CUDA driver in software: it says nothing of a GPU.", ""]
        tables = (("| | test | result | seconds | |", ("priority", "test", "result", "seconds", "detail"), self.tests),
                  ("| device cost | value | unit |", ("cost", "value", "unit"), self.costs),
                  ("| figure | value | bar | |", ("figure", "value", "bar", "verdict"), self.figures))
        for head, names, rows in tables:
            if rows:
                lines += [head, "|---" * len(names) + "|"]
                lines += ["| " + " | ".join(str(row[name]).replace("|", "/") for name in names) + " |" for row in rows]
                lines.append("")
        return "\n".join(lines)

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
        with tarfile.open(path, "w:gz", compresslevel=3) as archive:
            archive.add(self.work, arcname="logs")
