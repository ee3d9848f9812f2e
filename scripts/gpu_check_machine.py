# SPDX-License-Identifier: Apache-2.0
"""Describes the place for scripts/gpu-check: its device, driver, clocks, and the kernel's messages after a failure. It
also has the process that keeps a context alive meanwhile."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

CLOCKS = ("pstate", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.draw", "power.limit", "temperature.gpu",
          "clocks_event_reasons.active")
KERNEL = re.compile(r"NVRM|\bXid\b|nvidia", re.I)


def output_of(command, environment=None, log=None, seconds=60):
    """Returns what the command prints, or "" if it fails. With `log` all its output is kept there."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds,
                              env=environment, check=False, errors="replace", stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as why:
        text, out = f"{why}\n", ""
    else:
        text, out = done.stdout + done.stderr, done.stdout.strip() if done.returncode == 0 else ""
    if log is not None:
        log.write_text(text, encoding="utf-8")
    return out


def distances_of(devices):
    """Returns what NVML reported, and the table of distances, in one line."""
    rows = [f"{device['pci_bus_id']}: {' '.join(each['code'] for each in row)}"
            for device, row in zip(devices["list"], devices["distances"])]
    return "; ".join([devices["nvml"]["error"] or f"{devices['nvml']['library']} was asked"] + rows)


def add_info(machine, text):
    """Adds what `rondo info` reports of the first device, mainly of its kernels, and the distances of all devices."""
    document = json.loads(text) if text else {}
    cuda = document.get("cuda", {"error": "rondo info failed", "devices": []})
    if "devices" in document:
        machine["distances"] = distances_of(document["devices"])
    if not cuda["devices"]:
        machine["refused"] = cuda["error"]
        return
    device = cuda["devices"][0]
    machine["device"] = (f"{len(cuda['devices'])} x {device['name']}, compute capability "
                         f"{device['compute_capability']}, {device['multiprocessors']} multiprocessors, "
                         f"{device['memory_bytes'] >> 20} MiB; CUDA {cuda['driver']}")
    machine["kernel image"] = f"{cuda['image']['bytes']} bytes, {', '.join(cuda['image']['architectures']) or 'none'}"
    if "error" in device:
        machine["refused"] = device["error"]
        return
    kernels, budget = device["kernels"], device["budget"]
    machine["kernels"] = (f"{len(kernels)}, at most {max(each['registers'] for each in kernels)} registers and "
                          f"{max(each['local_bytes'] for each in kernels)} bytes of local memory; {budget['blocks']} "
                          f"blocks of {budget['block_threads']} threads fit, {budget['ranks']} ranks of "
                          f"{budget['blocks_per_rank']}")


def machine_of(bundle, work, environment, soft):
    """Returns the record's description of the place."""
    machine = {"commit": (bundle / "COMMIT").read_text(encoding="utf-8").strip()}
    add_info(machine, output_of([bundle / "bin/rondo", "info", "--json"], environment, work / "rondo-info.log"))
    if soft:
        machine["device"] = "the CUDA driver in software"
    elif tool := shutil.which("nvidia-smi"):
        lines = output_of([tool, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
        machine["nvidia-smi"] = "; ".join(lines.splitlines())
        output_of([tool, "-q"], log=work / "nvidia-smi.log")
    machine["host"] = f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors"
    return machine


def clocks(soft):
    """Returns the device's present clocks in one line, or "" if they are not available."""
    tool = None if soft else shutil.which("nvidia-smi")
    if tool is None:
        return ""
    values = output_of([tool, f"--query-gpu={','.join(CLOCKS)}", "--format=csv,noheader"]).splitlines()[:1]
    return ", ".join(f"{name} {value.strip()}" for name, value in zip(CLOCKS, values[0].split(","))) if values else ""


class KernelMessages:
    """The messages of the kernel's log about the driver (mainly an Xid) since it was last read."""

    def __init__(self):
        self.seen = len(self.all())

    @staticmethod
    def all():
        for command in (["dmesg"], ["journalctl", "-k", "--no-pager", "-q"]):
            if text := output_of(command, seconds=10):
                return [line for line in text.splitlines() if KERNEL.search(line)]
        return []

    def new(self):
        lines = self.all()
        # A log that has been cut at its beginning shows all of what is left.
        fresh = lines[self.seen:] if len(lines) >= self.seen else lines
        self.seen = len(lines)
        return fresh


class Keeper:
    """The process that keeps a context, for the length of a `with`."""

    def __init__(self, environment, work):
        self.environment, self.log = environment, work / "keeper.log"
        self.library = environment.get("RONDO_CUDA_LIBRARY", "libcuda.so.1")

    def __enter__(self):
        script = Path(__file__).with_name("gpu_check_keeper.py")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([sys.executable, "-B", script, self.library], env=self.environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            start_new_session=True)
        told = select.select([self.process.stdout], [], [], 30)[0]
        self.state = self.process.stdout.readline().decode(errors="replace").strip() if told else "not ready in 30 s"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
