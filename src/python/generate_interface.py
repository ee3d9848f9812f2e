# SPDX-License-Identifier: Apache-2.0
"""Writes rondo/_interface.py: the enumerations, structs and prototypes of the C API as Python has them.

usage: generate_interface.py CONSTANTS_JSON OUTPUT HEADER...

The numbers and layouts come from constants.json, and the prototypes from the headers. If the headers have a type of C
that this script does not know, the build fails."""

import json
import re
import sys
from pathlib import Path

SCALARS = {"int": "c_int", "unsigned": "c_uint", "size_t": "c_size_t", "int32_t": "c_int32", "uint32_t": "c_uint32",
           "int64_t": "c_int64", "uint64_t": "c_uint64", "double": "c_double"}
POINTERS = {"void": "c_void_p", "char": "c_char_p"}
BOUNDS = {"RONDO_OP_DYNAMIC", "RONDO_OP_LAST"}  # bounds of created operations, which are objects in Python
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""This module was generated from Rondo's public headers. It has the numbers, structs and prototypes of the C API."""
# pylint: disable=invalid-name,too-few-public-methods
from ctypes import (POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32,
                    c_uint64, c_void_p)
from enum import IntEnum

'''


def camel_case(name):
    """Returns the class of an enumeration: DeviceExecutor for rondo_device_executor_t."""
    return "".join(word.capitalize() for word in name[len("rondo_"):-len("_t")].split("_"))


def member(enum, name):
    """Returns the short name of an enumerator: TIMEOUT for RONDO_ERROR_TIMEOUT, RING for RONDO_ALGORITHM_RING."""
    for prefix in ("RONDO_ERROR_", enum[:-len("t")].upper(), "RONDO_"):
        if name.startswith(prefix):
            return name[len(prefix):]
    raise SystemExit(f"the enumerator {name} does not begin with RONDO_")


class Types:
    """The types of C that the headers declare, each with its name in Python."""

    def __init__(self, told, text):
        self.names = dict(SCALARS)
        self.names.update({enum: "c_int" for enum in told["enums"]})
        self.names.update({struct: struct for struct in told["structs"]})
        self.names.update({name: "c_void_p" for name in re.findall(r"typedef (?:struct \w+|void) \*(\w+);", text)})

    def python(self, declared):
        """Returns the type in Python of, for example, "const rondo_config_t *"."""
        base = " ".join(declared.replace("*", " ").replace("const", " ").split())
        stars = declared.count("*")
        if base in POINTERS and stars:
            name, stars = POINTERS[base], stars - 1
        elif base == "void":
            return "None"
        elif base == "char":
            name = "c_char"
        elif base in self.names:
            name = self.names[base]
        else:
            raise SystemExit(f"generate_interface.py does not know the type '{declared}' of the headers; add it there")
        return "POINTER(" * stars + name + ")" * stars


def prototypes(text):
    """Yields (name, result, arguments) of each function, with the declarations as C has them."""
    for result, name, arguments in re.findall(r"RONDO_API\s+([\w\s*]+?)\b(rondo_\w+)\s*\(([^)]*)\)", text):
        parts = [] if arguments.strip() == "void" else arguments.split(",")
        yield name, result, [re.sub(r"\w+\s*$", "", " ".join(part.split())) for part in parts]


def lines(told, text):
    """Yields the lines of the module."""
    types = Types(told, text)
    yield f"VERSION = {tuple(told['version'])}"
    for name, value in told["constants"].items():
        yield f"{name[len('RONDO_'):]} = {value}"
    for enum, values in told["enums"].items():
        yield f"\n\nclass {camel_case(enum)}(IntEnum):\n    \"\"\"The values of {enum}.\"\"\"\n"
        for name, value in values.items():
            if name not in BOUNDS:
                yield f"    {member(enum, name)} = {value}"
    for struct, layout in told["structs"].items():
        yield f"\n\nclass {struct}(Structure):\n    \"\"\"The layout of {struct}.\"\"\"\n"
        fields = [f'("{field["name"]}", {types.python(field["type"])}' +
                  (f' * {field["count"]})' if "count" in field else ")") for field in layout["fields"]]
        yield "    _fields_ = [\n        " + ",\n        ".join(fields) + ",\n    ]"
    yield "\n\nSTRUCTS = (" + ", ".join(told["structs"]) + ",)"
    yield "\n# The result and the arguments of each function.\nFUNCTIONS = {"
    for name, result, arguments in prototypes(text):
        given = "".join(f"{types.python(argument)}, " for argument in arguments).rstrip()
        yield f'    "{name}": ({types.python(result)}, ({given})),'
    yield "}"


def main():
    constants, output, *headers = map(Path, sys.argv[1:])
    text = re.sub(r"/\*.*?\*/", " ", "".join(path.read_text(encoding="utf-8") for path in headers), flags=re.S)
    told = json.loads(constants.read_text(encoding="utf-8"))
    output.write_text(HEAD + "\n".join(lines(told, text)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
