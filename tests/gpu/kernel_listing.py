# SPDX-License-Identifier: Apache-2.0
"""Listings of kernels, as PTX (nvcc) and as machine code (cuobjdump -sass): their kernels, and their inner loops."""

import re
from dataclasses import dataclass

ENTRY_OF_PTX = re.compile(r"^\s*(?:\.visible )?\.entry (\w+)", re.M)
LABEL_OF_PTX = re.compile(r"^(\$\w+):")
BRANCH_OF_PTX = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
ARCHITECTURE = re.compile(r"^\s*code for sm_(\w+)", re.M)
FUNCTION = re.compile(r"^\s*Function : (\w+)", re.M)
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", re.M)
BRANCH = re.compile(r"\bBRA[.\w]*\s.*?(?:0x([0-9a-f]+)|`\(([.\w]+)\))")
LABEL = re.compile(r"^\s*(\.L\w+):", re.M)
# Without a predicate before it (@P0) or among its operands (BRA.U UP0, 0x10).
ALWAYS_LEAVES = re.compile(r"(?:(?:bra|BRA)(?:\.\w+)*\s+[`$0]|(?:ret|RET|exit|EXIT)\b)")


@dataclass
class Syntax:
    """The patterns that the tests search for in one kind of listing."""
    load: re.Pattern   # 16 bytes from memory
    store: re.Pattern  # 16 bytes to memory
    local: re.Pattern  # memory that a thread has for itself: stack, spills


PTX = Syntax(re.compile(r"\bld\.(?:\w+\.)*?v(?:4\.\w32|2\.\w64)"), re.compile(r"\bst\.(?:\w+\.)*?v(?:4\.\w32|2\.\w64)"),
             re.compile(r"\.local\b"))
LOOK = re.compile(r"\bLDG?\.E\.128\.STRONG\b")
WORD_LOAD = re.compile(r"\bLDG?\.E\.64\b")
SASS = Syntax(re.compile(r"\bLDG?\.E\.(?:\w+\.)*?128\b"), re.compile(r"\bSTG?\.E\.(?:\w+\.)*?128\b"),
              re.compile(r"\b(?:LDL|STL)\b"))


def bodies(text, begin):
    """Returns name -> text of each kernel, in a listing where `begin` matches its first line."""
    starts = list(begin.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.start():end] for match, end in zip(starts, ends)}


def ptx_kernels(text):
    """Returns name -> its lines and the branches among them: [(place, text)], [(from, to)]."""
    return {name: ptx_code(body) for name, body in bodies(text, ENTRY_OF_PTX).items()}


def ptx_code(body):
    lines = list(enumerate(body.splitlines()))
    labels = {match[1]: place for place, line in lines if (match := LABEL_OF_PTX.match(line))}
    branches = [(place, labels.get(match[1], place)) for place, line in lines
                if (match := BRANCH_OF_PTX.search(line))]
    return lines, branches


def sass_kernels(text):
    """Returns (architecture, name) -> likewise. An image may have several parts for an architecture."""
    found, parts = {}, ARCHITECTURE.split(text)
    for architecture, part in zip(parts[1::2], parts[2::2]):
        for name, body in bodies(part, FUNCTION).items():
            found[architecture, name] = sass_code(body)
    return found


def sass_code(body):
    lines = [(int(match[1], 16), match[2]) for match in INSTRUCTION.finditer(body)]
    after = {match[1]: INSTRUCTION.search(body, match.end()) for match in LABEL.finditer(body)}
    labels = {name: int(match[1], 16) for name, match in after.items() if match}
    branches = []
    for place, line in lines:
        if match := BRANCH.search(line):
            branches.append((place, int(match[1], 16) if match[1] else labels.get(match[2], place)))
    return lines, branches


def flow(code):
    """Returns the blocks of instructions, [(first, after the last)] by index of their lines, and what each may go on
    with. A branch to itself stands after the end of a kernel, or its label is unknown: it leads nowhere."""
    lines, branches = code
    index = {place: number for number, (place, _) in enumerate(lines)}
    targets = {index[place]: index[target] for place, target in branches if target in index and target != place}
    begins = sorted({0, *targets.values(), *(number + 1 for number in targets if number + 1 < len(lines))})
    block_of = {begin: number for number, begin in enumerate(begins)}
    blocks = list(zip(begins, begins[1:] + [len(lines)]))
    successors = [set() for _ in blocks]
    for number, (_, end) in enumerate(blocks):
        if end - 1 in targets:
            successors[number].add(block_of[targets[end - 1]])
        if end < len(lines) and not ALWAYS_LEAVES.match(lines[end - 1][1].strip()):
            successors[number].add(number + 1)
    return blocks, successors


def edges_back(successors):
    """Returns [(from, to)] of the blocks that lead to a block which a walk from the first one is still busy with."""
    found, seen, busy = [], {0}, [(0, iter(successors[0]))]
    under_way = {0}
    while busy:
        number, left = busy[-1]
        following = next(left, None)
        if following is None:
            busy.pop()
            under_way.discard(number)
        elif following in under_way:
            found.append((number, following))
        elif following not in seen:
            seen.add(following)
            under_way.add(following)
            busy.append((following, iter(successors[following])))
    return found


def loops_of(code):
    """Returns the text of each loop and whether it has an inner loop, wherever the compiler has put its parts. A loop
    is the blocks that lead back to its beginning without passing it. Several ways back to one beginning are one loop
    with ways to go on early."""
    lines, (blocks, successors) = code[0], flow(code)
    predecessors = [set() for _ in blocks]
    for number, following in enumerate(successors):
        for each in following:
            predecessors[each].add(number)
    loops = {}
    for number, head in edges_back(successors):
        body, left = loops.setdefault(head, {head}), [number]
        while left:
            each = left.pop()
            if each not in body:
                body.add(each)
                left.extend(predecessors[each])
    return [("\n".join(line for number in sorted(body) for _, line in lines[slice(*blocks[number])]),
             any(other < body for other in loops.values())) for body in loops.values()]


def inner_loops(code):
    return [text for text, has_others in loops_of(code) if not has_others]


def loads_under_way(code):
    """Returns the most loads of 16 bytes in machine code that follow each other before a register of one of them is
    used, and before a branch back, predicated or not, or a barrier."""
    lines, branches = code
    return loads_before_use(lines, {place for place, target in branches if target <= place})


def words_under_way(code):
    """Returns the same for loads of 8 bytes."""
    lines, branches = code
    return loads_before_use(lines, {place for place, target in branches if target <= place}, WORD_LOAD, 2)


def looks_under_way(code):
    """Returns the same for each inner loop that polls pairs of words and stores none."""
    return [loads_before_use(list(enumerate(loop.splitlines())), set()) for loop in inner_loops(code)
            if LOOK.search(loop) and not SASS.store.search(loop)]


def loads_before_use(lines, back, pattern=SASS.load, register_count=4):
    most, pending = 0, []
    for place, line in lines:
        used = {int(number) for number in re.findall(r"\bR(\d+)\b", line)}
        load = pattern.search(line)
        if load:
            target = int(re.search(r"\bR(\d+)\b", line[load.end():])[1])
            used.discard(target)
        if place in back or (re.search(r"\b(?:BRA|BAR|EXIT|CALL|RET)\b", line) and not line.startswith("@")):
            pending = []
        if any(register in used for first in pending for register in range(first, first + register_count)):
            pending = []
        if load:
            pending.append(target)
        most = max(most, len(pending))
    return most


def loads_for_next_time(loop):
    """Returns how many loads of 16 bytes in a loop's machine code bring what it uses when it comes round again.
    Something before the load reads the registers that it fills, and nothing after it does."""
    lines, count = loop.splitlines(), 0
    registers = [{int(number) for number in re.findall(r"\bR(\d+)\b", line)} for line in lines]
    for place, line in enumerate(lines):
        if load := SASS.load.search(line):
            first = int(re.search(r"\bR(\d+)\b", line[load.end():])[1])
            filled = set(range(first, first + 4))
            before, behind = (set().union(*part) & filled for part in (registers[:place], registers[place + 1:]))
            count += bool(before) and not behind
    return count


def accesses_in_loops(code, syntax):
    """Returns (loads, stores) of 16 bytes in each of its inner loops that has one."""
    counts = [(len(syntax.load.findall(loop)), len(syntax.store.findall(loop))) for loop in inner_loops(code)]
    return [count for count in counts if count != (0, 0)]
