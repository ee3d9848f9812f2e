# SPDX-License-Identifier: Apache-2.0
"""What librondo.so offers to others: symbols_test.py LIBRARY. symbols.txt is the contract, rondo.h the promise."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include" / "rondo" / "rondo.h"
VERSION = "RONDO_0.1"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def exported(library):
    """Names that the dynamic linker gives to others, with their version: {"rondo_barrier@@RONDO_0.1"}."""
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", str(library)).splitlines()
    symbols = {line.split()[-1] for line in lines if line.split()[-2] != "A"}
    return symbols


def declared():
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", " ", text, flags=re.M)
    return set(re.findall(r"\bRONDO_API\b[^;(]*?\b(\w+)\s*\(", text))


def listed():
    lines = (HERE / "symbols.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


class Symbols(unittest.TestCase):
    library = ""

    def test_the_list_is_sorted_and_names_each_function_of_the_header_once(self):
        self.assertEqual(listed(), sorted(set(listed())))
        self.assertEqual(set(listed()), declared())

    def test_exactly_the_listed_functions_are_exported_each_with_its_version(self):
        self.assertEqual(exported(self.library), {f"{name}@@{VERSION}" for name in listed()})

    def test_the_soname_says_the_abi_version(self):
        dynamic = run("readelf", "-d", self.library)
        self.assertRegex(dynamic, r"SONAME.*\[librondo\.so\.0\]")

    def test_it_needs_no_library_whose_name_changes_with_the_distribution(self):
        needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", self.library))
        self.assertIn("libhwloc.so.15", needed)
        # The C and C++ run time of the compiler, hwloc and libsodium: of these names on Debian 12 and Ubuntu 24.04.
        allowed = r"lib(c|m|gcc_s|stdc\+\+|hwloc|sodium)\.so\.\d+|ld-linux[\w-]*\.so\.\d+"
        self.assertEqual([name for name in needed if not re.fullmatch(allowed, name)], [])


if __name__ == "__main__":
    Symbols.library = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
