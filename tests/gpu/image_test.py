# SPDX-License-Identifier: Apache-2.0
"""Checks the compiled kernels: image_test.py NVCC REPORT IMAGE PTX ARCHITECTURES [TYPES].

No kernel may spill registers or use local memory (the report of ptxas). Their inner loops must load and store 16 bytes
at a time. Every architecture must be in the image, and PTX where it was asked for. The test reads PTX everywhere, and
machine code where there is cuobjdump: beside nvcc, on PATH, or where scripts/setup puts it. TYPES are the types that
the image has, by default all.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from collections import defaultdict
from pathlib import Path

from kernel_listing import (ENTRY_OF_PTX, LOOK, PTX, SASS, accesses_in_loops, bodies, inner_loops, loads_for_next_time,
                            loads_under_way, looks_under_way, loops_of, ptx_kernels, sass_kernels, words_under_way)

ROOT = Path(__file__).resolve().parents[2]
IMAGE_BYTES_MAX = 20 * 1000 * 1000  # of a release image, and with it of librondo.so
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
FLAG_STORE = re.compile(r"\bst\.(relaxed|release)\.sys\.b64\s+\[([^]]+)\]")
FENCE = re.compile(r"\b(?:fence|membar)\.[\w.]+")
POST = re.compile(r"\bST\.E\.128\.STRONG\b")
POST_INSTRUCTIONS_MAX = 85  # 71 to 74 for sm_90; 168 where posts are not short
TURN_INSTRUCTIONS_MAX, LATER_TURN_INSTRUCTIONS_MAX = 65, 80  # 43 to 61 for sm_90, 59 to 77 from 100 on; else 81 to 95
PROTOCOLS = ("simple", "ll")
IN_BUFFERS = ("rondo_run_load_store_", "rondo_run_joint_")  # they reduce and copy by the same loops
WORDS_UNDER_WAY = 7  # of a joint kernel: of the 8 ranks that it can have, before the first is used
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3", "float8_e5m2")
OPERATIONS = ("sum", "prod", "min", "max")


def kernel_names(types):
    for protocol in PROTOCOLS:
        yield f"rondo_run_{protocol}_copy"
        for name in types:
            for operation in OPERATIONS:
                yield f"rondo_run_{protocol}_{name}_{operation}"
    yield "rondo_run_load_store_copy"
    yield "rondo_run_joint_copy"
    for stem in ("run_load_store", "run_one_shot", "run_joint", "reduce"):
        for name in types:
            for operation in OPERATIONS:
                yield f"rondo_{stem}_{name}_{operation}"


def resources(report):
    """Returns (kernel, architecture) -> [stack bytes, spill stores, spill loads, registers], from ptxas -v."""
    found, current = {}, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            current = found.setdefault((match[1], match[2]), [])
        elif current is not None and not current and (match := FRAME.search(line)):
            current += [int(number) for number in match.groups()]
        elif current is not None and len(current) == 3 and (match := REGISTERS.search(line)):
            current.append(int(match[1]))
    return found


SOME, NONE = range(1, 1000), range(1)
# Loads of a thread before it uses the first: with 256 threads of a block on each multiprocessor, 32 KiB.
LOADS_UNDER_WAY = 8


def at_least(count):
    return range(count, 1000)


def wanted_loops(name):
    """(how many, loads, stores) of the inner loops that a kernel must have, at least, by their 16-byte accesses: what
    copies has four loads in flight, what reduces two operands twice as many, where registers allow it; more operands
    are reduced by a loop of its own; ll waits for packets in a loop that only loads (one for both peers, at each of
    which it looks by up to three loads), and sends in one that only stores; load_store reads all ranks'
    operands in loops that only load, several pieces of several ranks at a time; one_shot looks at them."""
    narrow = "int8" in name or "float8" in name  # each 16-byte access has 16 elements, which take registers
    if name.startswith(IN_BUFFERS) and name.endswith("_copy"):  # by turns to each output, inside of the loop that loads
        return [(1, NONE, at_least(LOADS_UNDER_WAY))]
    if name.startswith("rondo_run_one_shot_"):
        return [(1, range(looks, looks + 1), NONE) for looks in looks_of(name)]
    if name.startswith(IN_BUFFERS):
        # Small elements are reduced by a loop inside of the one that loads. What goes through places is copied, too.
        copies = [] if name.startswith("rondo_run_joint_") else [(2, at_least(4), SOME)]
        return copies + ([] if narrow or "float16" in name else [(2, at_least(8), NONE)])
    wanted = [(1, at_least(4), SOME)]
    if not name.endswith("_copy"):
        wanted = [(3, at_least(4), SOME), (1, at_least(4 if narrow else 6 if "float64" in name else 8), SOME)]
    if name.startswith("rondo_run_ll_"):
        wanted += [(1, at_least(4), NONE), (1, NONE, SOME)]
    return wanted


def reduces_pairs(name):
    """Returns whether it reduces two ranks by a loop over the outputs that loads the next turn's operands before it
    stores this one's results."""
    return not name.endswith("_copy") and any(wide in name for wide in ("int32", "int64", "float32", "float64"))


def looks_of(name):
    """Returns the numbers of polls of ranks' words in a one_shot that a kernel makes before it waits for the first.
    They are for two, four or eight ranks that post shortly, and for any number of them."""
    return [3] if "int8" in name or "float8" in name else [2, 4, 8, 8]


def has_short_posts(name):
    return len(looks_of(name)) > 1


def wanted_ahead(name, architecture):
    """Returns, likewise, how many loads are for the next time in loops that load and store. A compiler may put the
    loads of the last turn, one of four, at the loop's beginning. Kernels that reduce 8-bit types have no registers for
    it, nor do kernels for later architectures."""
    if int(architecture) >= 100:
        return []
    if "int8" in name or "float8" in name:
        return [] if name.startswith("rondo_reduce_") else [(1, at_least(3), SOME)]
    return [(count, at_least(loads.start - loads.start // 4), stores) for count, loads, stores in wanted_loops(name)
            if stores is SOME]


def missing_loops(loops, wanted):
    """Returns what of `wanted` is not among (loads, stores) of each loop."""
    return [(count, loads, stores) for count, loads, stores in wanted
            if sum(found in loads and written in stores for found, written in loops) < count]


class Image(unittest.TestCase):
    nvcc = report = image = ptx = None
    architectures, with_ptx = [], []
    types = TYPES

    def test_no_kernel_spills_or_uses_local_memory(self):
        found = resources(Path(self.report).read_text(encoding="utf-8"))
        wanted = {(name, f"sm_{each}") for name in kernel_names(self.types) for each in self.architectures}
        self.assertEqual(wanted - set(found), set())
        wrong = {key: values for key, values in found.items() if values[:3] != [0, 0, 0]}
        self.assertEqual(wrong, {}, "stack bytes, spill stores, spill loads, registers")
        most = max(values[3] for values in found.values())
        self.assertLessEqual(most, 128, "two blocks of 256 threads need registers, too")
        print(f"{len(found)} kernels, at most {most} registers, {Path(self.image).stat().st_size} bytes")

    def test_a_spill_would_be_seen(self):
        report = ("ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
                  "ptxas info    : Function properties for a\n"
                  "    288 bytes stack frame, 264 bytes spill stores, 560 bytes spill loads\n"
                  "ptxas info    : Used 128 registers, used 16 barriers\n")
        self.assertEqual(resources(report), {("a", "sm_90"): [288, 264, 560, 128]})

    def test_the_image_is_small_enough(self):
        self.assertLess(Path(self.image).stat().st_size, IMAGE_BYTES_MAX)

    def check_accesses(self, name, code, syntax, where):
        text = "\n".join(line for _, line in code[0])
        self.assertRegex(text, syntax.load, where)
        self.assertRegex(text, syntax.store, where)
        self.assertNotRegex(text, syntax.local, where)
        loops = accesses_in_loops(code, syntax)
        self.assertEqual(missing_loops(loops, wanted_loops(name)), [], f"{where} has loops with {loops}")

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time_in_ptx(self):
        kernels = ptx_kernels(Path(self.ptx).read_text(encoding="utf-8"))
        self.assertEqual(set(kernel_names(self.types)) - set(kernels), set())
        for name, code in kernels.items():
            self.check_accesses(name, code, PTX, name)

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time_in_machine_code(self):
        for architecture in self.architectures:
            kernels = sass_kernels(self.dump("-sass", "-arch", f"sm_{architecture}"))
            self.assertEqual({(architecture, name) for name in kernel_names(self.types)} - set(kernels), set())
            for (architecture, name), code in kernels.items():
                self.check_accesses(name, code, SASS, f"{name} for sm_{architecture}")
                if name.startswith(IN_BUFFERS):
                    most = loads_under_way(code) + (1 if name == "rondo_run_joint_copy" else 0)  # stores one before
                    self.assertGreaterEqual(most, LOADS_UNDER_WAY, f"{name} for sm_{architecture}")
                    if reduces_pairs(name):
                        ahead = max(loads_for_next_time(loop) for loop, has_others in loops_of(code) if has_others)
                        self.assertGreaterEqual(ahead, LOADS_UNDER_WAY, f"{name} for sm_{architecture}")
                    if name.startswith("rondo_run_joint_") and not name.endswith("_copy") and has_short_posts(name):
                        self.assertGreaterEqual(words_under_way(code), WORDS_UNDER_WAY, f"{name} for sm_{architecture}")
                elif name.startswith("rondo_run_one_shot_"):
                    self.assertEqual(sorted(looks_under_way(code)), looks_of(name), f"{name} for sm_{architecture}")
                    if has_short_posts(name):
                        self.check_length(code, architecture, f"{name} for sm_{architecture}")
                else:
                    ahead = [(loads_for_next_time(loop), len(SASS.store.findall(loop))) for loop in inner_loops(code)]
                    self.assertEqual(missing_loops(ahead, wanted_ahead(name, architecture)), [],
                                     f"{name} for sm_{architecture}: {ahead}")
            print(f"sm_{architecture}: the machine code of {len(kernels)} kernels was read")

    def check_length(self, code, architecture, where):
        """Checks instructions, since a short post takes as long as its instructions. They are the ones before it, and
        of a turn that polls eight ranks."""
        lines, _ = code
        post = next(number for number, (_, line) in enumerate(lines) if POST.search(line))
        turns = [len(loop.splitlines()) for loop in inner_loops(code) if len(LOOK.findall(loop)) == 8]
        self.assertLess(post, POST_INSTRUCTIONS_MAX, where)
        most = TURN_INSTRUCTIONS_MAX if int(architecture) < 100 else LATER_TURN_INSTRUCTIONS_MAX
        self.assertLess(min(turns), most, where)

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
                self.assertEqual(accesses_in_loops(each, syntax), [(2 if two else 1, 1)])
        self.assertRegex("STL.64 [R1+0x8], R2", SASS.local)

    def test_a_loop_is_seen_whole_whose_parts_lie_behind_another(self):
        load, store = " ld.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];\n", " st.global.v2.b64 [%rd2], {%rd3, %rd4};\n"
        ptx = (f".entry a(\n$L_1:\n{load} @%p1 bra $L_3;\n bra.uni $L_4;\n"
               f"$L_2:\n{load}{load}{store} @%p2 bra $L_2;\n ret;\n"
               f"$L_3:\n{store}$L_4:\n{store} @%p3 bra $L_1;\n bra.uni $L_2;\n")
        self.assertEqual(sorted(accesses_in_loops(ptx_kernels(ptx)["a"], PTX)), [(1, 2), (2, 1)])

    def test_loads_that_wait_for_each_other_would_be_seen(self):
        loads = [f"LD.E.128 R{register}, desc[UR4][R{base}.64] ;" for register, base in ((8, 2), (12, 4), (16, 6))]
        use, store = "FADD R20, R9, R1 ;", "ST.E.128 desc[UR4][R2.64], R12 ;"
        for lines, most in (([*loads, use], 3), ([loads[0], use, *loads[1:]], 2),
                            ([loads[0], use, loads[1], store, loads[2]], 1),
                            # The end of one loop and the beginning of the next.
                            ([loads[0], "@P0 BRA 0x0 ;", *loads[1:]], 2)):
            listing = "".join(f" /*{16 * index:04x}*/ {line}\n" for index, line in enumerate(lines))
            code = sass_kernels(f" code for sm_90\n Function : a\n{listing}")["90", "a"]
            self.assertEqual(loads_under_way(code), most, listing)

    def test_loads_that_come_behind_the_sums_would_be_seen(self):
        load, sums, store = "LD.E.128 R8, desc[UR4][R2.64] ;", "FADD R12, R9, R1 ;", "ST.E.128 desc[UR4][R4.64], R12 ;"
        for lines, ahead in (([sums, store, load], 1), ([load, sums, store], 0), ([store, load, sums], 0)):
            self.assertEqual(loads_for_next_time("\n".join(lines)), ahead, lines)

    def test_a_reduction_of_small_accesses_beside_a_copy_would_be_seen(self):
        copies, reduces, packets = [(4, 12), (1, 3)], [(8, 12), (4, 3)], [(4, 0), (0, 1)]
        for name, loops in (("rondo_run_simple_float32_sum", copies + reduces), ("rondo_run_simple_copy", copies),
                            ("rondo_run_ll_float32_sum", copies + reduces + packets)):
            self.assertEqual(missing_loops(loops, wanted_loops(name)), [])
            for lost in set(loops) - {(1, 3)}:
                rest = [loop for loop in loops if loop != lost]
                self.assertNotEqual(missing_loops(rest, wanted_loops(name)), [], f"{name} without {lost}")

    def test_an_end_without_a_failure_is_a_relaxed_store_and_so_is_a_header_on_one_device(self):
        """Checks releases. A release is a fence on a device, of half a microsecond and more, which no emulated block
        can miss. These two words, E3 and P2 of one_shot, are stored in either way, by a condition."""
        for name, body in bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX).items():
            if name.startswith("rondo_run_"):
                orders = defaultdict(set)
                for order, place in FLAG_STORE.findall(body):
                    orders[place].add(order)
                either = [place for place, found in orders.items() if len(found) == 2]
                # In one_shot's once more for short posts.
                wanted = 2 * (2 if has_short_posts(name) else 1) if name.startswith("rondo_run_one_shot_") else 1
                if name.startswith("rondo_run_joint_"):
                    wanted = 0  # it cannot fail
                self.assertEqual(len(either), wanted, name)

    def test_load_store_has_no_more_fences_than_it_needs(self):
        """Counts fences of the system's scope. Exchanges, of a gate that closes and of a verdict, and the two adds of
        the report come after a failure only. Gates are adds in either scope, by where the ranks are. In one_shot's
        kernels the report of a short post has one add: it has not failed itself."""
        for name, body in bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX).items():
            if name.startswith(("rondo_run_load_store_", "rondo_run_one_shot_")):
                releases, adds = ["E3", "C2", "R2"], 2
                if name.startswith("rondo_run_one_shot_"):
                    releases, adds = ["E3", "P2"], 2
                    if has_short_posts(name):
                        releases, adds = releases * 2, 3
                self.assertEqual(body.count("st.release."), len(releases), name)
                self.assertEqual(FENCE.findall(body), ["fence.sc.sys"] * body.count("atom.cas."), name)
                self.assertEqual(body.count(".acq_rel.sys."), body.count(".acq_rel.gpu.") + adds, name)

    def test_a_joint_kernel_has_no_fence_and_waits_for_nothing(self):
        for name, body in bodies(Path(self.ptx).read_text(encoding="utf-8"), ENTRY_OF_PTX).items():
            if name.startswith("rondo_run_joint_"):
                self.assertNotRegex(body, r"\b(?:fence|membar|atom\.cas)\.|\.(?:acq_rel|acquire|release)\.", name)

    def test_a_changed_header_rebuilds_the_image(self):
        known = subprocess.run(["ninja", "-t", "deps", self.image], capture_output=True, text=True, check=True).stdout
        for header in ("cuda/kernels/list.h", "cuda/kernels/run.h", "src/proto/interpreter.h"):
            self.assertIn(header, known)

    def test_every_architecture_is_in_the_image(self):
        listing = self.dump("--list-elf")
        for each in self.architectures:
            self.assertIn(f"sm_{each}", listing)
        listing = self.dump("--list-ptx")
        for each in self.with_ptx:
            self.assertIn(f"sm_{each}", listing)

    def dump(self, *options):
        """Returns what cuobjdump says of the image, and skips the test where there is none."""
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
    Image.with_ptx = [name.partition("+")[0] for name in sys.argv[5].split(",") if name.endswith("+ptx")]
    # Which every later device can compile.
    Image.with_ptx.append(min(Image.architectures, key=lambda name: int(re.match(r"\d*", name)[0] or 0)))
    if len(sys.argv) > 6:
        Image.types = sys.argv[6].split(",")
    unittest.main(argv=sys.argv[:1], verbosity=2)
