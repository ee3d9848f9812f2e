# SPDX-License-Identifier: Apache-2.0
"""Tests `rondo nccl` and `rondo run --nccl`: command_test.py RONDO LIBRARY LIBRONDO."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RONDO, LIBRARY, LIBRONDO = "", "", ""
# The output is one write, since ranks share their standard output.
LOOK = ("import ctypes, os; version = ctypes.c_int(); ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version));"
        "os.write(1, f\"{os.environ['RONDO_RANK']} {version.value} {os.environ['LD_PRELOAD']}\\n\".encode())")


def rondo(*arguments, command=None, **environment):
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([command or RONDO, *arguments], capture_output=True, text=True, timeout=120,
                          env=clean | environment, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, done.stderr


class Command(unittest.TestCase):
    def test_it_prints_where_the_library_is(self):
        self.assertEqual(rondo("nccl"), (0, f"{LIBRARY}\n", ""))
        self.assertEqual(rondo("nccl", "--folder"), (0, f"{Path(LIBRARY).parent}\n", ""))
        status, out, err = rondo("nccl", "all")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("rondo nccl: ", err)

    def test_it_is_found_from_the_folder_of_librondo_as_in_a_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            command, libraries = Path(folder, "bin", "rondo"), Path(folder, "lib64", "packages", ".libs")
            for source, to in ((RONDO, command), (LIBRARY, libraries / "rondo" / "nccl" / "libnccl.so.2"),
                               (LIBRONDO, libraries / "librondo.so.0")):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, to)
            found = rondo("nccl", command=command, LD_LIBRARY_PATH=str(libraries))
            self.assertEqual(found, (0, f"{libraries}/rondo/nccl/libnccl.so.2\n", ""))
            (libraries / "rondo" / "nccl" / "libnccl.so.2").unlink()
            status, out, err = rondo("nccl", command=command, LD_LIBRARY_PATH=str(libraries))
            self.assertEqual((status, out), (1, ""))
            self.assertIn(f"there is no libnccl.so.2 beside {libraries}/librondo.so.0", err)

    def test_ranks_find_the_library_in_the_place_of_nccls(self):
        status, out, err = rondo("run", "--nccl", "-n", "2", "--", sys.executable, "-c", LOOK)
        self.assertEqual((status, sorted(out.splitlines()), err),
                         (0, [f"{rank} 23007 {LIBRARY}" for rank in (0, 1)], ""))

    def test_what_is_preloaded_otherwise_comes_behind_it(self):
        wanted = f"0 23007 {LIBRARY}:libm.so.6\n"
        words = ("--", sys.executable, "-c", LOOK)
        self.assertEqual(rondo("run", "--nccl", "-n", "1", *words, LD_PRELOAD="libm.so.6")[1], wanted)
        self.assertEqual(rondo("run", "-n", "1", "--nccl", "--env", "LD_PRELOAD=libm.so.6", *words)[1], wanted)

    def test_ranks_without_the_option_have_no_such_library(self):
        look = "import os; assert 'libnccl' not in open('/proc/self/maps').read() and 'LD_PRELOAD' not in os.environ"
        self.assertEqual(rondo("run", "-n", "1", "--", sys.executable, "-c", look), (0, "", ""))


if __name__ == "__main__":
    RONDO, LIBRARY = sys.argv[1], str(Path(sys.argv[2]).resolve())
    LIBRONDO = str(Path(sys.argv[3]).resolve())
    unittest.main(argv=sys.argv[:1], verbosity=2)
