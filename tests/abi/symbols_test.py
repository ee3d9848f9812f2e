# SPDX-License-Identifier: Apache-2.0
"""Tests that librondo.so exports what symbols.txt lists and rondo.h declares: symbols_test.py LIBRARY VERSION."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = sorted((HERE.parents[1] / "include" / "rondo").glob("*.h"))
VERSION = "RONDO_0.1"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def exported(library):
    """Returns the names that the library exports, with their versions: {"rondo_barrier@@RONDO_0.1"}."""
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", str(library)).splitlines()
    symbols = {line.split()[-1] for line in lines if line.split()[-2] != "A"}
    return symbols


def constructors(library):
    """Names of the functions that run when the library is loaded: the targets of the relocations of .init_array."""
    section = re.search(r"\.init_array\s+INIT_ARRAY\s+(\w+)\s+\w+\s+(\w+)", run("readelf", "-SW", str(library)))
    start, size = (int(text, 16) for text in section.groups())
    symbols = [line.split() for line in run("nm", "--defined-only", str(library)).splitlines()]
    names = {int(symbol[0], 16): symbol[2] for symbol in symbols}
    found = re.findall(r"^([0-9a-f]{8,})\s.*\s([0-9a-f]+)$", run("readelf", "-rW", str(library)), re.M)
    return {names.get(int(target, 16), target) for at, target in found if start <= int(at, 16) < start + size}


def declared():
    text = "".join(path.read_text(encoding="utf-8") for path in HEADERS)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", " ", text, flags=re.M)
    return set(re.findall(r"\bRONDO_API\b[^;(]*?\b(\w+)\s*\(", text))


def listed():
    lines = (HERE / "symbols.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


class Symbols(unittest.TestCase):
    library = ""
    version = ""

    def test_the_list_is_sorted_and_names_each_function_of_the_header_once(self):
        self.assertEqual(listed(), sorted(set(listed())))
        self.assertEqual(set(listed()), declared())

    def test_exactly_the_listed_functions_are_exported_each_with_its_version(self):
        self.assertEqual({name for name in exported(self.library) if "RONDO_PRIVATE" not in name},
                         {f"{name}@@{VERSION}" for name in listed()})

    def test_one_more_is_for_a_command_of_exactly_this_version_and_in_no_header(self):
        private = {name for name in exported(self.library) if "RONDO_PRIVATE" in name}
        self.assertEqual(private, {f"rondo_private_kernels_image@@RONDO_PRIVATE_{self.version}"})
        self.assertNotIn("private", "".join(path.read_text(encoding="utf-8") for path in HEADERS))

    def test_no_code_of_rondo_runs_when_it_is_loaded(self):
        # A file of Rondo ends with .cpp, and a file of GCC's C++ runtime with .cc.
        allowed = r"frame_dummy|__cpu_indicator_init|_GLOBAL__sub_I_\w+\.cc"
        found = constructors(self.library)
        self.assertIn("frame_dummy", found)
        self.assertEqual({name for name in found if not re.fullmatch(allowed, name)}, set())

    def test_the_soname_says_the_abi_version(self):
        dynamic = run("readelf", "-d", self.library)
        self.assertRegex(dynamic, r"SONAME.*\[librondo\.so\.0\]")

    def test_it_needs_no_library_whose_name_changes_with_the_distribution(self):
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", self.library)))
        # The used parts of the C library, hwloc and libsodium, by their names on Debian 12 and Ubuntu 24.04. The C++
        # runtime (libstdc++, libgcc_s) is not among them, because it would have to be as new as the compiler's.
        c_library = {name for name in needed if re.fullmatch(r"lib[cm]\.so\.6|ld-linux[\w-]*\.so\.\d", name)}
        self.assertIn("libc.so.6", c_library)
        self.assertEqual(needed - c_library, {"libhwloc.so.15", "libsodium.so.23"})

    def test_it_asks_for_no_newer_c_library_than_debian_12_has_where_it_was_built_there(self):
        with open("/etc/os-release", encoding="utf-8") as file:
            if 'VERSION_ID="12"' not in file.read():
                self.skipTest("built elsewhere than on Debian 12, the older of the two")
        wanted = re.findall(r"@GLIBC_2\.(\d+)", run("readelf", "--dyn-syms", "--wide", self.library))
        self.assertTrue(wanted)
        self.assertLessEqual(max(map(int, wanted)), 36)


if __name__ == "__main__":
    Symbols.library, Symbols.version = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
