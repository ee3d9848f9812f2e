# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check, which see: runs the steps of gpu_check_steps.py one after the other, each with a deadline and a
log of its own, and keeps the record."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpu_check_record import Record
from gpu_check_steps import STAGES, Steps, soft_environment

SKIPPED = 77      # a program's exit status when nothing of it could run
LEAST_SECONDS = 5  # a step is not begun with less
# What programs say at their end, for the record.
TALLIES = (re.compile(r"All tests passed \(.*\)"), re.compile(r"assertions:.*failed.*"),
           re.compile(r"^Ran \d+ tests.*", re.M), re.compile(r"^\d+ lives.*", re.M),
           re.compile(r"^========= .*(?:ERROR|RACECHECK) SUMMARY.*", re.M))


class CutOff(Exception):
    pass


def stop(_number, _frame):
    raise CutOff


class Runner:
    def __init__(self, options, record, environment, begin):
        self.output, self.record, self.environment = options.output, record, environment
        self.end = begin + options.limit

    def left(self):
        return self.end - time.monotonic()

    def run(self, step):
        if step.missing:
            return self.tell(step, "skipped", 0, step.missing)
        if self.left() < LEAST_SECONDS:
            return self.tell(step, "left out", 0, "the time was up")
        begin = time.monotonic()
        log = self.output / (re.sub(r"[^\w]+", "-", step.name) + ".log")
        try:
            status = self.wait(step, log)
        except CutOff:
            self.tell(step, "cut off", time.monotonic() - begin, "")
            raise
        seconds = time.monotonic() - begin
        text = log.read_text(encoding="utf-8", errors="replace")
        detail = "; ".join(match[0].strip("= ") for each in TALLIES if (match := each.search(text)))
        if status is None:
            return self.tell(step, "failed", seconds, f"still ran after {seconds:.0f} s and was ended; see {log.name}")
        if status == SKIPPED:
            return self.tell(step, "skipped", seconds, detail)
        if status != 0 and step.refusal and step.refusal in text:
            return self.tell(step, "skipped", seconds, text.strip().rpartition("\n")[2])
        if status != 0:
            last = text.strip().splitlines()[-1:] or [""]
            return self.tell(step, "failed", seconds, f"exit status {status}: {detail or last[0]}; see {log.name}")
        self.tell(step, "passed", seconds, detail)
        if step.judge is not None:
            report = json.loads(Path(step.command[-1]).read_text(encoding="utf-8"))
            self.record.machine["copy bandwidth"] = f"{report['devices'][0]['copy_GBps']:.0f} GB/s, read and written"
            if "product" in report:
                self.record.machine["products"] = f"{report['product']['library']}, {report['product']['version']}"
            self.record.add_figures(step.judge(report))

    def wait(self, step, log):
        """The exit status, or None: it did not end in time. It has a process group of its own, which ends with it."""
        with open(log, "wb") as file:
            child = subprocess.Popen(step.command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     env=self.environment | step.environment, start_new_session=True)
            try:
                return child.wait(timeout=max(1.0, min(step.seconds, self.left())))
            except (subprocess.TimeoutExpired, CutOff) as why:
                os.killpg(child.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
                child.wait()
                if isinstance(why, CutOff):
                    raise
                return None

    def tell(self, step, result, seconds, detail):
        print(f"{result:8}  {step.stage}: {step.name}  {seconds:.1f} s  {detail}", flush=True)
        self.record.add(step, result, seconds, detail)


def output_of(command, environment):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def distances_of(devices):
    """What NVML said, and the table of distances, in one line."""
    rows = [f"{device['pci_bus_id']}: {' '.join(each['code'] for each in row)}"
            for device, row in zip(devices["list"], devices["distances"])]
    return "; ".join([devices["nvml"]["error"] or f"{devices['nvml']['library']} was asked"] + rows)


def add_info(machine, text):
    """What `rondo info` says of the first device, its kernels above all, and where all are."""
    document = json.loads(text) if text else {}
    cuda = document.get("cuda", {"error": "rondo info failed", "devices": []})
    if "devices" in document:
        machine["distances"] = distances_of(document["devices"])
    if not cuda["devices"]:
        machine["device"] = cuda["error"]
        return
    device = cuda["devices"][0]
    machine["device"] = (f"{len(cuda['devices'])} x {device['name']}, compute capability "
                         f"{device['compute_capability']}, {device['multiprocessors']} multiprocessors, "
                         f"{device['memory_bytes'] >> 20} MiB; CUDA {cuda['driver']}")
    machine["kernel image"] = f"{cuda['image']['bytes']} bytes, {', '.join(cuda['image']['architectures']) or 'none'}"
    if "error" in device:
        machine["kernels"] = device["error"]
        return
    kernels, budget = device["kernels"], device["budget"]
    machine["kernels"] = (f"{len(kernels)}, at most {max(each['registers'] for each in kernels)} registers and "
                          f"{max(each['local_bytes'] for each in kernels)} bytes of local memory; {budget['blocks']} "
                          f"blocks of {budget['block_threads']} threads fit, {budget['ranks']} ranks of "
                          f"{budget['blocks_per_rank']}")


def machine_of(bundle, environment, soft):
    """What the record says of the place."""
    machine = {"commit": (bundle / "COMMIT").read_text(encoding="utf-8").strip()}
    add_info(machine, output_of([bundle / "bin/rondo", "info", "--json"], environment))
    if soft:
        machine["device"] = "the CUDA driver in software"
    elif tool := shutil.which("nvidia-smi"):
        lines = output_of([tool, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], environment)
        machine["nvidia-smi"] = "; ".join(lines.splitlines())
    machine["host"] = f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors"
    return machine


def parse_options():
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", add_help=False)
    parser.add_argument("--only", action="append", choices=STAGES)
    parser.add_argument("--bundle", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--output", type=Path, default=Path("gpu-check-results"))
    parser.add_argument("--limit", type=float, default=520)
    parser.add_argument("--soft", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.bundle, options.output = options.bundle.resolve(), options.output.resolve()
    if not (options.bundle / "bin/rondo").is_file():
        parser.error(f"{options.bundle} is no bundle: make one with scripts/gpu-bundle, unpack it, run its gpu-check")
    return options


def main():
    begin = time.monotonic()
    options = parse_options()
    options.output.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    libraries = [str(options.bundle / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    if options.soft:
        environment |= soft_environment(options.bundle)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    record = Record(options.output, machine_of(options.bundle, environment, options.soft), options.soft)
    record.write()
    runner = Runner(options, record, environment, begin)
    steps = Steps(options.bundle, options.output, options.soft, options.quick)
    try:
        for stage in STAGES:
            for step in steps.of(stage) if options.only is None or stage in options.only else ():
                runner.run(step)
        record.end = "ran to its end"
    except CutOff:
        pass
    record.write()
    print("\n" + record.markdown(), flush=True)
    return 1 if record.count("failed") or record.end == "was cut off" else 0


if __name__ == "__main__":
    sys.exit(main())
