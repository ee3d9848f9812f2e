# SPDX-License-Identifier: Apache-2.0
"""Tests the structure of the sources: which folder may include which, sizes, first lines, and that no path of one
machine occurs."""

import re
import unittest
from pathlib import Path

import source_tree as tree

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 80
COLUMNS_MAX = 120

# For each folder, these are the folders and files whose headers it may include, beside its own and rondo/rondo.h. A
# path with a suffix is one file. The reasons are in docs/architecture.md.
PLAIN_PLAN = {"src/plan/collective.h", "src/plan/schedule.h", "src/plan/plan.h", "src/plan/split_call.h"}
CORE_FLOORS = {"src/base", "src/memory", "src/proto", "src/topo", "src/plan", "src/engine", "src/bootstrap", "src/core"}
MAY_INCLUDE = {
    "src/base": set(),
    "src/memory": {"src/base"},
    "src/proto": {"src/base"},
    "src/topo": {"src/base"},
    "src/plan": {"src/base", "src/proto", "src/topo"},
    # Executors run over links, and report to ranks. They do not depend on a transport.
    "src/engine": {"src/base", "src/proto", "src/topo", "src/plan", "src/links/links.h", "src/links/ranks.h",
                   "src/links/message_boards.h", "src/links/remote_memory.h"},
    # These are the interfaces of a transport, and what ranks know of each other before they connect.
    "src/links": {"src/base", "src/proto", "src/plan/plan.h", "src/bootstrap/store/store.h"},
    "src/sim": {"src/base", "src/proto", "src/topo", "src/plan"},
    "src/bootstrap": {"src/base"},
    "transports": {"src/base", "src/memory", "src/proto", "src/links", "src/bootstrap/fd_channel.h",
                   "src/bootstrap/store/store.h"} | PLAIN_PLAN,
    # Several hosts meet by listening, and by the store's handshake on every connection.
    "transports/hosts": {"src/base", "src/proto", "src/links", "src/bootstrap", "transports"},
    "transports/tcp": {"src/base", "src/proto", "src/links", "src/bootstrap/wire.h", "transports"},
    "transports/ucx": {"src/base", "src/proto", "src/links", "src/bootstrap", "transports"},
    "transports/verbs": {"src/base", "src/proto", "src/links", "src/bootstrap", "transports"},
    "transports/net": {"src/base", "src/proto", "src/links", "src/bootstrap/bytes.h", "src/bootstrap/store/store.h",
                       "transports"} | PLAIN_PLAN,
    "cuda": {"src/base", "src/proto", "src/bootstrap/fd_channel.h", "src/bootstrap/store/store.h",
             "src/engine/executor.h", "src/engine/device_executor.h", "src/engine/operations.h",
             "src/engine/signal_watch.h", "src/links/links.h", "src/links/init_context.h",
             "src/topo/device.h"} | PLAIN_PLAN,
    # Within cuda, the code of kernels and what they read is lowest. Then come the driver, the memory that ranks share,
    # and the executors.
    "cuda/kernels": {"src/base", "src/proto"} | PLAIN_PLAN,
    "cuda/driver": {"src/base", "src/proto", "cuda/kernels"},
    "cuda/transport": {"src/base", "src/proto", "src/bootstrap/fd_channel.h", "src/bootstrap/store/store.h",
                       "src/engine/executor.h", "src/links/links.h", "cuda/kernels", "cuda/driver"} | PLAIN_PLAN,
    "src/core": CORE_FLOORS | {"src/links"},
    # Only this file knows which components were built.
    "src/core/registry.cpp": CORE_FLOORS | {"src/links", "transports", "cuda"},
    "src/api": {"src/base", "src/proto", "src/topo", "src/plan", "src/engine", "src/bootstrap", "src/core"},
    # This serves other programs, and uses only the public interface.
    "src/compat": set(),
    "src/cli": {"src", "bench", "transports", "cuda"},
    # The console is what users see: help, files, progress, pictures. Of the library it uses only the spelling of sizes
    # and names, and the opening of users' files. So bench may use the console, too. Beside it, bench uses only the
    # public interface and dlopen().
    "src/console": {"src/base/spelling.h", "src/base/user_file.h", "src/base/signals_absorbed.h"},
    "src/plan/print/svg.cpp": {"src/base", "src/plan", "src/console/svg.h"},
    "bench": {"src/console", "src/base/cpu.h", "src/base/spelling.h", "src/base/user_file.h",
              "src/base/runtime_library.h", "src/plan/collective.h", "src/topo/host.h"},
    # The folders of the trainer have one direction. The figures do not know how they were measured, and the report
    # knows nothing of the run.
    "bench/trainer/figures": set(),
    "bench/trainer/compute": {"bench/failure.h", "bench/trainer/figures"},
    "bench/trainer/lanes": {"bench/failure.h", "bench/trainer/figures", "bench/trainer/compute"},
    # This file is the host's backend. A device's backend is in bench/trainer/cuda.
    "bench/trainer/compute/host_compute.cpp": {"bench/failure.h", "bench/trainer/figures", "bench/trainer/compute",
                                               "bench/trainer/lanes"},
    "bench/trainer/model": {"bench/failure.h", "bench/trainer/compute"},
    "bench/trainer/cuda": {"bench/failure.h", "src/base/runtime_library.h", "bench/trainer/figures",
                           "bench/trainer/lanes", "bench/trainer/compute", "bench/trainer/model"},
    "bench/trainer/data": {"bench/failure.h", "bench/trainer/model", "src/base/user_file.h"},
    "bench/trainer/exchange": {"bench/failure.h", "bench/trainer/compute", "bench/trainer/figures",
                               "bench/trainer/lanes", "bench/trainer/model"},
    "bench/trainer/report": {"bench/trainer/figures", "bench/trainer/options.h", "src/console"},
    "bench/trainer/run": {"bench/failure.h", "bench/trainer/options.h", "bench/trainer/figures", "bench/trainer/lanes",
                          "bench/trainer/compute", "bench/trainer/model", "bench/trainer/data",
                          "bench/trainer/exchange", "src/base/spelling.h", "src/base/user_file.h", "src/console"},
    "examples": set(),
    "tests": {"src", "bench", "transports", "cuda"},
    # A driver knows its interface's declarations, and nothing of its callers.
    "tests/soft_cuda": {"cuda/driver/driver_api.h", "cuda/driver/driver_entries.h", "src/proto/memory_policy.h",
                        "tests/switch_stack.h"},
    "tests/soft_nvml": {"src/topo/nvml_api.h"},
    # This driver's kernels are the library's own bodies.
    "tests/soft_cuda/emulated_block.h": {"cuda/kernels", "tests/soft_cuda"},
    "tests/soft_cuda/soft_kernels.cpp": {"cuda/kernels", "tests/soft_cuda"},
    "tests/soft_cuda/soft_mean_kernels.cpp": {"cuda/kernels", "tests/soft_cuda"},
    "tests/soft_cuda/soft_transfers.cpp": {"cuda/kernels", "tests/soft_cuda"},
    "include": set(),
}
# Each of these files uses one interface of a transport, and not the transport's owner.
for name in ("failure_dump", "recorder"):
    MAY_INCLUDE |= {f"src/core/diagnostics/{name}{suffix}": CORE_FLOORS | {"src/links/recording.h"}
                    for suffix in (".h", ".cpp")}
for name in ("watch", "operations", "device_executor", "device_monitor"):
    MAY_INCLUDE |= {f"src/engine/{name}{suffix}": MAY_INCLUDE["src/engine"] - {"src/links/links.h"} | {"src/engine"}
                    for suffix in (".h", ".cpp")}
PUBLIC_HEADER = "rondo/rondo.h"
# The public header includes these, so no other file needs to name them.
PARTS = {"rondo/types.h", "rondo/communicator.h", "rondo/queries.h", "rondo/window.h"}


def inside(path, place):
    return path == place or path.startswith(place + "/")


def rule_for(path):
    """Returns the longest key of MAY_INCLUDE that contains `path`, or None."""
    keys = [key for key in MAY_INCLUDE if inside(path, key)]
    return max(keys, key=len) if keys else None


def include_violations(path, text, exists):
    """Yields messages for the #includes of file `path` (a string) that break the rule; exists(path) finds a file."""
    rule = rule_for(path)
    if rule is None:
        yield f"{path}: no rule says what code in this folder may include; add it to MAY_INCLUDE"
        return
    for line, style, target in tree.includes(text):
        if target == PUBLIC_HEADER or (target in PARTS and str(path).startswith("include/")):
            continue
        if style == "angle":
            if exists(target):
                yield f"{path}:{line}: <{target}> is ours: write it with quotes"
        elif not exists(target):
            yield f'{path}:{line}: "{target}" is no path from the root of the checkout'
        elif not inside(target, rule) and not any(inside(target, place) for place in MAY_INCLUDE[rule]):
            yield f'{path}:{line}: {rule} may not include "{target}"'


def first_line_ok(text):
    lines = text.splitlines()[:2]
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    return bool(lines) and re.fullmatch(r"(//|#|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?", lines[0]) is not None


class IncludeDirections(unittest.TestCase):
    maxDiff = None

    def test_every_include_keeps_the_direction(self):
        wrong = []
        for path in filter(tree.is_c, tree.all_files()):
            wrong += include_violations(str(path), tree.read(path), lambda target: (tree.ROOT / target).is_file())
        self.assertEqual(wrong, [])

    def test_a_planted_violation_is_found(self):
        def planted(path, include):
            return list(include_violations(path, f"#pragma once\n#include {include}\n", lambda target: "src/" in target
                                           or "transports/" in target))
        for path, include in [("src/base/log.cpp", '"src/core/communicator.h"'),
                              ("src/core/communicator.cpp", '"transports/shm/segment.h"'),
                              ("src/core/process.h", '"transports/shm/peers.h"'),
                              ("src/memory/region.h", '"src/proto/step.h"'),
                              ("src/engine/watch.cpp", '"src/links/links.h"'),
                              ("src/engine/host_executor.cpp", '"src/links/transport.h"'),
                              ("src/core/diagnostics/failure_dump.h", '"src/links/transport.h"'),
                              ("transports/shm/segment.cpp", '"src/core/communicator.h"'),
                              ("transports/shm/segment.cpp", '"src/plan/tuner.h"'),
                              ("cuda/driver/budget.cpp", '"src/engine/executor.h"'),
                              ("bench/perf.cpp", '"src/base/result.h"'),
                              ("src/plan/ring.cpp", '"src/engine/executor.h"'),
                              ("src/plan/ring.cpp", '"schedule.h"'),
                              ("src/plan/ring.cpp", "<src/plan/schedule.h>"),
                              ("tests/soft_cuda/memory.cpp", '"src/base/result.h"'),
                              ("src/compat/init.cpp", '"src/base/result.h"'),
                              ("src/new_folder/x.cpp", '"src/base/result.h"')]:
            self.assertEqual(len(planted(path, include)), 1, (path, include))
        for path, include in [("src/plan/ring.cpp", '"src/plan/schedule.h"'),
                              ("src/core/registry.cpp", '"transports/shm/segment.h"'),
                              ("src/core/communicator.cpp", '"src/links/transport.h"'),
                              ("src/engine/watch.h", '"src/links/ranks.h"'),
                              ("src/engine/host_executor.h", '"src/links/links.h"'),
                              ("bench/perf.cpp", '"rondo/rondo.h"'),
                              ("bench/perf.cpp", "<vector>")]:
            self.assertEqual(planted(path, include), [], (path, include))


class Branches(unittest.TestCase):
    # Users see the kind of executor (src/api). But a communicator's behaviour depends only on other capabilities.
    KINDS = re.compile(r"RONDO_DEVICE_EXECUTOR_|BufferPlace::|\.kind\b")

    def test_the_communicator_has_no_branch_on_the_kind_of_executor(self):
        self.assertTrue(self.KINDS.search("if (capabilities_.kind == 1)"))
        names = ("communicator.h", "communicator.cpp", "planner.h", "planner.cpp")
        wrong = [f"src/core/{name}:{number}" for name in names
                 for number, line in enumerate(tree.read(Path("src/core") / name).splitlines(), 1)
                 if self.KINDS.search(line)]
        self.assertEqual(wrong, [])


class Sizes(unittest.TestCase):
    maxDiff = None

    def test_no_file_of_code_is_too_long(self):
        long_files = {str(path): lines for path in filter(tree.is_code, tree.all_files())
                      if (lines := tree.read(path).count("\n")) > FILE_LINES_MAX}
        self.assertEqual(long_files, {}, f"over {FILE_LINES_MAX} lines: divide by what changes together")

    def test_no_function_is_too_long(self):
        long_functions = [f"{path}:{line}: {name} has {lines} lines"
                          for path in filter(tree.is_code, tree.all_files())
                          for name, line, lines in tree.functions(path) if lines > FUNCTION_LINES_MAX]
        self.assertEqual(long_functions, [], f"over {FUNCTION_LINES_MAX} lines: give parts of them names")

    def test_a_planted_long_function_is_found(self):
        body = "\n".join("  if (x == 1'000) { y('}', \"{\", R\"(}})\"); }  // {" for _ in range(90))
        for head in ["static int f(int x) {", "auto f(int x) -> std::vector<int> {", "int A::f() const noexcept {",
                     "A::A(int x) : B(x), b_{x}, c_({1}) {", "template <Group G> requires (X<G>)\nvoid f(G g) {",
                     'TEST_CASE("ring: { a brace", "[plan]") {', "bool operator==(const A &a) const {"]:
            text = f"namespace rondo {{\n#define M(x) {{\nstruct A final : B {{\n int x{{3}};\n {head}\n{body}\n}}\n}};"
            lengths = [lines for _, _, lines in tree.c_functions(text)]
            self.assertEqual(len(lengths), 1, (head, lengths))
            self.assertIn(lengths[0], (92, 93), head)
        self.assertEqual([lines for *_, lines in tree.python_functions("def f():\n" + "  x = 1\n" * 90)], [91])
        self.assertEqual([lines for *_, lines in tree.shell_functions("f() {\n" + "  true\n" * 90 + "}\n")], [92])

    def test_short_functions_beside_each_other_are_not_one(self):
        text = "class A {\n public:\n" + "  int f() const { return 1; }\n" * 100 + " private:\n  int x_ = 0;\n};\n"
        self.assertEqual([lines for *_, lines in tree.c_functions(text)], [1] * 100)


class Lines(unittest.TestCase):
    maxDiff = None

    def test_every_source_begins_with_its_licence(self):
        missing = [str(path) for path in tree.all_files() if tree.is_code(path) and not first_line_ok(tree.read(path))]
        self.assertEqual(missing, [])

    def test_lines_fit_and_have_no_tabs_or_spaces_at_their_end(self):
        wrong = []
        for path in filter(tree.is_code, tree.all_files()):
            for number, line in enumerate(tree.read(path).splitlines(), 1):
                if len(line) > COLUMNS_MAX:
                    wrong.append(f"{path}:{number}: {len(line)} columns")
                if "\t" in line or line != line.rstrip():
                    wrong.append(f"{path}:{number}: a tab, or a space at the end")
        self.assertEqual(wrong, [])

    def test_no_file_names_a_place_of_one_machine(self):
        place = re.compile(r"(?<![\w./~-])/(?:work|root|home/\w+)(?=/|\b(?!\w))(?![\w-])")
        self.assertTrue(place.search("see /" + "work/x") and place.search('"/' + 'root/x"'))
        self.assertFalse(place.search("src/work/x.h") or place.search("$folder/root/x"))
        wrong = []
        for path in tree.all_files():
            if not (tree.is_code(path) or path.suffix in (".md", ".build", ".map", ".txt", ".1", ".json", ".yml", "")):
                continue
            try:
                lines = tree.read(path).splitlines()
            except UnicodeDecodeError:
                continue
            wrong += [f"{path}:{number}" for number, line in enumerate(lines, 1) if place.search(line)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
