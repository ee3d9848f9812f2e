# SPDX-License-Identifier: Apache-2.0
"""Tests each program of examples/ by its first comment. The comment shows a command after "$", and the lines that the
command must print, in any order.

usage: examples_test.py RONDO FOLDER_OF_PROGRAMS LIBRARY SOFT_CUDA, with the Python package in PYTHONPATH"""

import importlib.util
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RONDO, PROGRAMS, LIBRARY, SOFT_CUDA = [os.path.abspath(path) for path in sys.argv[1:5]]
del sys.argv[1:5]
CONSTANTS = ROOT / "include/rondo/constants.json"
SANITIZED = "RONDO_TEST_SANITIZED" in os.environ
PACKAGES = ("numpy", "rondo")
RAW = "all_reduce.py"  # it calls the library by ctypes; the others use the package


def shown(source):
    """Returns the command and its lines, from a source's first comment."""
    head = re.match(r'/\*.*?\*/|# SPDX.*?""".*?"""', source.read_text(encoding="utf-8"), re.S).group(0)
    lines = [re.sub(r"^ \*", "", line) for line in head.splitlines()]
    begin = next(at for at, line in enumerate(lines) if line.lstrip().startswith("$ "))
    said = []
    for line in lines[begin + 1:]:
        if not line.startswith("    "):
            break
        said.append(line.strip())
    return lines[begin].strip()[2:].split(), said


class Examples(unittest.TestCase):
    def test_each_does_what_its_comment_shows(self):
        sources = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".c", ".cpp", ".py"))
        self.assertGreaterEqual(len(sources), 14)
        for source in sources:
            if SANITIZED and source.suffix == ".py":
                print(f"skipped: examples/{source.name}: Python cannot load a sanitized library")
                continue
            if source.suffix == ".py" and source.name != RAW and not all(map(importlib.util.find_spec, PACKAGES)):
                print(f"skipped: examples/{source.name}: {sys.executable} has not all of {', '.join(PACKAGES)}")
                continue
            with self.subTest(source=source.name):
                command, said = shown(source)
                self.assertTrue(said)
                files = {"rondo": RONDO, "python3": sys.executable, "LICENSE": str(ROOT / "LICENSE")}
                words = [files.get(word, word) for word in command]
                place = str(source) if source.suffix == ".py" else str(Path(PROGRAMS) / source.stem)
                words[words.index(Path(place).name)] = place
                if source.name == RAW:
                    self.assertLessEqual(len(source.read_text(encoding="utf-8").split('"""')[2].splitlines()), 25)
                    words += [LIBRARY, str(CONSTANTS)]
                done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False,
                                      env=dict(os.environ, RONDO_CUDA_LIBRARY=SOFT_CUDA,  # and its kernels
                                               PYTHONUNBUFFERED=""))  # otherwise a line is written in two pieces
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(said))

    def test_the_readmes_program_says_what_failed(self):
        command = [RONDO, "run", "-n", "2", "--env", "RONDO_CHANNELS=129", "--", Path(PROGRAMS) / "all_reduce"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("RONDO_CHANNELS: '129' is not a number from 1 to 128", done.stderr)

    @unittest.skipIf(SANITIZED, "Python cannot load a sanitized library")
    def test_a_python_program_is_told_what_failed(self):
        done = subprocess.run([sys.executable, ROOT / "examples/all_reduce.py", LIBRARY, CONSTANTS], text=True,
                              timeout=60, capture_output=True, check=False, env=dict(os.environ, RONDO_CHANNELS="129"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("RONDO_CHANNELS: '129' is not a number from 1 to 128", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
