# SPDX-License-Identifier: Apache-2.0
"""Implements scripts/gpu-check, which explains itself. Runs the steps of a list one after the other, each with a
deadline and a log, and keeps the record."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_check_record import Record, kernel_messages, machine_of
from gpu_check_steps import CALL_SECONDS, FULL, QUICK, SOFT, Steps, soft_environment

SKIPPED = 77      # a program's exit status when nothing of it could run
STEP_SECONDS_MIN = 5  # a step is not begun with less
RANKS_SECONDS_MAX = 5
END_SECONDS_MAX = 3
TO_ITS_END = "ran to its end"
# The programs print these tallies at their end, for the record.
TALLIES = (re.compile(r"All tests passed \(.*\)"), re.compile(r"assertions:.*failed.*"),
           re.compile(r"^Ran \d+ tests.*", re.M), re.compile(r"^\d+ lives.*", re.M),
           re.compile(r"^========= .*(?:ERROR|RACECHECK) SUMMARY.*", re.M))


class CutOff(BaseException):
    pass


def stop(_number, _frame):
    raise CutOff


class Runner:
    def __init__(self, programs, work, record, environment, limit):
        self.programs, self.work, self.record, self.environment = programs, work, record, environment
        self.end = time.monotonic() + limit
        self.seen = len(kernel_messages())

    def left(self):
        return self.end - time.monotonic()

    def run(self, step):
        if step.missing:
            return self.tell(step, "skipped", 0, step.missing)
        if self.left() < STEP_SECONDS_MIN:
            return self.tell(step, "left out", 0, "the time was up")
        begin = time.monotonic()
        log = self.work / (re.sub(r"[^\w]+", "-", step.name) + ".log")
        try:
            status = self.wait(step, log)
        except CutOff:
            self.tell(step, "cut off", time.monotonic() - begin, "")
            raise
        except OSError as error:  # the program cannot be started
            return self.tell(step, "failed", time.monotonic() - begin, str(error))
        seconds = time.monotonic() - begin
        text = log.read_text(encoding="utf-8", errors="replace")
        tallies = [match[0].strip("= ") for each in TALLIES if (match := each.search(text))]
        if skipped := len(re.findall(r"^skipped:", text, re.M)):
            tallies.append(f"{skipped} cases skipped")
        detail = "; ".join(tallies)
        if status == SKIPPED:
            return self.tell(step, "skipped", seconds, text.strip().rpartition("\n")[2])
        why = self.why(step, status, seconds, text, detail, log)
        if step.report is not None:
            try:
                self.take(step, status == 0)
            except Exception as error:  # of one report; the other steps are still of use
                why = why or f"{step.report.name}: {error!r}"
        self.tell(step, "failed" if why else "passed", seconds, why or detail)

    def why(self, step, status, seconds, text, detail, log):
        """Returns why the step failed, and what the kernel and the device report then, or "" without a failure."""
        if status == 0:
            return "" if step.says in text else f"its log has no \"{step.says}\"; see {log.name}"
        last = text.strip().splitlines()[-1:] or [""]
        said = f"exit status {status}: {detail or last[0]}" if status is not None else (
            f"still ran after {seconds:.0f} s and was ended; last: {last[0]}")
        messages = kernel_messages()
        if len(messages) > self.seen:
            said += f"; the kernel says: {messages[-1].strip()}"
        self.seen = len(messages)
        return f"{said}; see {log.name}"

    def take(self, step, passed):
        """Takes what a step measured. If the step failed, the device costs that it measured before that are still
        valid."""
        if not passed and (step.judge is not None or not step.report.exists()):
            return
        report = json.loads(step.report.read_text(encoding="utf-8"))
        if "costs" in report:
            self.record.costs = report["costs"]
            self.record.machine["attributes"] = ", ".join(f"{name} {value}"
                                                          for name, value in report["attributes"].items())
        if step.judge is None:
            return
        if "devices" in report:
            self.record.machine["copy bandwidth"] = f"{report['devices'][0]['copy_GBps']:.0f} GB/s, read and written"
        if "product" in report:
            self.record.machine["products"] = f"{report['product']['library']}, {report['product']['version']}"
        self.record.add_figures(step.judge(report))

    def wait(self, step, log):
        """Returns the exit status, or None if the step did not end in time. The step has its own process group,
        which ends with it."""
        with open(log, "wb") as file:
            child = subprocess.Popen(step.command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     env=self.environment | step.environment, start_new_session=True)
            try:
                return child.wait(timeout=max(1.0, min(step.deadline, self.left())))
            except (subprocess.TimeoutExpired, CutOff) as why:
                self.end_group(child)
                if isinstance(why, CutOff):
                    raise
                self.wait_for_ranks()
                return None

    @staticmethod
    def end_group(child):
        """Ends a group. Before it is killed, a program can give its device back, or end a daemon of its own."""
        os.killpg(child.pid, signal.SIGTERM)  # not waited for yet, so the number is still its own
        end = time.monotonic() + END_SECONDS_MAX
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < end:
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def wait_for_ranks(self):
        """Waits for the ranks of a launcher that was killed. They end a little later, in groups of their own, and
        only then leave the device."""
        end = time.monotonic() + RANKS_SECONDS_MAX
        while time.monotonic() < end and any(map(self.is_ours, Path("/proc").glob("[0-9]*/exe"))):
            time.sleep(0.05)

    def is_ours(self, link):
        try:
            return self.programs in link.readlink().parents
        except OSError:  # it has ended
            return False

    def tell(self, step, result, seconds, detail):
        print(f"{result:8}  {step.priority}: {step.name}  {seconds:.1f} s  {detail}", flush=True)
        self.record.add(step, result, seconds, detail)


def pattern(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from None


def parse_options():
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", add_help=False)
    parser.add_argument("--bundle", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--output", type=Path, default=Path("gpu-check-results"))
    parser.add_argument("--limit", type=float, default=CALL_SECONDS)
    parser.add_argument("--nccl", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", type=pattern, default=pattern(""), metavar="REGEX")
    parser.add_argument("--done", type=Path, action="append", default=[], metavar="RESULTS.json")
    parser.add_argument("--soft", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.bundle, options.output = options.bundle.resolve(), options.output.resolve()
    options.nccl = options.nccl and options.nccl.resolve()
    if not (options.bundle / "bin/rondo").is_file():
        parser.error(f"{options.bundle} is no bundle: make one with scripts/gpu-bundle, unpack it, run its gpu-check")
    return options


def run_steps(options, work, environment, record):
    """Runs the steps and returns how that ended, for the record."""
    record.machine.update(machine_of(options.bundle, work, environment, options.soft))
    record.write()
    if "refused" in record.machine:
        return f"did not begin, as Rondo cannot use this device: {record.machine['refused']}"
    done = {test["test"] for path in options.done for test in json.loads(path.read_text(encoding="utf-8"))["tests"]
            if test["result"] == "passed"}
    runner = Runner(options.bundle / "bin", work, record, environment, options.limit)
    for step in steps_of(options, work):
        if step.name not in done:
            runner.run(step)
    return TO_ITS_END


def steps_of(options, work):
    sizes = QUICK if options.quick else SOFT if options.soft else FULL
    return [step for step in Steps(options.bundle, work, options.soft, sizes, options.nccl).all()
            if options.only.search(step.name)]


def print_steps(options):
    """Prints each step with its seconds on an H200, and with the sum of all seconds so far."""
    total = 0
    for step in steps_of(options, Path()):
        total += 0 if step.missing else step.seconds
        print(f"{step.priority}  {step.seconds:4} s {total:5} s  {step.name}"
              + (f"  (skipped: {step.missing})" if step.missing else ""))


def main():
    options = parse_options()
    if options.list:
        print_steps(options)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    libraries = [str(options.bundle / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    if options.soft:
        environment |= soft_environment(options.bundle)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    with tempfile.TemporaryDirectory(prefix="rondo-gpu-check-") as folder:
        record = Record(options.output, Path(folder), options.soft)
        try:
            record.end = run_steps(options, Path(folder), environment, record)
        except CutOff:
            pass
        record.write()
    print("\n" + record.markdown(), flush=True)
    return 1 if record.count("failed") or record.end != TO_ITS_END else 0


if __name__ == "__main__":
    sys.exit(main())
