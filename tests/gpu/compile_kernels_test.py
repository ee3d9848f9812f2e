# SPDX-License-Identifier: Apache-2.0
"""Tests cuda/compile_kernels.py with a compiler that only counts its runs. If ccache is installed, images are kept.
A kept image is used if the compiler would make the same one. usage: compile_kernels_test.py COMPILE_KERNELS"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(sys.argv.pop(1)).resolve()
NVCC = """#!{python}
import os, sys
from pathlib import Path
words = sys.argv[1:]
after = lambda word: words[words.index(word) + 1]
if words == ["--version"]:
    print(Path("version").read_text())
elif "-M" in words:
    Path(after("-MF")).write_text("image: kernels.cu \\\\\\n a\\\\ header.h")
elif "error" in Path("kernels.cu").read_text():
    sys.exit("it is wrong")
else:
    with open("compiled", "a") as count:
        count.write("x")
    Path(after("-o")).write_text(" ".join(words[:words.index("--keep")]) + Path("a header.h").read_text())
    Path(after("--keep-dir"), "kernels.ptx").write_text("code")
    print("registers", file=sys.stderr)
"""


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        self.program("nvcc", NVCC.format(python=sys.executable))
        self.program("ccache", "#!/bin/sh\n")
        self.write("version", "release 13.0, V13.0.88")
        self.write("kernels.cu", "a kernel")
        self.write("a header.h", "a function")
        self.environment = dict(os.environ, PATH=f"{self.folder}/bin", XDG_CACHE_HOME=f"{self.folder}/cache")
        for name in ("CCACHE_DISABLE", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
            self.environment.pop(name, None)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def compile(self, *options, architectures="90", compiles=True, **environment):
        """Returns what was made. `compiles` says whether the compiler should make it."""
        made = [self.folder / name for name in ("image", "report", "ptx")]
        for path in made:
            path.unlink(missing_ok=True)
        count = self.folder / "compiled"
        count.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-B", SCRIPT, self.folder / "bin/nvcc", *made, self.folder / "image.d", self.folder,
             "kernels.cu", architectures, *options], cwd=self.folder, env={**self.environment, **environment},
            capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(count.exists(), compiles)
        return [path.read_text() for path in made]

    def test_the_same_is_compiled_once(self):
        first = self.compile()
        self.assertEqual(first[1:], ["registers\n", "code"])
        self.assertEqual(self.compile(compiles=False), first)

    def test_what_differs_is_compiled(self):
        self.compile()
        self.compile("-DRONDO_SAMPLE_KERNELS")
        self.compile(architectures="80,90")
        self.compile(NVCC_APPEND_FLAGS="-G")
        for name in ("version", "kernels.cu", "a header.h"):
            text = (self.folder / name).read_text()
            self.write(name, text + ", changed")
            changed = self.compile()
            self.write(name, text)
            self.assertEqual("changed" in changed[0], name == "a header.h")
            self.compile(compiles=False)

    def test_an_image_of_several_architectures_is_made_small(self):
        self.write("version", "release 12.8, V12.8.61")
        self.assertIn("--compress-mode=size", self.compile(architectures="80,90")[0])
        self.assertNotIn("--compress-mode", self.compile(architectures="90")[0])
        self.write("version", "release 12.4, V12.4.99")  # this version does not know the option
        self.assertNotIn("--compress-mode", self.compile(architectures="80,90")[0])

    def test_nothing_is_kept_without_ccache(self):
        self.compile(CCACHE_DISABLE="1")
        self.compile()
        (self.folder / "bin/ccache").unlink()
        self.compile()

    def test_the_oldest_are_given_up(self):
        for number in range(20):
            self.compile(f"-DNUMBER={number}")
        self.assertEqual(len(list((self.folder / "cache/rondo-kernels").iterdir())), 16)
        self.compile("-DNUMBER=19", compiles=False)
        self.compile("-DNUMBER=0")

    def test_what_cannot_be_kept_is_compiled_all_the_same(self):
        self.write("cache", "a file in the place of the folder")
        self.compile()
        self.compile()

    def test_an_error_is_told_and_not_kept(self):
        self.write("kernels.cu", "an error")
        for _ in range(2):
            with self.assertRaisesRegex(AssertionError, "it is wrong"):
                self.compile()


if __name__ == "__main__":
    unittest.main(verbosity=2)
