# SPDX-License-Identifier: Apache-2.0
"""Checks the compiled kernels: image_test.py REPORT IMAGE PTX ARCHITECTURES [TYPES].

By the report of ptxas, no kernel may spill registers or use local memory, for any of the architectures. By its PTX,
each kernel must load and store 16 bytes at a time, and have no more fences than it needs. By its PTX and its machine
code, a long wait must leave the caches alone. For machine code the test needs cuobjdump. TYPES are the types that the
image has, by default all.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

IMAGE_BYTES_MAX = 20 * 1000 * 1000  # limit of a release image, which is in librondo.so
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
ENTRY_OF_PTX = re.compile(r"^\s*(?:\.visible )?\.entry (\w+)", re.M)
WIDE_LOAD = re.compile(r"\bld\.(?:\w+\.)*?v(?:4\.\w32|2\.\w64)")
WIDE_STORE = re.compile(r"\bst\.(?:\w+\.)*?v(?:4\.\w32|2\.\w64)")
LOCAL = re.compile(r"\.local\b")
FLAG_STORE = re.compile(r"\bst\.(relaxed|release)\.sys\.b64\s+\[([^]]+)\]")
FENCE = re.compile(r"\b(?:fence|membar)\.[\w.]+")
BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
FUNCTION_OF_CODE = re.compile(r"^\s*Function : (\w+)$", re.M)
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", re.M)
BRANCH_OF_CODE = re.compile(r"\bBRA\b.*?\b0x([0-9a-f]+)")
PROTOCOLS = ("simple", "ll")
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3", "float8_e5m2")
MEAN_KERNELS = ("rondo_mean_widen", "rondo_mean_narrow")  # they move one element at a time, since they need not be fast
OPERATIONS = ("sum", "prod", "min", "max")


def kernel_names(types):
    for stem in (*(f"rondo_run_{name}" for name in (*PROTOCOLS, "one_shot", "joint")), "rondo_reduce"):
        for name in types:
            yield f"{stem}_{name}"
    for stem in (*PROTOCOLS, "load_store", "joint", "transfer"):
        yield f"rondo_run_{stem}_copy"
    for name in types:
        for operation in OPERATIONS:
            yield f"rondo_run_load_store_{name}_{operation}"
    yield from MEAN_KERNELS
    yield "rondo_scale"


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


def pausing_loops(body):
    """Returns the innermost loop around each pause in the PTX of a kernel."""
    lines = [line.strip() for line in body.splitlines()]
    labels = {line[:-1]: place for place, line in enumerate(lines) if line.startswith("$") and line.endswith(":")}
    branches = [(labels[match[1]], at) for at, line in enumerate(lines) if (match := BRANCH.search(line))]
    found = []
    for at, line in enumerate(lines):
        if line.startswith("nanosleep"):
            begin, end = min(((begin, end) for begin, end in branches if begin <= at <= end),
                             key=lambda loop: loop[1] - loop[0])
            found.append("\n".join(lines[begin:end + 1]))
    return found


@dataclass
class Instructions:
    """The PTX or the machine code of a kernel as a graph. The other members are sets of places."""
    next: list  # the places that may follow each place
    pauses: set
    polls: set  # relaxed loads
    words: set  # the polls of one word
    acquires: set

    def waits_without_acquire(self, pause, words_min=0):
        """Returns whether the pause may be followed by itself or another pause after a poll, and without an acquire. A
        path without a poll shows nothing, since it may stand for a kernel that waits for nobody. With `words_min`, a
        path must have as many polls of one word."""
        seen, todo = set(), [(place, False, 0) for place in self.next[pause]]
        while todo:
            here = place, polled, words = todo.pop()
            if here in seen or place in self.acquires:
                continue
            seen.add(here)
            if place in self.pauses:
                if polled and words >= words_min:
                    return True
                continue
            polled, words = polled or place in self.polls, min(words + (place in self.words), words_min)
            todo += [(other, polled, words) for other in self.next[place]]
        return False


def graph_of(lines, targets, ends):
    """Returns the next places of each line. `targets` has the places of branches. If `ends` is true for a line, only
    the target may follow it."""
    return [[*([at + 1] if at + 1 < len(lines) and not ends(line) else []), *([targets[at]] if at in targets else [])]
            for at, line in enumerate(lines)]


def places(lines, pattern):
    return {at for at, line in enumerate(lines) if re.search(pattern, line)}


def ptx_of(body):
    lines = [line.strip() for line in body.splitlines()]
    labels = {line[:-1]: place for place, line in enumerate(lines) if line.startswith("$") and line.endswith(":")}
    targets = {at: labels[match[1]] for at, line in enumerate(lines) if (match := BRANCH.search(line))}
    ends = re.compile(r"(?:bra(?:\.uni)?|ret|exit|trap)\b").match
    return Instructions(graph_of(lines, targets, ends), places(lines, "nanosleep"), places(lines, r"ld\.relaxed\.sys"),
                        places(lines, r"ld\.relaxed\.sys\.b64"), places(lines, "acquire|acq_rel|fence"))


def machine_code_of(body):
    found = INSTRUCTION.findall(body)
    lines = [text for _, text in found]
    at_address = {int(address, 16): place for place, (address, _) in enumerate(found)}
    targets = {at: at_address[int(match[1], 16)] for at, line in enumerate(lines)
               if (match := BRANCH_OF_CODE.search(line))}
    ends = re.compile(r"(?:BRA\s+(?:`.*|0x\w+)|EXIT|RET.*)$").match
    return Instructions(graph_of(lines, targets, ends), places(lines, "NANOSLEEP"),
                        places(lines, r"\bLDG?\.\S*STRONG\.SYS"), places(lines, r"\bLDG?\.E\.(?:64\.)?STRONG\.SYS"),
                        places(lines, r"CCTL\.IVALL"))


def split_at(pattern, text):
    """Returns name -> the text between a match and the next one."""
    starts = list(pattern.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.start():end] for match, end in zip(starts, ends)}


def has_short_posts(name):
    """Returns whether a kernel of one_shot posts short messages in one access. A kernel of an 8-bit type does
    not."""
    return "int8" not in name and "float8" not in name


def find_cuobjdump():
    """Finds the program of a toolkit, or of the Python package nvidia-cuda-cuobjdump. Returns None if there is none."""
    folders = ["/usr/local/cuda/bin", *(str(Path(place) / "nvidia/cu13/bin") for place in sys.path)]
    return shutil.which("cuobjdump", path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))


class Image(unittest.TestCase):
    report = image = ptx = None
    architectures = []
    types = TYPES

    @classmethod
    def setUpClass(cls):
        cls.kernels = split_at(ENTRY_OF_PTX, Path(cls.ptx).read_text(encoding="utf-8"))

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

    def test_every_kernel_loads_and_stores_16_bytes_at_a_time(self):
        self.assertEqual(set(kernel_names(self.types)), set(self.kernels))
        for name, body in self.kernels.items():
            if name in MEAN_KERNELS:
                continue
            self.assertRegex(body, WIDE_LOAD, name)
            self.assertRegex(body, WIDE_STORE, name)
            self.assertNotRegex(body, LOCAL, name)

    def test_narrow_accesses_are_not_taken_for_wide_ones(self):
        for access in ("ld.global.u32 %r1, [%rd1];", "ld.v2.u32 {%r1,%r2}, [%rd1];", "ld.relaxed.sys.u64 %rd1, [%r2];"):
            self.assertNotRegex(access, WIDE_LOAD)
        for access in ("ld.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];", "ld.relaxed.sys.global.v2.b64 {%rd5, %rd6}, [%rd1];"):
            self.assertRegex(access, WIDE_LOAD)
        self.assertRegex("st.v4.b32 [%rd1], {%r1,%r2,%r3,%r4};", WIDE_STORE)
        self.assertNotRegex("st.global.v2.u32 [%rd1], {%r1,%r2};", WIDE_STORE)

    def test_an_end_without_a_failure_is_a_relaxed_store(self):
        """Checks which stores are releases. On a device each release costs a fence of half a microsecond or more, and
        emulated blocks do not notice a needless one. A condition decides this for E3."""
        for name, body in self.kernels.items():
            if name.startswith("rondo_run_"):
                orders = defaultdict(set)
                for order, place in FLAG_STORE.findall(body):
                    orders[place].add(order)
                either = [place for place, found in orders.items() if len(found) == 2]
                # A kernel of one_shot ends at two places: one is for short posts.
                wanted = 2 if name.startswith("rondo_run_one_shot_") and has_short_posts(name) else 1
                if name.startswith("rondo_run_joint_"):
                    wanted = 0  # this kernel cannot fail
                self.assertEqual(len(either), wanted, name)

    def test_load_store_has_no_more_fences_than_it_needs(self):
        """Counts fences of the system's scope. Exchanges, which close a gate or set a verdict, follow only a failure.
        So do the two adds of the report. A gate has an add in each scope, and the place of the ranks decides which
        one runs. For a short post of one_shot, the report has one add, because the post has not failed itself. A
        one_shot has one fence before all copies of the first word, for posts of each kind."""
        for name, body in self.kernels.items():
            if name.startswith(("rondo_run_load_store_", "rondo_run_one_shot_")):
                releases, posts, adds = ["E3", "C2", "R2"], 0, 2
                if name.startswith("rondo_run_one_shot_"):
                    releases, posts = ["E3"], 1
                    if has_short_posts(name):
                        releases, posts, adds = ["E3"] * 2, 2, 3
                self.assertEqual(body.count("st.release."), len(releases), name)
                self.assertEqual(sorted(FENCE.findall(body)),
                                 ["fence.acq_rel.sys"] * posts + ["fence.sc.sys"] * body.count("atom.cas."), name)
                self.assertEqual(body.count(".acq_rel.sys."), body.count(".acq_rel.gpu.") + adds, name)

    def test_a_long_wait_leaves_the_caches_alone(self):
        """Checks loops with a pause, in which an acquire would empty the L1 cache at each poll."""
        for name, body in self.kernels.items():
            if name.startswith(("rondo_run_load_store_", "rondo_run_one_shot_")):
                loops = pausing_loops(body)
                self.assertEqual(len(loops), 1 if "one_shot" in name else 4, name)
                for loop in loops:
                    self.assertIn("ld.relaxed.sys", loop, name)
                    self.assertNotRegex(loop, r"acquire|acq_rel|fence", name)

    def check_long_waits(self, kernels, what):
        """Checks that kernels can wait for long without an acquire, which empties the L1 cache. With ll, one thread
        looks at words of two slots and two credits. Other polls of slots load pairs of words."""
        for name, kernel in kernels.items():
            self.assertTrue(kernel.pauses, name)
            words_min = 4 if name.startswith("rondo_run_ll_") else 0
            for pause in kernel.pauses:
                waits = kernel.waits_without_acquire(pause, words_min)
                self.assertTrue(waits, f"{what} of {name}, after place {pause}")

    def test_a_long_wait_of_the_interpreter_and_of_transfers_can_go_without_an_acquire(self):
        """Checks kernels whose loop with the pause also moves data, and so has acquires."""
        waiting = {name: ptx_of(body) for name, body in self.kernels.items()
                   if name.startswith(("rondo_run_simple_", "rondo_run_ll_", "rondo_run_transfer_"))}
        self.check_long_waits(waiting, "PTX")

    def test_the_machine_code_of_a_long_wait_has_no_instruction_that_empties_the_cache(self):
        if not (tool := find_cuobjdump()):
            print("skipped: machine code of kernels: cuobjdump is not installed", flush=True)
            return
        names = ["rondo_run_transfer_copy", "rondo_run_simple_float32", "rondo_run_ll_float32",
                 "rondo_run_load_store_float32_sum", "rondo_run_one_shot_float32"]
        for architecture in self.architectures:
            text = subprocess.run([tool, "-sass", "-arch", f"sm_{architecture}", "-fun", ",".join(names), self.image],
                                  capture_output=True, text=True, check=True, timeout=600).stdout
            kernels = split_at(FUNCTION_OF_CODE, text)
            self.assertEqual(sorted(kernels), sorted(names))
            self.check_long_waits({name: machine_code_of(body) for name, body in kernels.items()},
                                  f"machine code for {architecture}")

    def test_a_wait_that_always_acquires_would_be_seen(self):
        body = "\n".join(("$A:", "@%p1 bra $B;", "nanosleep.u32 200;", "bra $A;", "$B:",
                          "ld.relaxed.sys.b64 %rd1, [%rd2];", "@%p2 bra $A;", "ld.acquire.sys.b64 %rd1, [%rd2];",
                          "bra $A;"))
        code = "\n".join(f"/*{16 * at:04x}*/ {line} ;" for at, line in enumerate((
            "LD.E.64.STRONG.SYS R2, desc[UR4][R2.64]", "@!P0 BRA 0x40", "NANOSLEEP 0xc8", "BRA 0x0", "CCTL.IVALL",
            "BRA 0x20")))
        for kernel, pairs, always in (
                (ptx_of(body), ptx_of(body.replace("relaxed.sys", "relaxed.sys.v2")),
                 ptx_of(body.replace("relaxed", "acquire"))),
                (machine_code_of(code), machine_code_of(code.replace("E.64", "E.128")),
                 machine_code_of(code.replace("BRA 0x0 ", "BRA 0x40 ")))):
            (pause,) = kernel.pauses
            self.assertTrue(kernel.waits_without_acquire(pause, words_min=1))
            self.assertTrue(pairs.waits_without_acquire(pause))
            self.assertFalse(pairs.waits_without_acquire(pause, words_min=1))
            self.assertFalse(always.waits_without_acquire(pause))

    def test_an_acquire_in_a_long_wait_would_be_seen(self):
        body = "$A:\nld.acquire.sys.b64 %rd1,[%rd2];\n$B:\nnanosleep.u32 200;\n@%p1 bra $B;\n@%p2 bra $A;\n"
        self.assertEqual(pausing_loops(body), ["$B:\nnanosleep.u32 200;\n@%p1 bra $B;"])
        self.assertIn("acquire", pausing_loops(body.replace("@%p1 bra $B;\n", ""))[0])

    def test_a_joint_kernel_has_no_fence_and_waits_for_nothing(self):
        for name, body in self.kernels.items():
            if name.startswith("rondo_run_joint_"):
                self.assertNotRegex(body, r"\b(?:fence|membar|atom\.cas)\.|\.(?:acq_rel|acquire|release)\.", name)

    def test_a_changed_header_rebuilds_the_image(self):
        known = subprocess.run(["ninja", "-t", "deps", self.image], capture_output=True, text=True, check=True).stdout
        for header in ("cuda/kernels/list.h", "cuda/kernels/run.h", "src/proto/interpreter.h"):
            self.assertIn(header, known)


if __name__ == "__main__":
    Image.report, Image.image, Image.ptx = sys.argv[1:4]
    Image.architectures = [name.partition("+")[0] for name in sys.argv[4].split(",")]
    if len(sys.argv) > 5:
        Image.types = sys.argv[5].split(",")
    unittest.main(argv=sys.argv[:1], verbosity=2)
