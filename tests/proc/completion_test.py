# SPDX-License-Identifier: Apache-2.0
"""Tests completion by the shells: bash offers every command and every option of the help.

usage: completion_test.py RONDO"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RONDO = sys.argv.pop(1)
PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def help_of(*arguments):
    return subprocess.run([RONDO, *arguments, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def offered(*words):
    """Returns what bash offers for the last of these words, after the command."""
    script = '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rondo; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-euc", script, PACKAGING / "rondo.bash", RONDO, *words], capture_output=True,
                          text=True, timeout=60, check=True)
    return done.stdout.split()


class Bash(unittest.TestCase):
    commands = re.findall(r"^  (\w+) +\w", help_of(), re.M)

    def test_commands_are_offered(self):
        self.assertGreater(len(self.commands), 5)
        self.assertEqual(offered(""), [*self.commands, "help", "--help", "--version"])
        self.assertEqual(offered("s"), [name for name in self.commands if name.startswith("s")])
        self.assertEqual(offered("help", ""), self.commands)

    def test_every_option_of_every_command_is_offered(self):
        for command in self.commands:
            names = re.findall(r"^ +((?:-\w|--[\w-]+)(?:,-{1,2}[\w-]+)*)", help_of(command), re.M)
            options = {name for group in names for name in group.split(",")}
            self.assertIn("--help", options)
            self.assertEqual(set(offered(command, "-")), options)
            self.assertEqual(set(offered(command, "--he")), {name for name in options if name.startswith("--he")})

    def test_the_words_of_another_program_are_not_touched(self):
        self.assertEqual(offered("run", "-n", "2", "--", "ls", "-"), [])

    def test_values_are_those_that_the_command_knows(self):
        for words in (["perf"], ["schedule", "--algorithm"], ["schedule", "--algorithm", "ring", "--collective"],
                      ["sim", "--collective"], ["perf", "all_reduce", "--algorithm"], ["perf", "all_reduce", "-d"],
                      ["perf", "all_reduce", "--op"], ["perf", "all_reduce", "--protocol"],
                      ["perf", "all_reduce", "--kernel"], ["perf", "all_reduce", "--buffers"], ["train", "--model"]):
            said = subprocess.run([RONDO, *words, "x"], capture_output=True, text=True, timeout=60,
                                  check=False).stderr
            if "not in this build" in said:
                continue
            known = re.search(r"known are: ((?:\w+(?:, )?)+)", said)[1]
            self.assertEqual(set(offered(*words, "")), set(known.removesuffix(", and").split(", ")), words)
        self.assertEqual(offered("perf", "all"), ["all_reduce", "all_gather", "all_to_all"])
        self.assertEqual(offered("perf", "all_reduce", "all"), [])
        self.assertEqual(offered("run", "--bind", ""), ["share", "core", "none"])

    def test_the_help_is_read_once_in_a_shell(self):
        with tempfile.TemporaryDirectory() as folder:
            count = Path(folder, "count")
            program = Path(folder, "rondo")
            program.write_text(f'#!/bin/sh\necho x >> {count}\nexec {os.path.abspath(RONDO)} "$@"\n')
            program.chmod(0o755)
            script = ('. "$0"; for word in --a --b --c; do COMP_WORDS=("$1" perf $word); COMP_CWORD=2; _rondo; done; '
                      'echo "${COMPREPLY[@]}"')
            done = subprocess.run(["bash", "-euc", script, PACKAGING / "rondo.bash", program], capture_output=True,
                                  text=True, timeout=60, check=True)
            self.assertIn("--check", done.stdout)
            self.assertEqual(count.read_text(), "x\n" * 2)  # of rondo, and of rondo perf


class Zsh(unittest.TestCase):
    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_it_is_read_without_an_error(self):
        done = subprocess.run(["zsh", "-n", PACKAGING / "rondo.zsh"], capture_output=True, text=True, timeout=60,
                              check=False, env={**os.environ, "LC_ALL": "C"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
