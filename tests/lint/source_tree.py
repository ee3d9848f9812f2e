# SPDX-License-Identifier: Apache-2.0
"""Lists the files of the checkout, and parses C++ as far as that is possible without a compiler."""

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = re.compile(r"^(build.*|\.git|\.cache|__pycache__|corpus)$")
C_SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh")


def all_files():
    """Yields paths relative to the root of everything but build folders and version control."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not SKIPPED_FOLDERS.match(name))
        for name in sorted(names):
            if name != ".git":  # a worktree has a file of that name
                yield (Path(folder) / name).relative_to(ROOT)


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def public_headers():
    """Returns the headers that are installed, as paths."""
    return sorted(path for path in all_files() if path.parent == Path("include/rondo") and path.suffix == ".h")


def is_shell(path):
    if path.suffix in (".sh", ".bash"):
        return True
    if path.suffix:
        return False
    with open(ROOT / path, "rb") as file:
        return bool(re.match(rb"#!.*\b(ba|da)?sh\b", file.readline(80)))


def is_c(path):
    return path.suffix in C_SUFFIXES


def is_python(path):
    return path.suffix == ".py"


def is_code(path):
    return is_c(path) or is_python(path) or is_shell(path)


NOT_CODE = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'                   # string
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"   # character, not the ' of 1'000
    r"|//[^\n]*|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def without_comments(text):
    """Returns `text` with comments, literals and preprocessor lines blanked. Every line keeps its number."""
    strings_gone = NOT_CODE.sub(lambda m: '""' + blank(m)[2:] if m[0][0] == '"' else blank(m), text)
    return DIRECTIVE.sub(blank, strings_gone)


TYPE_HEAD = re.compile(r"\b(?:class|struct|union|enum|concept)\b")
INITIALISER_HEAD = re.compile(r"\)\s*(?:noexcept)?\s*:(?!:).*[\w>]\s*$", re.S)


def bare_head(head):
    """Returns the code before a brace, without attributes and template parameters, which hide its kind."""
    head = re.sub(r"\[\[.*?\]\]|alignas\s*\(.*?\)|__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    previous = None
    while previous != head:
        previous, head = head, re.sub(r"<[^<>]*>", " ", head)
    return head.strip()


def brace_kind(head):
    """Returns what a brace at namespace or class scope opens: 'scope', 'function' or 'value'."""
    head = bare_head(head)
    if re.search(r"\bnamespace\b", head) or head.startswith("extern") and "(" not in head:
        return "scope"
    if TYPE_HEAD.search(head) and "(" not in head:
        return "scope"
    if head.endswith(("=", ",", "(", "{", "return")) or "(" not in head or INITIALISER_HEAD.search(head):
        return "value"
    return "function"


def skip_block(code, start):
    """Returns the index after the brace that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(code)


def function_name(head):
    match = re.search(r"([~\w:]+|operator\s*\S+)\s*\(", bare_head(head))
    return match[1] if match else "?"


MARK = re.compile(r"[(){};:]")  # what ends or begins a part of the code


def c_functions(text):
    """Returns (name, first line, line count) of each function body in C or C++. A lambda at namespace scope counts
    as one."""
    code = without_comments(text)
    found, head_start, position, parentheses = [], 0, 0, 0
    while (mark := MARK.search(code, position)) is not None:
        character, position = mark[0], mark.end()
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character in ";}" and parentheses == 0:
            head_start = position
        elif character == ":" and re.search(r"\b(public|private|protected)\s*:$", code[head_start:position]):
            head_start = position
        elif character == "{":
            head = code[head_start:position - 1]
            kind = "value" if parentheses else brace_kind(head)
            if kind == "scope":
                head_start = position
                continue
            begin, position = position - 1, skip_block(code, position - 1)
            if kind == "function":
                first = head_start + len(head) - len(head.lstrip())
                lines = code.count("\n", first, position) + 1
                found.append((function_name(head), code.count("\n", 0, first) + 1, lines))
                head_start = position
            else:
                code = code[:begin] + re.sub(r"[^\n]", " ", code[begin:position - 1]) + "0" + code[position:]
    return found


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def shell_functions(text):
    for match in re.finditer(r"^(\w+)\s*\(\)\s*\{\n(?:.*\n)*?\}", text, re.M):
        yield match[1], text.count("\n", 0, match.start()) + 1, match[0].count("\n") + 1


def functions(path):
    if is_c(path):
        return c_functions(read(path))
    if is_python(path):
        return list(python_functions(read(path)))
    return list(shell_functions(read(path)))


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)


def includes(text):
    """Yields (line, "quote" or "angle", path) of each #include."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, "quote" if match[1] == '"' else "angle", match[2]
