# SPDX-License-Identifier: Apache-2.0
"""Runs every line that begins with a command as it stands, on the installed tree. The lines are from
README.md, CONTRIBUTING.md, docs/, the manual page's examples and each command's --help. They run in
one folder, with the programs that the pages name. SKIPPED has the lines that take minutes, or need a
GPU or another machine, with the reason. SHORTER shortens lines that would take long. Both are
reported. A line that several places show runs once.

usage: commands_test.py BUILD"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
ROOT = Path(__file__).resolve().parents[2]
OTHER_LANGUAGES = ("c", "cpp", "python", "json")
# First words that count as commands, whether or not they are installed.
COMMANDS = re.compile(r"(rondo|cc|mpirun|srun|torchrun|jq|sysctl|meson|ninja|python3|cp|for|sudo|apt-get|docker|cmake|"
                      r"(\./|scripts/|tests/|bench/|build[\w-]*/|/tmp/rondo)[\w./-]*)$")

SKIPPED = [  # (a part of the line, why it is not run)
    (r"^scripts/(demo|test|setup)\b", "installs packages and takes minutes; scripts/check-fresh runs it"),
    (r"^scripts/docs\b", "writes into the checkout; the test 'lint reference' runs it"),
    (r"^(meson|ninja) ", "builds and installs; scripts/check-fresh --only install runs it in a bare root"),
    (r"^(scripts/gpu-bundle|cp build-gpu/|/tmp/rondo-gpu-check/)|rondo-gpu-check\.tar", "is for a machine with a GPU"),
    (r"^(RONDO_\w+=\S+ )*rondo (run|tune) --host(s|file) ", "needs other hosts; tests/net runs such lines there"),
    (r"--device cuda", "needs a GPU; the tests of tests/gpu run such lines on the driver in software"),
    (r"^bench/compare/", "takes a minute to hours; the test 'compare' runs it at small sizes"),
    (r"^build-test/tests/|^(python3 )?tests/", "is a test, which meson test runs with limits of its own"),
    (r"rondo run --nccl|\$\(rondo nccl", "needs a program for NCCL; tests/compat runs such lines"),
    (r"^sysctl ", "changes the machine"),
    (r"^docker ", "needs a network and an image of Debian"),
    (r"pip install torch", "downloads a gigabyte"),
    (r"devices\.json", "is a table that a GPU makes; tests/gpu does the same on the driver in software"),
    (r"pidof rondo-train", "needs a training that runs; tests/proc/trace_test.py looks at a job that does"),
    (r"rondo sim .*--plot", "takes a minute or two, as its help says; tests/proc/sim_test.py draws one"),
    (r"host-a\.jsonl", "needs recordings of two hosts; tests/net makes some"),
]
SHORTER = [  # (a pattern, its replacement)
    (r"^((?:RONDO_\w+=\S+ )*rondo (?:run .*rondo )?perf \w+(?!.*-e )|^mpirun .*rondo perf \w+)", r"\1 -e 64K -n 3"),
    (r"(perf .*)-e (64M|256M)", r"\1-e 64K -n 3"),
    (r"^rondo sim --ranks 16384", "rondo sim --alone --ranks 16384"),
    (r"^rondo tune( --quick --ranks 2)? -o", "rondo tune --quick --rounds 1 --ranks 2 --sizes 64,4K -o"),
    (r"--table here.json --ranks 4", "--table here.json --ranks 2"),  # fewer ranks, as for rondo tune above
    (r"rondo train --model nano", r"\g<0> --batch 2 --validation-batches 1 --measure 1"),
    (r"--model tiny", "--width 32 --layers 1 --heads 2 --context 32"),
    (r"--corpus ~/texts", "--corpus /usr/share/common-licenses"),
    (r"--steps \d+", "--steps 3"),
    (r"--measure \d+", "--measure 1"),
]
NOT_COMMANDS = {"time"}  # words of outputs that are also programs
# `rondo tune` exits with 1 if a choice was not the best, which may happen on a busy machine.
ALLOWED = {"rondo tune": {0, 1}}
LIMIT_SECONDS = 100  # limit of one line, also on a busy machine


def lines_of(page):
    """Yields (number, command) for a page's indented lines and shell fences. A loop is one command."""
    fence, loop, depth = None, [], 0
    whole = re.sub(r" *\\\n +", " ", (ROOT / page).read_text(encoding="utf-8"))  # joins lines that end in a backslash
    for number, line in enumerate(whole.splitlines(), 1):
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip()
            continue
        if fence in OTHER_LANGUAGES or (fence is None and not line.startswith("    ")):
            continue
        text = line.strip().removeprefix("$ ")
        if loop:
            loop[1].append(text)
            depth += text.startswith("for ") - (text == "done")
            if depth == 0:
                yield loop[0], "\n".join(loop[1])
                loop = []
            continue
        words = [word for word in text.split() if not re.match(r"[A-Z_]+=", word)]
        if not words or words[0] in NOT_COMMANDS:
            continue
        installed = re.fullmatch(r"[\w.+-]+", words[0]) and shutil.which(words[0])
        if not COMMANDS.match(words[0]) and not installed:
            continue
        if words[0] == "for":
            loop, depth = [number, [text]], 1
        else:
            yield number, text


def lines_of_manual():
    """Yields (number, command) of the manual page's examples."""
    lines = (ROOT / "docs/rondo.1").read_text(encoding="utf-8").splitlines()
    begin = lines.index(".SH EXAMPLES")
    for number, line in enumerate(lines[begin:lines.index(".fi", begin)], begin + 1):
        if line and line[0] not in ".#":
            yield number, line.replace("\\-", "-")


def lines_of_help(text):
    """Yields the examples of a --help: two spaces, the command, two more spaces, and an explanation."""
    for line in text.partition("\nExamples:\n")[2].splitlines():
        if re.match(r"  \S", line):
            yield re.split(r"  +", line.strip())[0].replace("4711", "PID")


def all_lines():
    docs = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    pages = ["README.md", "CONTRIBUTING.md", *docs]
    lines = [(f"{page}:{number}", text) for page in pages for number, text in lines_of(page)]
    return lines + [(f"docs/rondo.1:{number}", text) for number, text in lines_of_manual()]


class Commands(unittest.TestCase):
    ranks = ()  # the processes of the job for `rondo status`

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rondo-commands-")
        cls.addClassCleanup(folder.cleanup)
        cls.place = Path(folder.name) / "place"
        root = Path(folder.name) / "root"
        cls.place.mkdir()
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root], check=True,
                       timeout=120)
        package = next(root.rglob("rondo.pc"))
        cls.rondo = next(root.rglob("bin/rondo"))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        cls.environment = clean | {
            "PATH": f"{cls.rondo.parent}:{clean['PATH']}", "LD_LIBRARY_PATH": str(package.parents[1]),
            "PKG_CONFIG_PATH": str(package.parent), "PKG_CONFIG_SYSROOT_DIR": str(root),
            # These let Open MPI start as many ranks as the line says, also as root.
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        for name in ("scripts", "tests", "bench"):
            (cls.place / name).symlink_to(ROOT / name)
        (cls.place / "build").symlink_to(BUILD)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (cls.place / "all_reduce.c").write_text(re.search(r"```c\n(.*?)```", readme, re.S)[1], encoding="utf-8")
        # In pages, ./train stands for the reader's program. Here it is the README's program.
        cls.run_line("cc all_reduce.c -o train $(pkg-config --cflags --libs rondo)")
        cls.start_job()

    @classmethod
    def run_line(cls, line):
        # The line runs in its own session, so that its processes can be ended if it hangs.
        with subprocess.Popen(["bash", "-euc", line], cwd=cls.place, env=cls.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True) as running:
            try:
                said, _ = running.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                raise
        if running.returncode not in ALLOWED.get(" ".join(line.split()[:2]), {0}):
            raise AssertionError(f"{line}: status {running.returncode}\n{said}")
        return said

    @classmethod
    def start_job(cls):
        """Starts a job for `rondo status`, and stops its ranks after some operations, so that they leave the processors
        to the commands. The job's process ids and recording replace the pages'."""
        cls.job = subprocess.Popen([cls.rondo, "run", "-n", "2", "--", cls.rondo, "perf", "all_reduce", "-b", "1M",
                                    "-e", "1M", "-n", "1000000"], env=cls.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.end_job)
        told = cls.place / "status.json"
        deadline = time.monotonic() + LIMIT_SECONDS
        while not cls.ranks:
            done = subprocess.run([cls.rondo, "status", "--job", str(cls.job.pid), "--json", told], env=cls.environment,
                                  capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                ranks = json.loads(told.read_text(encoding="utf-8"))["communicators"][0]["ranks"]
                cls.ranks = [rank["process"] for rank in ranks if min(each["completed"] for each in ranks) > 0]
            if time.monotonic() > deadline:
                raise AssertionError(done.stderr)
            time.sleep(0.1)
        for rank in cls.ranks:
            os.kill(rank, signal.SIGSTOP)
        cls.run_line(f"rondo status --job {cls.job.pid} --dump FILE")
        shutil.copy(cls.place / "FILE", cls.place / "rondo-HOST-1.jsonl")

    @classmethod
    def end_job(cls):
        for rank in cls.ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal.SIGCONT)
        cls.job.terminate()
        cls.job.wait(timeout=60)

    def prepared(self, line):
        """Returns the line to run, with the job's process ids instead of PID, and with less work."""
        for pattern, replacement in SHORTER:
            line = re.sub(pattern, replacement, line)
        process = self.job.pid if "--job PID" in line else self.ranks[0]
        return re.sub(r"\bPID\b", str(process), line)

    def reason_to_skip(self, line):
        for pattern, reason in SKIPPED:
            if re.search(pattern, line):
                return reason
        if "rondo train" in line and not (self.rondo.parent / "rondo-train").exists():
            return "this build has no trainer"
        first = next(word for word in line.split() if not re.match(r"[A-Z_]+=", word))
        needed = [first, *re.findall(r"\| (\w+)", line)]
        missing = next((name for name in needed if name in ("jq", "mpirun", "dot") and not shutil.which(name)), None)
        return f"there is no {missing} here" if missing else None

    @classmethod
    def helps(cls):
        """Yields (place, command) of each command's examples."""
        commands = re.findall(r"^  (\w+) ", cls.run_line("rondo --help").partition("Commands:")[2], re.MULTILINE)
        for command in commands:
            if command != "train" or (cls.rondo.parent / "rondo-train").exists():
                yield from ((f"rondo {command} --help", line)
                            for line in lines_of_help(cls.run_line(f"rondo {command} --help")))

    def test_each_runs_as_it_stands(self):
        helps = list(self.helps())
        self.assertGreaterEqual(len({place for place, _ in helps}), 8)
        ran = set()  # lines without their comments
        for place, line in all_lines() + helps:
            reason = self.reason_to_skip(line)
            if reason:
                print(f"skipped: {place}: {line.splitlines()[0]}: {reason}", flush=True)
                continue
            prepared = self.prepared(line)
            if (words := re.sub(r" +# .*", "", prepared)) in ran:
                continue
            ran.add(words)
            print(f"{place}: {line}" + ("" if prepared == line else f"\n    shortened: {prepared}"), flush=True)
            with self.subTest(place=place):
                self.run_line(prepared)
        self.assertGreaterEqual(len(ran), 15)

    def test_each_line_of_the_tables_is_of_use(self):
        lines = [line for _, line in all_lines() + list(self.helps())]
        for pattern, _ in SKIPPED + SHORTER:
            self.assertTrue(any(re.search(pattern, line) for line in lines), pattern)

    def test_a_line_that_is_wrong_is_noticed(self):
        with self.assertRaises(AssertionError):
            self.run_line("rondo perf all_reduce --ranks 2 -e 64 --no-such-option")


if __name__ == "__main__":
    unittest.main(verbosity=2)
