# SPDX-License-Identifier: Apache-2.0
"""Tests that the Python package has the numbers, layouts and prototypes of the C headers.

usage: interface_test.py CC"""

import ctypes
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from rondo import _interface

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/python"))
import generate_interface  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
COMPILER = sys.argv.pop(1).split()
C_TYPES = {ctypes.c_int: "int", ctypes.c_uint: "unsigned", ctypes.c_size_t: "size_t", ctypes.c_uint64: "uint64_t",
           ctypes.c_int64: "int64_t", ctypes.c_double: "double", ctypes.c_void_p: "void *",
           ctypes.c_char_p: "char *", None: "void"}


def lines():
    """Yields an assertion of C for each number and place of the package."""
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), _interface.VERSION):
        yield f"RONDO_VERSION_{name} == {number}"
    for enum in (each for each in vars(_interface).values() if isinstance(each, type)
                 and issubclass(each, _interface.IntEnum) and each is not _interface.IntEnum):
        for member in enum:
            yield f"{c_name(enum, member.name)} == {int(member)}"
    for name in ("DEVICE_HOST", "UNIQUE_ID_BYTES", "REGISTER_MOVE_PAGES", "SIGNAL_COUNT",
                 "STATISTICS_COLLECTIVES", "WINDOW_SYMMETRIC"):
        yield f"RONDO_{name} == {getattr(_interface, name)}"
    for struct in _interface.STRUCTS:
        yield f"sizeof({struct.__name__}) == {ctypes.sizeof(struct)}"
        for name, type_ in struct._fields_:
            yield f"offsetof({struct.__name__}, {name}) == {getattr(struct, name).offset}"
            yield f"sizeof((({struct.__name__} *)0)->{name}) == {ctypes.sizeof(type_)}"


def c_name(enum, member):
    """Returns the enumerator's name in C."""
    prefixes = {"Status": "" if member in ("OK", "NOT_READY") else "ERROR_", "Algorithm": "ALGORITHM_",
                "Protocol": "PROTOCOL_", "Kernel": "KERNEL_", "DeviceExecutor": "DEVICE_EXECUTOR_",
                "Residence": "RESIDENCE_"}
    return f"RONDO_{prefixes.get(enum.__name__, '')}{member}"


def c_kind(type_):
    """Returns the C type as which the package passes an argument."""
    return C_TYPES.get(type_, "void *")


def call(name):
    """Returns a function of C that passes values of the package's types to the function `name`."""
    arguments = [c_kind(type_) for type_ in _interface.FUNCTIONS[name][1]]
    taken = ", ".join(f"{kind} a{at}" for at, kind in enumerate(arguments)) or "void"
    return f"void call_{name}({taken}) {{ (void){name}({', '.join(f'a{at}' for at in range(len(arguments)))}); }}\n"


def complaint(program):
    """Returns what the compiler says about a program, or an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "numbers.c"
        source.write_text(program, encoding="utf-8")
        done = subprocess.run([*COMPILER, "-std=c11", "-Werror=conversion", "-Werror=int-conversion",
                               "-Wno-incompatible-pointer-types", f"-I{ROOT / 'include'}",
                               "-fsyntax-only", str(source)], text=True, capture_output=True, timeout=60, check=False)
    return done.stderr if done.returncode else ""


def assertions(conditions):
    return '#include "rondo/rondo.h"\n' + "".join(f'_Static_assert({each}, "");\n' for each in conditions)


class Interface(unittest.TestCase):
    def test_numbers_and_layouts_are_those_of_the_headers(self):
        found = list(lines())
        self.assertGreater(len(found), 150)
        self.assertEqual(complaint(assertions(found)), "")
        for wrong in (found[0], found[20], found[-1]):
            self.assertNotEqual(complaint(assertions([f"!({wrong})"])), "")

    def test_no_enumerator_is_missing(self):
        told = (ROOT / "include/rondo/constants.json").read_text(encoding="utf-8")
        for enum, values in generate_interface.json.loads(told)["enums"].items():
            made = getattr(_interface, generate_interface.camel_case(enum))
            wanted = [value for name, value in values.items() if name not in generate_interface.BOUNDS]
            self.assertEqual([int(each) for each in made], wanted, enum)

    def test_functions_are_those_that_the_library_exports(self):
        exported = {line.split()[-1] for line in (ROOT / "tests/abi/symbols.txt").read_text().splitlines()
                    if line.strip() and not line.startswith("#")}
        self.assertEqual(set(_interface.FUNCTIONS), {name for name in exported if name.startswith("rondo_")})

    def test_each_function_is_called_by_the_package(self):
        text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/python/rondo").glob("*.py"))
        called = set(re.findall(r"\b(?:C|library)\.(rondo_\w+)", text))
        # Some functions need no method: ctypes and IntEnum have defaults and names, rondo_comm_last_error() the text,
        # and rondo_comm_init_ids() takes one id, too.
        needless = {name for name in _interface.FUNCTIONS
                    if re.search(r"(_default|_string|_error_message|^rondo_comm_init)$", name)}
        self.assertEqual(set(_interface.FUNCTIONS) - called - needless, set(), "give each a method")

    def test_each_argument_has_the_size_and_the_kind_that_c_has(self):
        include = '#include "rondo/rondo.h"\n'
        self.assertEqual(complaint(include + "".join(map(call, _interface.FUNCTIONS))), "")
        sound = call("rondo_send")
        for right, wrong in (("a0, a1", "a0"), ("int a3", "size_t a3"), ("void * a0", "int a0")):
            self.assertIn(right, sound)
            self.assertNotEqual(complaint(include + sound.replace(right, wrong)), "", wrong)

    def test_a_type_that_the_generator_does_not_know_ends_the_build(self):
        told = {"version": [0, 1, 0], "constants": {}, "enums": {}, "structs": {}}
        with self.assertRaisesRegex(SystemExit, "strange_t"):
            list(generate_interface.lines(told, "RONDO_API int rondo_new(strange_t value) RONDO_NOEXCEPT;"))
        known = "\n".join(generate_interface.lines(told, "RONDO_API void *rondo_new(const size_t *value, int x);"))
        self.assertIn('"rondo_new": (c_void_p, (POINTER(c_size_t), c_int,))', known)


if __name__ == "__main__":
    unittest.main(verbosity=2)
