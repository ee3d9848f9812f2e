# SPDX-License-Identifier: Apache-2.0
"""This module counts what makes a comment or a page hard to read: fragments, long sentences, house idioms.

    python3 tests/lint/sentences.py [--report] [PATH...]

It prints the figures of the whole tree, or of the paths given. `--report` also lists the findings, worst files first.
It uses word lists instead of a grammar, so it misses some fragments and rarely reports a sound sentence as one."""

import argparse
import collections
import functools
import io
import re
import tokenize

import source_tree as tree

SENTENCE_WORDS_MAX = 28
PARAGRAPH_SENTENCE_WORDS = 35
CELL_WORDS_MAX = 25
PARENTHESIS_WORDS_MAX = 6
COLUMNS_MAX = 120

# An opening that leaves out the subject, or turns the sentence around.
OPENINGS = re.compile(r"(Of|By(?! default| design)|As(?! (long|soon|many|far) as)|What|Who|Whose|Where(?=[^,]*$)|"
                      r"Whether|How|Likewise|The same|Else|But for)\b")
IDIOMS = {
    "tell": r"\b(?:tells?|told|telling)\b", "but for": r"\bbut for\b", "those of": r"\bthose of\b",
    "look": r"\blook(?:s|ed|ing)? (?:for|at|whether|after|again)\b", "so many": r"\bso many\b",
    "else": r"[,;] else (?!if\b)", "is there": r"\b(?:that|which|what|who|where) (?:is|are) there\b",
    "who": r"(?:^|[:;] )[Ww]ho\b", "what there is": r"\b[Ww]hat there is\b", "behind": r"\bbehind (?:that|which|it)\b"}
AUXILIARIES = set("""is are was were has have had does do did can may must will shall should would could cannot might
isn't aren't doesn't don't can't won't needs""".split())
VERBS = """abort accept account acquire adapt add adopt advance agree aim align allocate allow answer append
apply arrive ask assemble assign assume attach avoid await balance bear become begin belong bind block break
bring build call cancel capture carry catch change charge check choose claim clear close collect combine
come compare compile complete compute configure connect consist contain continue convert copy correspond
cost count cover create deal decide declare define delay delete deliver depend describe destroy detect
determine die differ disagree discard divide document download draw drive drop emulate empty enable encode end
enqueue ensure enter estimate evict examine exceed exchange execute exist exit expect explain export expose
extend fail fill find finish fit flush fold follow forget fork form free gather generate get give go grow
guard halve hand handle hang happen hash have hide hint hold identify ignore implement import include
increase indicate inherit initialise initialize insert install intend interpret interrupt invalidate join
judge keep kill know last launch lay lead learn leave let lie limit link list listen live load lock log look
lose make map mark match matter mean measure meet merge modify move multiply name need note notice notify
number observe occur offer open order overlap overwrite own pack pair park parse pass pay perform permit
pick pin place plan play point poll post prefer prepare prevent print probe produce promise propagate
protect prove provide publish pull push put queue raise read receive recognise record recover reduce refer
refuse register release rely remain remember remove rename render repeat replace replay report represent
request require reserve reset resolve restore resume retry return reuse reverse rewrite rise round run
sample save say scale scan schedule see seem select send separate serve set share shorten show shrink shut
signal simulate skip sleep sort span speak spend spin split stage stand start state stay step stop store
stream stretch submit subtract succeed suffice sum summarise support suppose swap synchronise synchronize
take talk test throw time touch track train transfer translate trust try turn unmap update use validate vary
verify visit vote wait wake walk want warn watch win work wrap write yield""".split()
VOWEL_Y = ("ay", "ey", "oy", "uy")


def third_person(verb):
    if verb.endswith("y") and not verb.endswith(VOWEL_Y):
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


THIRD = {third_person(verb) for verb in VERBS} | {"has", "is", "does"}
BASE = set(VERBS)
# A form right after one of these is a noun, or the verb of a clause without a main sentence.
NOT_BEFORE_VERB = set("""a an the of all its no two three both these those each every some many by in on for with to
from that which who whose where what if when while until unless as such per their his her your""".split())
PLURAL_SUBJECTS = {"they", "we", "you", "i", "and"}


def words(text):
    return re.findall(r"[\w'`][\w'`./()*<>\[\]&+=:-]*", text)


def any_plural(found):
    return any(len(word) > 3 and word.endswith("s") for word in found)


def has_verb(sentence):
    """Says whether a finite verb that is not in a relative clause was found."""
    found = [re.sub(r"[^\w']", "", word).lower() if "(" not in word else "()" for word in words(sentence)]
    for index, word in enumerate(found):
        before = found[index - 1] if index else ""
        after = found[index + 1] if index + 1 < len(found) else ""
        if before in NOT_BEFORE_VERB:
            continue
        if word in AUXILIARIES or (word in THIRD and after != "of"):
            return True
        if word in BASE and (index == 0 or before in PLURAL_SUBJECTS or (after and any_plural(found[:index]))):
            return True
    return False


def sentences(text):
    text = re.sub(r"\b(e\.g|i\.e|cf|vs|etc)\.", r"\1", text)
    parts = re.split(r"(?<=[.!?])[)\"'`*]*\s+(?=[(\"'`*]*[A-Z0-9`@<])|\n\n", text)
    return [part.strip() for part in parts if part.strip()]


TAG = re.compile(r"\s*[@\\](?:(file|mainpage|brief|(def|addto|in)group \w+|[{}])|"
                 r"(param(\[\w+\])? *\w+(, \w+)*|returns?|retval +\w+|note|warning)\b)")


class Block:
    """A comment or a paragraph: `kind` is 'function', 'thing', 'text', 'trailing', 'opening' or 'page'."""

    def __init__(self, kind, line, text):
        self.kind, self.line = kind, line
        text = re.sub(r"SPDX-License-Identifier: \S+", "", text)
        text = code_gone(re.sub(r"^ {4,}\S.*$", "\n", text, flags=re.M))
        text = re.sub(r"\n\s*- ", "\n\n", text)
        text = TAG.sub("\n\n", text)
        self.sentences = sentences(re.sub(r"(?<!\n)\n(?!\n)", " ", text))

    def is_fragment(self):
        if self.kind in ("trailing", "page") or not self.sentences:
            return False
        first = self.sentences[0]
        if OPENINGS.match(first):
            return True
        return self.kind in ("function", "opening") and len(words(first)) > 2 and not has_verb(first)


def decorations_gone(comment):
    """Returns the text of a C comment; an indented example keeps its indent."""
    lines = re.sub(r"^/\*+<?|\*+/$", "", comment).splitlines()
    return "\n".join(re.sub(r"^\s*(///?<?|//!?<?|\*(?=\s|$)) ?", "", line).rstrip() for line in lines)


TAGS = re.compile(r"^\W*(NOLINT|clang-format|IWYU|-{3,}|={3,}|extern \"C\"|namespace\b)", re.I)
PREFIX = re.compile(r"\s*(\[\[.*?\]\]\s*|template\s*<.*?>\s*)*", re.S)
THING = re.compile(r"(class|struct|enum|union|typedef|using|namespace|concept|#|(static )?constexpr|case)\b|"
                   r"[\w:<>,*&\s]+\b\w+\s*([=\[].*)?$", re.S)
FUNCTION = re.compile(r"(?!(return|else|do|co_\w+|if|for|while|switch)\b)[\w:<>,*&\s]+[\s*&]+[~\w:]+\s*\(", re.S)


def kind_of(code):
    """Returns what a comment before `code` describes."""
    head = re.split(r"[;{]", code[:800], maxsplit=1)[0]
    head = re.sub(r"\balignas\s*\([^)]*\)\s*", "", head[PREFIX.match(head).end():])
    if FUNCTION.match(head) and "=" not in head.split("(")[0]:
        return "function"
    return "thing" if THING.match(head) else "text"


def c_blocks(text):
    run = []  # (start, end) of // lines that follow each other

    def finish():
        if run:
            start, end = run[0][0], run[-1][1]
            yield Block(kind_of(text[end:]), text.count("\n", 0, start) + 1, decorations_gone(text[start:end]))
            run.clear()

    for found in tree.NOT_CODE.finditer(text):
        comment = found[0]
        if not comment.startswith(("//", "/*")) or TAGS.match(decorations_gone(comment).strip() or "---"):
            continue
        line_start = text.rfind("\n", 0, found.start()) + 1
        alone = not text[line_start:found.start()].strip()
        if run and (not alone or comment.startswith("/*") or text[run[-1][1]:found.start()].strip(" \t") != "\n"):
            yield from finish()
        if alone and comment.startswith("//"):
            run.append((found.start(), found.end()))
            continue
        trailing = not alone or comment.startswith("/**<") or comment.startswith("///<")
        kind = "trailing" if trailing else kind_of(text[found.end():])
        yield Block(kind, text.count("\n", 0, found.start()) + 1, decorations_gone(comment))
    yield from finish()


def python_blocks(text):
    yield from hash_blocks(text)
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.string.startswith('"""') and token.line.lstrip().startswith('"""'):
            kind = {"def": "function", "class": "thing"}.get(before, "text")
            yield Block(kind, token.start[0], token.string.strip('"'))
        if token.type == tokenize.NAME and token.string in ("def", "class"):
            before = token.string


def hash_blocks(text):
    for found in re.finditer(r"(?:^[ \t]*#(?!!)[^\n]*\n)+", text, re.M):
        body = re.sub(r"^[ \t]*# ?", "", found[0], flags=re.M)
        if body.strip() and not TAGS.match(body):
            yield Block("text", text.count("\n", 0, found.start()) + 1, body)


def blocks(path):
    """Returns the comments of a source."""
    text = tree.read(path)
    if tree.is_c(path):
        return list(c_blocks(text))
    if tree.is_python(path):
        return list(python_blocks(text))
    return list(hash_blocks(text)) if tree.is_shell(path) or path.name.startswith("meson") else []


def code_gone(text):
    return re.sub(r"`[^`]*`", "`code`", text)


def links_gone(text):
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


class Page:
    """A page of Markdown cut into paragraphs, cells of tables and lines that are too wide."""

    def __init__(self, text):
        self.paragraphs, self.cells, self.wide = [], [], []
        text = re.sub(r"\A---\n.*?\n---\n", lambda head: "\n" * head[0].count("\n"), text, flags=re.S)  # its data
        lines, fence, table = [], False, False

        def finish(number):
            if lines:
                kind = "page" if self.paragraphs else "opening"  # of the page
                self.paragraphs.append(Block(kind, number - len(lines), links_gone("\n".join(lines))))
                lines.clear()

        for number, line in enumerate(text.splitlines() + [""], 1):
            if line.lstrip().startswith("```"):
                finish(number)
                fence = not fence
                continue
            table = line.startswith("|")
            indented = line.startswith("    ") and not lines
            if fence or indented or table or not line.strip() or line.startswith(("#", "<", "![")):
                finish(number)
                if table and not fence:
                    self.cells += [(number, links_gone(cell)) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                continue
            if len(line) > COLUMNS_MAX and " " in line[COLUMNS_MAX:]:
                self.wide.append(number)
            if re.match(r"\s*([-*]|\d+\.) ", line):
                finish(number)
            lines.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line).strip())
        finish(number)


def faults(sentence):
    count = len(words(sentence))
    if count > SENTENCE_WORDS_MAX:
        yield "long sentence", f"{count} words"
    for inner in re.findall(r"\(([^()]*)\)", sentence):
        if len(words(inner)) > PARENTHESIS_WORDS_MAX:
            yield "long parenthesis", f"({inner})"
    if len(re.findall(r"[:;](?=\s|$)", sentence.rstrip(":;"))) > 1:
        yield "second colon", sentence[:60]
    for name, pattern in IDIOMS.items():
        if re.search(pattern, sentence):
            yield "idiom", name


class Findings:
    """The findings in some files, and their figures."""

    def __init__(self):
        self.list = []  # (path, line, kind, text)
        self.blocks = self.paragraphs = self.hard_paragraphs = 0

    def add(self, path):
        if path.suffix == ".md":
            self.add_page(path, Page(tree.read(path)))
            return
        for block in blocks(path):
            if block.kind != "trailing" and block.sentences:
                self.blocks += 1
            if block.is_fragment():
                self.list.append((path, block.line, "fragment", block.sentences[0][:90]))
            self.add_sentences(path, block)

    def add_page(self, path, page):
        for paragraph in page.paragraphs:
            self.paragraphs += 1
            if paragraph.is_fragment():
                self.list.append((path, paragraph.line, "page fragment", paragraph.sentences[0][:90]))
            if any(len(words(sentence)) >= PARAGRAPH_SENTENCE_WORDS for sentence in paragraph.sentences):
                self.hard_paragraphs += 1
            self.add_sentences(path, paragraph)
        for line, cell in page.cells:
            if len(words(cell)) > CELL_WORDS_MAX:
                self.list.append((path, line, "long cell", cell.strip()[:90]))
            self.list += [(path, line, kind, text) for kind, text in faults(code_gone(cell)) if kind == "idiom"]
        self.list += [(path, line, "wide line", "") for line in page.wide]

    def add_sentences(self, path, block):
        for sentence in block.sentences:
            for kind, text in faults(sentence):
                self.list.append((path, block.line, kind, f"{text}: {sentence[:70]}"))

    def count(self, kind):
        return sum(1 for it in self.list if it[2] == kind)

    def figures(self):
        def share(part, whole):
            return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "none"
        kinds = ("page fragment", "long sentence", "long parenthesis", "second colon", "long cell", "wide line",
                 "idiom")
        return [f"comments that begin with a fragment: {share(self.count('fragment'), self.blocks)}",
                f"paragraphs with a sentence of {PARAGRAPH_SENTENCE_WORDS} words or more: "
                f"{share(self.hard_paragraphs, self.paragraphs)}",
                ", ".join(f"{kind}: {self.count(kind)}" for kind in kinds)]


@functools.cache
def measure(paths):
    """Returns the findings in a tuple of files."""
    findings = Findings()
    for path in paths:
        findings.add(path)
    return findings


def written():
    """Returns the files of the tree in which people write sentences."""
    return tuple(path for path in tree.all_files()
                 if path.suffix == ".md" or tree.is_code(path) or path.name == "meson.build")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="list the findings, worst files first")
    parser.add_argument("paths", nargs="*", help="files or folders below the root; all without any")
    options = parser.parse_args()
    chosen = tuple(path for path in written()
                   if not options.paths or any(str(path) == at or str(path).startswith(at.rstrip("/") + "/")
                                               for at in options.paths))
    findings = measure(chosen)
    if options.report:
        by_file = collections.Counter(it[0] for it in findings.list)
        for path, _ in by_file.most_common():
            for _, line, kind, text in (it for it in findings.list if it[0] == path):
                print(f"{path}:{line}: {kind}: {text}")
    print("\n".join(findings.figures()))


if __name__ == "__main__":
    main()
