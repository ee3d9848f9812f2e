# SPDX-License-Identifier: Apache-2.0
"""What the compiled kernels are: image_test.py NVCC REPORT IMAGE PTX ARCHITECTURES.

No kernel may spill registers or use local memory (the report of ptxas), their inner loops must load and store 16 bytes
at a time, and every architecture must be in the image. Machine code is looked at where cuobjdump is installed beside
nvcc or on PATH; elsewhere PTX is.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

IMAGE_BYTES_MOST = 20 * 1000 * 1000  # of a release image, and with it of librondo.so
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
ENTRY_OF_PTX = re.compile(r"^\s*(?:\.visible )?\.entry (\w+)", re.M)
PROTOCOLS = ("simple", "ll", "ll128")
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3", "float8_e5m2")
OPERATIONS = ("sum", "prod", "min", "max")


def kernel_names():
    for protocol in PROTOCOLS:
        yield f"rondo_run_{protocol}_copy"
        for name in TYPES:
            for operation in OPERATIONS:
                yield f"rondo_run_{protocol}_{name}_{operation}"
    for stem in ("run_direct", "combine"):
        for name in TYPES:
            for operation in OPERATIONS:
                yield f"rondo_{stem}_{name}_{operation}"


def resources(report):
    """(kernel, architecture) -> [stack bytes, spill stores, spill loads, registers], from what ptxas -v said."""
    found, current = {}, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            current = found.setdefault((match[1], match[2]), [])
        elif current is not None and not current and (match := FRAME.search(line)):
            current += [int(number) for number in match.groups()]
        elif current is not None and len(current) == 3 and (match := REGISTERS.search(line)):
            current.append(int(match[1]))
    return found


def bodies(text, begin):
    """Name -> text of each kernel, in a listing where `begin` matches its first line."""
    starts = list(begin.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.start():end] for match, end in zip(starts, ends)}


class Image(unittest.TestCase):
    nvcc = report = image = ptx = None
    architectures = []

    def test_no_kernel_spills_or_uses_local_memory(self):
        found = resources(Path(self.report).read_text(encoding="utf-8"))
        wanted = {(name, f"sm_{each}") for name in kernel_names() for each in self.architectures}
        self.assertEqual(wanted - set(found), set())
        wrong = {key: values for key, values in found.items() if values[:3] != [0, 0, 0]}
        self.assertEqual(wrong, {}, "stack bytes, spill stores, spill loads, registers")
        most = max(values[3] for values in found.values())
        self.assertLessEqual(most, 128, "512 threads a block need registers, too")
        print(f"{len(found)} kernels, at most {most} registers, {Path(self.image).stat().st_size} bytes")

    def test_a_spill_would_be_seen(self):
        report = ("ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
                  "ptxas info    : Function properties for a\n"
                  "    288 bytes stack frame, 264 bytes spill stores, 560 bytes spill loads\n"
                  "ptxas info    : Used 128 registers, used 16 barriers\n")
        self.assertEqual(resources(report), {("a", "sm_90"): [288, 264, 560, 128]})

    def test_the_image_is_small_enough(self):
        self.assertLess(Path(self.image).stat().st_size, IMAGE_BYTES_MOST)

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time(self):
        tool = self.disassembler()
        if tool is not None:
            text = subprocess.run([tool, "-sass", self.image], capture_output=True, text=True, check=True).stdout
            kernels = bodies(text, re.compile(r"^\s*Function : (\w+)", re.M))
            load, store = r"\bLDG?\.E\S*\.128|\bLD\.E\S*128", r"\bSTG?\.E\S*\.128|\bST\.E\S*128"
            local = r"\b(LDL|STL)\b"
        else:
            print("skipped: machine code of the kernels: no cuobjdump here; their PTX was looked at instead")
            kernels = bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX)
            load = r"\bld(\.global)?\.v(4\.\w32|2\.\w64)"
            store = r"\bst(\.global)?\.v(4\.\w32|2\.\w64)"
            local = r"\.local\b"
        self.assertEqual(set(kernel_names()) - set(kernels), set())
        for name, body in kernels.items():
            self.assertRegex(body, load, name)
            self.assertRegex(body, store, name)
            self.assertNotRegex(body, local, name)

    def test_lines_are_moved_by_16_bytes_of_each_thread(self):
        """ll128 lives on it, and on the orders of the first line, which no emulated block can miss."""
        kernels = bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX)
        for name, body in kernels.items():
            for access in ("st.relaxed", "st.release", "ld.relaxed", "ld.acquire"):
                found = f"{access}.sys.global.v2.b64" in body
                self.assertEqual(found, name.startswith("rondo_run_ll128_"), f"{access} in {name}")

    def test_every_architecture_is_in_the_image(self):
        tool = self.disassembler()
        if tool is None:
            self.skipTest("no cuobjdump here")
        listing = subprocess.run([tool, "--list-elf", self.image], capture_output=True, text=True, check=True).stdout
        for each in self.architectures:
            self.assertIn(f"sm_{each}", listing)

    def disassembler(self):
        return shutil.which("cuobjdump", path=os.path.dirname(os.path.realpath(self.nvcc)) + os.pathsep
                            + os.environ["PATH"])


if __name__ == "__main__":
    Image.nvcc, Image.report, Image.image, Image.ptx = sys.argv[1:5]
    Image.architectures = [name.partition("+")[0] for name in sys.argv[5].split(",")]
    unittest.main(argv=sys.argv[:1], verbosity=2)
