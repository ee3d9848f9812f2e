# SPDX-License-Identifier: Apache-2.0
"""Tests include/rondo/constants.json. Other languages read it, and released 64-bit programs were compiled with
its values. It must have all sizes, offsets and values of the header. A changed value breaks the ABI: append
instead.

usage: constants_test.py CC"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"
TOLD = json.loads((INCLUDE / "rondo" / "constants.json").read_text(encoding="utf-8"))


def header():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((INCLUDE / "rondo").glob("*.h")))
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def assertions():
    """Yields one line of C for each constant. If the header lacks a name of the JSON, the line does not compile."""
    for name, value in zip(("MAJOR", "MINOR", "PATCH"), TOLD["version"]):
        yield f"RONDO_VERSION_{name} == {value}"
    for enum, values in TOLD["enums"].items():
        yield f"sizeof({enum}) == 4"
        for name, value in values.items():
            yield f"{name} == {value}"
    for name, value in TOLD["constants"].items():
        yield f"{name} == {value}"
    for name, struct in TOLD["structs"].items():
        yield f"sizeof({name}) == {struct['bytes']}"
        for field in struct["fields"]:
            place = f"(({name} *)0)->{field['name']}"
            yield f"offsetof({name}, {field['name']}) == {field['offset']}"
            yield f"sizeof({place}) == sizeof({field['type']}) * {field.get('count', 1)}"
    yield "sizeof(rondo_comm_t) == 8 && sizeof(rondo_stream_t) == 8 && sizeof(rondo_event_t) == 8"


def compiles(compiler, lines):
    program = '#include "rondo/rondo.h"\n' + "".join(f'_Static_assert({line}, "");\n' for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "constants.c"
        source.write_text(program, encoding="utf-8")
        done = subprocess.run([*compiler, "-std=c11", f"-I{INCLUDE}", "-fsyntax-only", str(source)], text=True,
                              capture_output=True, timeout=60, check=False)
    return done.returncode == 0, done.stderr


class Constants(unittest.TestCase):
    compiler = ["cc"]

    def test_they_are_those_of_the_header(self):
        right, complaint = compiles(self.compiler, assertions())
        self.assertTrue(right, complaint)

    def test_each_wrong_one_would_be_noticed(self):
        lines = list(assertions())
        self.assertGreater(len(lines), 120)
        for line in (lines[0], lines[len(lines) // 2]):
            self.assertFalse(compiles(self.compiler, [f"!({line})"])[0], line)

    def test_no_enumerator_constant_or_field_of_the_header_is_missing(self):
        text = header()
        enumerators = set(re.findall(r"\b(RONDO_\w+) = -?\d+", text))
        told = {name for values in TOLD["enums"].values() for name in values} | set(TOLD["constants"])
        self.assertEqual(enumerators - told, set())
        defined = set(re.findall(r"#define (RONDO_\w+) (?:\(-?\d+\)|\d+)\n", text))
        self.assertEqual({name for name in defined if "VERSION" not in name} - told, set())
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S):
            fields = re.findall(r"(\w+)(?:\[\w+\])?\s*[;,]", body)
            self.assertEqual(fields, [field["name"] for field in TOLD["structs"][name]["fields"]], name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Constants.compiler = sys.argv.pop(1).split()
    unittest.main(verbosity=2)
