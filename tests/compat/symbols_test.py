# SPDX-License-Identifier: Apache-2.0
"""Tests libnccl.so.2 as linked and as preloaded by a program: symbols_test.py LIBRARY CLIENT SOFT_CUDA. If NCCL's
header names a function that the library lacks, the test fails. RONDO_TEST_NCCL_HEADERS names more headers, with
colons between them, in addition to the headers that are found."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
USUAL_HEADERS = ("/usr/include/nccl.h", "/usr/local/include/nccl.h", "/usr/local/cuda/include/nccl.h")


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          env=os.environ | environment)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def listed():
    lines = (HERE / "symbols.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def wanted():
    return set(listed()) | {"p" + name for name in listed() if name != "ncclResetDebugInitInternal"}


def declared(text):
    """Returns the functions that a header declares."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", " ", text, flags=re.M)
    return set(re.findall(r"\b(p?nccl[A-Z]\w*)\s*\([^;{}]*\)\s*;", text))


class Library(unittest.TestCase):
    library, client, soft_cuda = "", "", ""

    def test_exactly_the_listed_names_are_exported_without_versions(self):
        lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", self.library).splitlines()
        self.assertEqual({line.split()[-1] for line in lines}, wanted())
        self.assertEqual(len(listed()), 97)
        self.assertEqual(listed(), sorted(set(listed())))

    def test_no_header_that_is_found_declares_more(self):
        named = os.environ.get("RONDO_TEST_NCCL_HEADERS", "").split(":")
        headers = [Path(name) for name in (*USUAL_HEADERS, *named) if name and Path(name).is_file()]
        if not headers:
            self.skipTest("no nccl.h is installed")
        for header in headers:
            names = declared(header.read_text(encoding="utf-8"))
            self.assertGreater(len(names), 60, header)
            self.assertEqual(names - wanted(), set(), header)

    def test_a_planted_declaration_is_found(self):
        text = "/* ncclOld(); */\n#define ncclMacro(x) f(x);\nncclResult_t  ncclNew(ncclComm_t comm,\n  int a);\nint x;"
        self.assertEqual(declared(text), {"ncclNew"})

    def test_it_has_the_name_of_nccl_and_needs_only_rondo_and_the_c_library(self):
        dynamic = run("readelf", "-d", self.library)
        self.assertRegex(dynamic, r"SONAME.*\[libnccl\.so\.2\]")
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
        self.assertIn("librondo.so.0", needed)
        self.assertEqual({name for name in needed if not re.fullmatch(r"lib[cm]\.so\.6|ld-linux[\w-]*\.so\.\d", name)},
                         {"librondo.so.0"})

    def test_preloaded_it_starts_no_thread_opens_no_driver_and_says_nothing(self):
        look = ("import ctypes, os; maps = open('/proc/self/maps').read();"
                "assert 'libnccl.so.2' in maps and 'softcuda' not in maps and 'libcuda' not in maps, maps;"
                "version = ctypes.c_int(); assert ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version)) == 0;"
                "maps = open('/proc/self/maps').read();"
                "print(version.value, len(os.listdir('/proc/self/task')), 'softcuda' in maps)")
        environment = {"LD_PRELOAD": self.library, "RONDO_CUDA_LIBRARY": self.soft_cuda, "RONDO_LOG": "debug"}
        self.assertEqual(run(sys.executable, "-c", look, **environment), "23007 1 False\n")
        self.assertEqual(run("sh", "-c", "true", **environment), "")

    def test_a_program_that_destroys_nothing_ends_and_is_told_nothing(self):
        # The library also prints nothing about a variable that only this library knows.
        for executor in ("kernel", "copy"):
            self.assertEqual(run(self.client, "leave", RONDO_NCCL_VERSION="2.28.9", RONDO_DEVICE_EXECUTOR=executor),
                             "done\n")


if __name__ == "__main__":
    Library.library, Library.client, Library.soft_cuda = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1], verbosity=2)
