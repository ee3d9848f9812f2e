#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the answers of `rondo`, and that its manual page names every command, option and variable."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from terminal import watched

RONDO = sys.argv.pop(1)
DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = DOCS / "rondo.1"


def rondo(*args):
    done = subprocess.run([RONDO, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def page_text(section=""):
    """Returns a section of the page, or all of it, without macros and escapes."""
    text = PAGE.read_text()
    if section:
        text = text.partition(f"\n.SH {section}\n")[2].partition("\n.SH ")[0]
    text = re.sub(r"\\f[BIRP]", "", text.replace("\\-", "-").replace('"', ""))
    return re.sub(r"^\.[A-Z]+ ?", "", text, flags=re.M)


def commands():
    return re.findall(r"^  (\w+) +\w", rondo("--help")[1], re.M)


class CommandTest(unittest.TestCase):
    def test_help_is_given_in_every_form(self):
        self.assertIn("run", commands())
        self.assertEqual(rondo("--help"), rondo("help"))
        for command in commands():
            status, out, err = rondo("help", command)
            self.assertEqual((status, err), (0, ""), command)
            self.assertEqual(rondo(command, "--help"), (0, out, ""))

    def test_every_help_has_groups_of_options_examples_and_no_words_of_the_parser(self):
        for command in commands():
            out = rondo("help", command)[1]
            if command == "train" and "not in this build" in out:
                continue
            self.assertNotRegex(out, r"\b(UINT|INT|FLOAT|TEXT)\b|REQUIRED|Excludes:|Positionals| in \[|:\{", command)
            self.assertIn(f"\nUsage: rondo {command} ", out)
            self.assertRegex(out, rf"\nExamples:\n(.*\n)*  .*\brondo {command} ")
            for name, text in re.findall(r"^  ((?:-\w,)?--[\w-]+)[^\n]*?(?:  +|\n +)(\S[^\n]*)", out, re.M):
                self.assertTrue(text, f"{command} {name}")
            options = len(re.findall(r"^  -", out, re.M))
            self.assertTrue(options < 7 or len(re.findall(r"^[A-Z][\w ]+:$", out, re.M)) > 3, command)
            self.assertLessEqual(max(map(len, out.splitlines())), 120, command)

    def test_help_fits_the_terminal_and_breaks_no_word(self):
        for command in [*commands(), None]:
            words = [RONDO, *([command] if command else []), "--help"]
            status, shown = watched(words, output=True, env={**os.environ, "COLUMNS": "80"})
            lines = shown.replace("\r", "").splitlines()
            self.assertEqual((status, [line for line in lines if len(line) > 80]), (0, []), command)
            self.assertEqual(" ".join(lines).split(), rondo(*words[1:])[1].split(), command)

    def test_output_for_scripts_and_pictures_is_asked_for_in_one_manner(self):
        with_json = [command for command in commands() if "--json" in rondo("help", command)[1]]
        self.assertEqual([name for name in with_json if name != "train"],
                         ["info", "perf", "schedule", "sim", "status", "tune"])
        for command in with_json:
            self.assertRegex(rondo("help", command)[1], r"\n  --json \[FILE\] +\S", command)
        for command in ("perf", "schedule", "sim"):
            self.assertRegex(rondo("help", command)[1], r"\n  --plot(,--sweep)? FILE +[^\n]*into", command)
        for command in ("perf", "sim"):
            self.assertRegex(rondo("help", command)[1], r"\n  --chunk-bytes SIZE ")

    def test_version(self):
        status, out, err = rondo("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^rondo \d+\.\d+\.\d+\n$")
        self.assertIn("Rondo " + out.split()[1], PAGE.read_text())

    def test_an_unknown_command_is_refused_with_those_there_are(self):
        for args in (["walk"], ["help", "walk"]):
            status, out, err = rondo(*args)
            self.assertEqual((status, out), (2, ""))
            self.assertEqual(err, f"rondo: unknown command 'walk'; known are: {', '.join(commands())}. "
                                  "See rondo --help.\n")
        self.assertEqual(rondo()[0], 2)


class ManualTest(unittest.TestCase):
    def test_the_page_renders_without_a_warning(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", PAGE], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_page_has_every_command_and_option(self):
        missing = []
        for command in commands():
            text = page_text(f"RONDO {command.upper()}")
            if not text:
                missing.append(command)
            options = re.findall(r"^ +((?:-\w|--[\w-]+)(?:,-{1,2}[\w-]+)*)", rondo("help", command)[1], re.M)
            self.assertTrue(options)
            missing += [f"{command} {name}" for names in options for name in names.split(",")
                        if name not in ("-h", "--help") and not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]
        self.assertEqual(missing, [])

    def test_the_page_has_no_option_and_no_variable_that_is_not_there(self):
        text = PAGE.read_text()
        stale = []
        for command in commands():
            section = text.partition(f"\n.SH RONDO {command.upper()}\n")[2].partition("\n.SH ")[0]
            heads = "\n".join(re.findall(r"^\.TP\n(.*)$", section, re.M))
            heads = re.sub(r"\\f[BIRP]|\"", "", heads.replace("\\-", "-"))
            out = rondo("help", command)[1]
            if "not in this build" in out:
                continue
            stale += [f"{command} {name}" for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", heads)
                      if not re.search(rf"(?<![\w-]){name}(?![\w-])", out)]
        self.assertEqual(stale, [])
        told = (DOCS / "environment.md").read_text() + (DOCS / "launching.md").read_text()
        named = set(re.findall(r"\bRONDO_[A-Z_]+\b", page_text()))
        self.assertEqual({name for name in named if name not in told}, set())

    def test_the_page_has_every_variable(self):
        settings = re.findall(r"^\| `(RONDO_\w+)` \|", (DOCS / "environment.md").read_text(), re.M)
        self.assertGreater(len(settings), 10)
        self.assertEqual([name for name in settings if name not in page_text()], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
