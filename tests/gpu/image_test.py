# SPDX-License-Identifier: Apache-2.0
"""What the compiled kernels are: image_test.py NVCC REPORT IMAGE PTX ARCHITECTURES [TYPES].

No kernel may spill registers or use local memory (the report of ptxas), their inner loops must load and store 16 bytes
at a time, and every architecture must be in the image. PTX is looked at everywhere, machine code where there is
cuobjdump: beside nvcc, on PATH, or where scripts/setup puts it. TYPES: those that the image has, all unless named.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from kernel_listing import ENTRY_OF_PTX, PTX, SASS, bodies, inner_loops, moves_16_bytes, ptx_kernels, sass_kernels

ROOT = Path(__file__).resolve().parents[2]
IMAGE_BYTES_MOST = 20 * 1000 * 1000  # of a release image, and with it of librondo.so
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
LOADS_IN_FLIGHT = 4  # at least so many 16-byte loads in a loop that stores
PROTOCOLS = ("simple", "ll", "ll128")
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3", "float8_e5m2")
OPERATIONS = ("sum", "prod", "min", "max")


def kernel_names(types):
    for protocol in PROTOCOLS:
        yield f"rondo_run_{protocol}_copy"
        for name in types:
            for operation in OPERATIONS:
                yield f"rondo_run_{protocol}_{name}_{operation}"
    for stem in ("run_direct", "combine"):
        for name in types:
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


def loads_in_loop(name):
    """How many 16-byte loads one of a kernel's inner loops must have, beside a 16-byte store; 0: none must. Those of
    ll and ll128 wait in their innermost loops, for packets that bring their own flags."""
    if name.startswith(("rondo_run_ll_", "rondo_run_ll128_")):
        return 0
    return LOADS_IN_FLIGHT


class Image(unittest.TestCase):
    nvcc = report = image = ptx = None
    architectures = []
    types = TYPES

    def test_no_kernel_spills_or_uses_local_memory(self):
        found = resources(Path(self.report).read_text(encoding="utf-8"))
        wanted = {(name, f"sm_{each}") for name in kernel_names(self.types) for each in self.architectures}
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

    def check_accesses(self, name, code, syntax):
        text = "\n".join(line for _, line in code[0])
        self.assertRegex(text, syntax.load, name)
        self.assertRegex(text, syntax.store, name)
        self.assertNotRegex(text, syntax.local, name)
        loops, loads = inner_loops(code), loads_in_loop(name)
        self.assertTrue(loops, name)
        if loads != 0:
            self.assertTrue(any(moves_16_bytes(loop, syntax, loads) for loop in loops),
                            f"no inner loop of {name} has {loads} loads and a store of 16 bytes")

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time_in_ptx(self):
        kernels = ptx_kernels(Path(self.ptx).read_text(encoding="utf-8"))
        self.assertEqual(set(kernel_names(self.types)) - set(kernels), set())
        for name, code in kernels.items():
            self.check_accesses(name, code, PTX)

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time_in_machine_code(self):
        for architecture in self.architectures:
            kernels = sass_kernels(self.dump("-sass", "-arch", f"sm_{architecture}"))
            self.assertEqual({(architecture, name) for name in kernel_names(self.types)} - set(kernels), set())
            for (architecture, name), code in kernels.items():
                self.check_accesses(f"{name} for sm_{architecture}", code, SASS)
            print(f"sm_{architecture}: the machine code of {len(kernels)} kernels was read")

    def test_a_loop_of_small_accesses_would_be_seen(self):
        ptx = ("$L__BB0_1:\n ld.global.u32 %r1, [%rd1];\n st.global.v4.u32 [%rd2], {%r1,%r1,%r1,%r1};\n"
               "$L__BB0_2:\n ld.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];\n {{ld}}\n st.global.v2.b64 [%rd2], {%rd3, %rd4};\n"
               " @%p1 bra $L__BB0_2;\n @%p2 bra.uni $L__BB0_1;\n bra $L__BB0_3;\n$L__BB0_3:\n ret;\n")
        sass = (" Function : a\n /*0000*/ LDG.E R1, desc[UR4][R2.64] ; /* 0x1 */\n"
                " /*0010*/ LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ; /* 0x1 */\n /* 0x2 */\n {{ld}}\n"
                " /*0030*/ ST.E.128 desc[UR4][R2.64], R4 ;\n /*0040*/ @P0 BRA 0x10 ;\n"
                " /*0050*/ @!P1 BRA `(.L_x_1) ;\n.L_x_1:\n /*0060*/ BRA 0x60 ;\n")
        wide = {"ptx": "ld.relaxed.sys.global.v2.u64 {%rd5, %rd6}, [%rd1];", "sass": "/*0020*/ LD.E.128 R8, [R2] ;"}
        for two in (True, False):
            (code,) = [ptx_kernels(".entry a(\n" + ptx.replace("{{ld}}", wide["ptx"] if two else ""))["a"]]
            machine = sass_kernels(" code for sm_90\n" + sass.replace("{{ld}}", wide["sass"] if two else ""))["90", "a"]
            for each, syntax in ((code, PTX), (machine, SASS)):
                (loop,) = inner_loops(each)
                self.assertEqual(moves_16_bytes(loop, syntax, 2), two)
                self.assertTrue(moves_16_bytes(loop, syntax, 1))
        self.assertRegex("STL.64 [R1+0x8], R2", SASS.local)

    def test_lines_are_moved_by_16_bytes_of_each_thread(self):
        """ll128 lives on it, and on the orders of the first line, which no emulated block can miss."""
        kernels = bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX)
        for name, body in kernels.items():
            for access in ("st.relaxed", "st.release", "ld.relaxed", "ld.acquire"):
                found = f"{access}.sys.global.v2.b64" in body
                self.assertEqual(found, name.startswith("rondo_run_ll128_"), f"{access} in {name}")

    def test_every_architecture_is_in_the_image(self):
        listing = self.dump("--list-elf")
        for each in self.architectures:
            self.assertIn(f"sm_{each}", listing)

    def dump(self, *options):
        """What cuobjdump says of the image; skips the test where there is none."""
        folders = [os.path.dirname(os.path.realpath(self.nvcc)), str(ROOT / ".cache/cuda-tools/nvidia/cu13/bin"),
                   os.environ["PATH"]]
        tool = shutil.which("cuobjdump", path=os.pathsep.join(folders))
        if tool is None:
            self.skipTest("there is no cuobjdump to read machine code with: scripts/setup --all gets it")
        environment = dict(os.environ, PATH=os.path.dirname(tool) + os.pathsep + os.environ["PATH"])  # for nvdisasm
        done = subprocess.run([tool, *options, self.image], capture_output=True, text=True, check=True, env=environment)
        return done.stdout


if __name__ == "__main__":
    Image.nvcc, Image.report, Image.image, Image.ptx = sys.argv[1:5]
    Image.architectures = [name.partition("+")[0] for name in sys.argv[5].split(",")]
    if len(sys.argv) > 6:
        Image.types = sys.argv[6].split(",")
    unittest.main(argv=sys.argv[:1], verbosity=2)
