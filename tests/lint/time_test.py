# SPDX-License-Identifier: Apache-2.0
"""Tests that correctness tests have no time limits: no assertion bounds a duration from above, and none is tried
again. Such promises are for the suite "timed": test cases tagged [.timed], and modules named timed*.py."""

import ast
import re
import unittest
from pathlib import Path

import source_tree as tree

# ---- C++ ----
MACRO = re.compile(r"\b(CHECK|REQUIRE)(_FALSE)?\s*\(")
CLOCK = r"(?:now_ns\(\)|\bnow\(\))"
DIFFERENCE = rf"{CLOCK}\s*-"
NAMED = re.compile(rf"\b(\w+) = [^;=]*?{DIFFERENCE}")
SPOKEN = r"\b(?:took|elapsed)\w*"
LOOP = re.compile(r"\b(?:for|while)\s*\(")
AGAIN = r"(?:life|lives|try|tries|attempt|attempts|retry|retries|repeat|repeats)"
TIMED_CASE = re.compile(r'"[^"\n]*\[\.timed\][^"\n]*"\s*\)\s*\{')


def inside_parentheses(code, start):
    """Returns the code between the parenthesis that opens before `start` and the one that closes it."""
    depth = 1
    for match in re.compile(r"[()]").finditer(code, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return code[start:match.start()]
    return code[start:]


def without_timed_cases(text):
    """Returns code without comments and strings, and without the bodies of cases of the suite "timed"."""
    code = tree.without_comments(text)
    for match in TIMED_CASE.finditer(text):
        end = tree.skip_block(code, match.end() - 1)
        code = code[:match.start()] + re.sub(r"[^\n]", " ", code[match.start():end]) + code[end:]
    return code


def c_violations(text):
    """Yields (line, what) of each bound on a time and of each loop that tries again."""
    code = without_timed_cases(text)
    names = set(NAMED.findall(code))
    elapsed = re.compile("|".join([DIFFERENCE, SPOKEN] + [rf"\b{name}\b" for name in sorted(names)]))
    for match in MACRO.finditer(code):
        for part in re.split(r"&&|\|\|", inside_parentheses(code, match.end())):
            sides = re.split(r"(?<![-<>=])(<=?|>=?)(?![<>=])", part.replace("->", "  "))
            if len(sides) != 3:
                continue
            left, operator, right = sides
            below = operator.startswith("<") != bool(match[2])
            if elapsed.search(left if below else right):
                yield code.count("\n", 0, match.start()) + 1, "bounds a time from above"
    for match in LOOP.finditer(code):
        if re.search(rf"\b{AGAIN}\s*<", inside_parentheses(code, match.end())):
            yield code.count("\n", 0, match.start()) + 1, "tries again"


# ---- Python ----
def is_clock(node):
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and
            node.func.attr in ("monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns"))


class Elapsed:
    """Finds the expressions of a module that are durations."""

    def __init__(self, module, functions):
        self.names, self.functions = {"took", "took_s", "elapsed"}, set(functions)
        for node in ast.walk(module):
            if isinstance(node, ast.Assign) and self.holds(node.value):
                self.names |= {target.id for target in node.targets if isinstance(target, ast.Name)}

    def holds(self, node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            return is_clock(node.left) or self.holds(node.left)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return called in self.functions or called in ("min", "max") and any(map(self.holds, node.args))
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self.holds(node.value)
        return isinstance(node, ast.Name) and node.id in self.names


def elapsed_functions(module):
    """Returns the names of functions that return a duration."""
    elapsed = Elapsed(module, ())
    return {function.name for function in ast.walk(module) if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function) if isinstance(node, ast.Return) and elapsed.holds(node.value)}


def bounds_time(node, elapsed):
    """Returns whether an assertion has a time on its smaller side."""
    compared = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) > 1:
        if node.func.attr in ("assertLess", "assertLessEqual"):
            compared.append(node.args[0])
        if node.func.attr in ("assertGreater", "assertGreaterEqual"):
            compared.append(node.args[1])
    tested = node.test if isinstance(node, ast.Assert) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "assertTrue":
        tested = node.args[0]
    for part in ast.walk(tested) if tested is not None else ():
        if isinstance(part, ast.Compare):
            operands = [part.left, *part.comparators]
            for index, operator in enumerate(part.ops):
                if isinstance(operator, (ast.Lt, ast.LtE)):
                    compared.append(operands[index])
                if isinstance(operator, (ast.Gt, ast.GtE)):
                    compared.append(operands[index + 1])
    return any(elapsed.holds(each) for each in compared)


def breaks(loop):
    """Returns whether a loop ends early. A loop within it has its own `break`."""
    def found(nodes):
        return any(isinstance(node, ast.Break) or not isinstance(node, (ast.For, ast.While, ast.FunctionDef)) and
                   found(ast.iter_child_nodes(node)) for node in nodes)
    return found(loop.body)


def tries_again(loop):
    if isinstance(loop, ast.While):
        names = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
        counts = isinstance(loop.test, ast.BoolOp) and any(
            isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" for node in ast.walk(loop.test))
        return counts or any(re.fullmatch(AGAIN, name, re.I) for name in names)
    ranges = isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "range"
    name = loop.target.id if isinstance(loop.target, ast.Name) else ""
    limits = [node.value for node in loop.iter.elts if isinstance(node, ast.Constant)] if isinstance(
        loop.iter, ast.Tuple) else []
    rising = len(limits) > 1 and limits == sorted(limits, key=float) if all(
        isinstance(limit, (int, float)) for limit in limits) else False
    return ranges and (re.fullmatch(AGAIN, name) is not None or name == "_" and breaks(loop)) or rising and breaks(loop)


def python_violations(text, functions=()):
    module = ast.parse(text)
    elapsed = Elapsed(module, set(functions) | elapsed_functions(module))
    for node in ast.walk(module):
        if bounds_time(node, elapsed):
            yield node.lineno, "bounds a time from above"
        if isinstance(node, (ast.For, ast.While)) and tries_again(node):
            yield node.lineno, "tries again"


def is_test(path):
    return path.parts[0] == "tests" and path.parts[1] != "lint" and not path.name.startswith("timed")


class Time(unittest.TestCase):
    maxDiff = None

    def test_no_test_asserts_a_time_or_tries_again(self):
        paths = [path for path in tree.all_files() if is_test(path)]
        self.assertGreater(len(paths), 300)
        python = [path for path in paths if tree.is_python(path)]
        functions = set().union(*(elapsed_functions(ast.parse(tree.read(path))) for path in python))
        wrong = [f"{path}:{line}: {what}" for path in paths if tree.is_c(path)
                 for line, what in c_violations(tree.read(path))]
        wrong += [f"{path}:{line}: {what}" for path in python for line, what in
                  python_violations(tree.read(path), functions)]
        self.assertEqual(wrong, [], "wait for a condition or a file, pass in the clock, or make it a timed test")

    def test_bad_samples_of_c_are_found(self):
        for sample in ("CHECK(now_ns() - begun_ns < 30 * second_ns);",
                       "REQUIRE(second_ns >= now_ns() - begun_ns);",
                       "CHECK_FALSE(now_ns() - begun_ns > second_ns);",
                       "const auto waited = std::chrono::steady_clock::now() - begun;\nCHECK(waited < limit);",
                       "const auto since = [&] { return Clock::now() - aborted; };\nREQUIRE((x && since() <= limit));",
                       "CHECK(took_ns < second_ns);",
                       "for (int life = 0; life < 3 && !arrived; ++life) arrived = farewell_arrives();",
                       "while (tries < 3 && late) again();",
                       "for (int attempt = 0; attempt < 3; ++attempt) run();"):
            text = f'TEST_CASE("x: y", "[net]") {{\n{sample}\n}}\n'
            self.assertEqual(len(list(c_violations(text))), 1, sample)
            timed = f'TEST_CASE("x: y", "[.timed]") {{\n{sample}\n}}\n'
            self.assertEqual(list(c_violations(timed)), [], timed)
            self.assertEqual(len(list(c_violations(timed + text))), 1, timed)

    def test_good_samples_of_c_are_let_be(self):
        for sample in ("CHECK(now_ns() - begun_ns >= 4 * second_ns);", "CHECK(time <= now_ns());",
                       "REQUIRE(now_ns() < deadline_ns);", "const auto waited = now_ns() - begun;\nCHECK(x <= waited);",
                       "while (!ready() && now_ns() < deadline_ns) sleep_for_ns(1);",
                       "// CHECK(now_ns() - begun_ns < second_ns);", "for (int round = 0; round < 3; ++round) sum();",
                       "CHECK(rank->took(now_ns() - begun));"):
            self.assertEqual(list(c_violations(f'TEST_CASE("x: y") {{\n{sample}\n}}\n')), [], sample)

    def test_bad_samples_of_python_are_found(self):
        for sample in ("self.assertLess(time.monotonic() - begun, 2)",
                       "took = []\nself.assertLessEqual(took[-1], 5, took)",
                       "seconds = time.monotonic() - begun\nself.assertTrue(1 <= seconds < 8)",
                       "waited = min(time.time() - begun, 3)\nassert waited < 5",
                       "def f():\n  return time.perf_counter() - begun\nself.assertGreater(5, self.f())",
                       "while not took or (took[-1] >= 5 and len(took) < 3):\n  took.append(run())",
                       "while killed < KILLS and tries < 5 * KILLS:\n  tries += 1",
                       "for seconds in (3, 20, 60):\n  if run(seconds):\n    break",
                       "for _ in range(3):\n  if run():\n    break",
                       "for attempt in range(20):\n  run()"):
            self.assertEqual(len(list(python_violations(sample))), 1, sample)

    def test_good_samples_of_python_are_let_be(self):
        for sample in ("self.assertLess(time.monotonic(), deadline)",
                       "seconds = time.monotonic() - begun\nself.assertGreaterEqual(seconds, 1)",
                       "while not ready() and time.monotonic() < deadline:\n  time.sleep(0.01)",
                       "for size in (1, 2, 4):\n  run(size)",
                       "for round_number in range(3):\n  run()",
                       "for _ in range(3):\n  for line in lines:\n    if line:\n      break"):
            self.assertEqual(list(python_violations(sample)), [], sample)


if __name__ == "__main__":
    unittest.main(verbosity=2)
