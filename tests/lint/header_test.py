# SPDX-License-Identifier: Apache-2.0
"""Tests rondo.h alone, as a user's compiler sees it: header_test.py CC CXX, each a command with its arguments."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
# The header comes first, since it must not depend on another header. It is included twice, which must also work.
PROGRAM = """#include "rondo/rondo.h"
#include "rondo/rondo.h"
int main(void) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  rondo_error_t error = RONDO_ERROR_INIT;
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
  return (int)(config.size + error.size + plan.size + properties.size + statistics.size) == 0;
}
"""


def compile_program(compiler, standard, suffix, program):
    """Returns the compiler's complaint, or an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"program{suffix}"
        source.write_text(program, encoding="utf-8")
        command = [*compiler, f"-std={standard}", *STRICT, f"-I{INCLUDE}", "-c", str(source), "-o", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return "" if done.returncode == 0 else done.stderr or f"status {done.returncode}"


class Header(unittest.TestCase):
    c_compiler = ["cc"]
    cpp_compiler = ["c++"]

    def test_compiles_alone_as_c(self):
        for standard in ("c11", "c17"):
            self.assertEqual(compile_program(self.c_compiler, standard, ".c", PROGRAM), "", standard)

    def test_its_parts_compile_alone(self):
        for part in sorted((INCLUDE / "rondo").glob("*.h")):
            program = f'#include "rondo/{part.name}"\n' * 2 + "int main(void) { return RONDO_OK; }\n"
            self.assertEqual(compile_program(self.c_compiler, "c11", ".c", program), "")
            self.assertEqual(compile_program(self.cpp_compiler, "c++11", ".cpp", program), "")

    def test_the_header_of_cpp_compiles_alone(self):
        program = '#include "rondo/rondo.hpp"\n' * 2 + "int main() { return rondo::type_of<int>() == RONDO_FLOAT32; }\n"
        for standard in ("c++17", "c++20"):
            self.assertEqual(compile_program(self.cpp_compiler, standard, ".cpp", program), "", standard)

    def test_compiles_alone_as_cpp(self):
        for standard in ("c++11", "c++14", "c++17", "c++20"):
            self.assertEqual(compile_program(self.cpp_compiler, standard, ".cpp", PROGRAM), "", standard)

    def test_a_program_that_is_wrong_does_not_compile(self):
        wrong = PROGRAM.replace("RONDO_CONFIG_INIT", "{ no_such_name }")
        self.assertNotEqual(compile_program(self.c_compiler, "c11", ".c", wrong), "")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Header.c_compiler, Header.cpp_compiler = sys.argv[1].split(), sys.argv[2].split()
    unittest.main(argv=sys.argv[:1], verbosity=2)
