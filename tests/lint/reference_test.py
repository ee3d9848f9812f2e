# SPDX-License-Identifier: Apache-2.0
"""This test holds the reference of the C API. Every function, type, field, enumerator and constant of the public
headers has a comment in the form that scripts/docs reads. No Doxygen is needed for that. If it is installed, it must
agree, and every function must be on the page of its group."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import source_tree as tree

HEADERS = [str(path) for path in tree.public_headers()]
GUARDS = {"RONDO_RONDO_H", "RONDO_COMMUNICATOR_H", "RONDO_QUERIES_H", "RONDO_TYPES_H", "RONDO_WINDOW_H"}
# A comment of this kind describes a file or a group, and not the declaration that follows it.
STRUCTURE = re.compile(r"@(file|defgroup|addtogroup|\{|\})")


def blank(text):
    """Returns `text` with a space for each character except line ends, so that positions stay the same."""
    return re.sub(r"[^\n]", " ", text)


class Header:
    """A header cut into comments and code."""

    def __init__(self, text):
        self.docs = []  # (begin, end, trailing): of /** and of /**<
        code = text
        for comment in re.finditer(r"/\*.*?\*/", text, re.S):
            if comment[0].startswith("/**") and not STRUCTURE.search(comment[0]):
                self.docs.append((comment.start(), comment.end(), comment[0].startswith("/**<")))
            code = code[:comment.start()] + blank(comment[0]) + code[comment.end():]
        self.code = code

    def documented(self, begin, end):
        """Returns whether the code at [begin, end) has a comment right before it, or a trailing one right after it."""
        for doc_begin, doc_end, trailing in self.docs:
            if not trailing and doc_end <= begin and not self.code[doc_end:begin].strip():
                return True
            if trailing and doc_begin >= end and not self.code[end:doc_begin].strip(" ,;\n"):
                return "\n" not in self.code[end:doc_begin]
        return False


def functions(code):
    for found in re.finditer(r"^RONDO_API\b[^;(]*?\b(\w+)\s*\([^;]*;", code, re.M):
        yield found[1], found.start(), found.end()


def constants(code):
    """Yields the first definition of each constant: #if has two of some."""
    seen = set()
    for found in re.finditer(r"^[ ]*#[ ]*define (\w+)((?:[^\n]*\\\n)*[^\n]*)", code, re.M):
        if found[1] in seen or found[1] in GUARDS:
            continue
        seen.add(found[1])
        begin = found.start()
        condition = re.compile(r"^#if[^\n]*\n$", re.M)  # a comment may stand before the condition
        lines = code[:begin].splitlines(keepends=True)
        if lines and condition.match(lines[-1]):
            begin -= len(lines[-1])
        yield found[1], begin, found.start() + len(found[0].rstrip())


def types(code):
    """Yields (name, begin, end, body_begin, body, kind) of each type; if it has a body, the end is the head's."""
    for found in re.finditer(r"^(?:typedef )?(enum|struct)\s*(\w*)\s*\{(.*?)\}\s*(\w*)\s*;", code, re.M | re.S):
        yield found[4] or found[2] or "flags", found.start(), found.start(3), found.start(3), found[3], found[1]
    for found in re.finditer(r"^typedef [^{};]*?\*?(\w+);", code, re.M):
        yield found[1], found.start(), found.end(), 0, "", "handle"


def members(kind, body, offset):
    for part in re.finditer(r"[^,]+" if kind == "enum" else r"[^;]+;", body):
        names = re.findall(r"(\w+)\s*(?=[,;=\[]|$)", part[0].split("=")[0].strip())
        if not names:
            continue
        begin = offset + part.start() + len(part[0]) - len(part[0].lstrip())
        for name in names:  # if a declaration has several, its comment describes none of them
            yield name if len(names) == 1 else f"{name} (one of several in a line)", begin, \
                offset + part.start() + len(part[0].rstrip()), len(names) == 1


def undocumented(text):
    header = Header(text)
    bare = [name for name, begin, end in functions(header.code) if not header.documented(begin, begin)]
    bare += [name for name, begin, end in constants(header.code) if not header.documented(begin, end)]
    for name, begin, end, body_begin, body, kind in types(header.code):
        if not header.documented(begin, begin if body else end):
            bare.append(name)
        bare += [f"{name}.{member}" for member, at, till, alone in members(kind, body, body_begin)
                 if not alone or not header.documented(at, till)]
    return bare


def exported():
    """Returns the names of the functions that librondo.so exports."""
    return {line for line in tree.read("tests/abi/symbols.txt").splitlines() if line and line[0] != "#"}


def broken_links(pages, folder):
    """Returns the links of a site to a missing file or anchor, as (page, link). `pages` maps names to pages."""
    broken = []
    for name, text in pages.items():
        for link in re.findall(r'href="([^"]+)"', text):
            file, _, place = link.partition("#")
            file = file or name
            if re.match(r"(https?|javascript|mailto):", link):
                continue
            there = file in pages and (not place or re.search(rf'(id|name)="{re.escape(place)}"', pages[file]))
            if not there and not (file not in pages and (folder / file).is_file()):
                broken.append((name, link))
    return broken


def documented_functions(page):
    """Returns the functions that have an entry of their own on a page of Doxygen's."""
    entries = re.findall(r'<td class="memname">(.*?)</td>\s*<td>\(</td>', page, re.S)
    return [re.sub(r"<[^>]*>", "", entry).split()[-1].lstrip("*") for entry in entries]


class Reference(unittest.TestCase):
    def test_everything_in_the_public_headers_is_documented(self):
        self.assertEqual({name: undocumented(tree.read(name)) for name in HEADERS}, {name: [] for name in HEADERS})

    def test_nothing_is_overlooked(self):
        """The test sees everything: the exported functions, and the names in constants.json."""
        import json
        told = json.loads(tree.read("include/rondo/constants.json"))
        codes = [Header(tree.read(name)).code for name in HEADERS]
        seen = {name for code in codes for name, *_ in functions(code)}
        self.assertEqual(seen, exported())
        held = {(name, member) for code in codes for name, _, _, at, body, kind in types(code)
                for member, *_ in members(kind, body, at)}
        wanted = {(enum, value) for enum, values in told["enums"].items() for value in values if enum.endswith("_t")}
        wanted |= {(name, field["name"]) for name, struct in told["structs"].items() for field in struct["fields"]}
        self.assertEqual(wanted - held, set())

    def test_each_comment_that_is_taken_away_is_missed(self):
        for name in HEADERS:
            text = tree.read(name)
            comments = [it for it in re.finditer(r"/\*\*.*?\*/", text, re.S) if not STRUCTURE.search(it[0])]
            self.assertGreater(len(comments), 10)
            for comment in comments:
                without = text[:comment.start()] + blank(comment[0]) + text[comment.end():]
                self.assertNotEqual(undocumented(without), [], comment[0])

    @unittest.skipUnless(shutil.which("doxygen"), "no doxygen: scripts/docs installs it")
    def test_doxygen_finds_nothing_undocumented_either(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([str(tree.ROOT / "scripts/docs"), folder], capture_output=True, text=True,
                                  timeout=100, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            pages = {page.name: page.read_text(encoding="utf-8") for page in (tree.ROOT / folder).glob("*.html")}
            documented = [name for page, text in pages.items() if page.startswith("group__")
                          for name in documented_functions(text)]
            self.assertEqual(sorted(documented), sorted(exported()))
            found = "".join(path.read_text(encoding="utf-8") for path in Path(folder).glob("search/functions_*.js"))
            self.assertEqual({name for name in exported() if f"'{name}'" not in found}, set())
            self.assertEqual(broken_links(pages, Path(folder)), [])
            site = "".join(pages.values())
            for page in sorted((tree.ROOT / "docs").glob("*.md")):
                title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").replace("`", "")
                self.assertIn(f'<div class="title">{title}', site, page)
            self.assertNotRegex(site, r"@(?:sub)*section |@ref |\\ilinebr|\]\(@")  # what Doxygen did not understand
            groups = "".join(text for page, text in pages.items() if page.startswith(("group__", "struct")))
            for name in ("RONDO_FLOAT8_E5M2", "timeout_ms", "RONDO_CONFIG_INIT", "RONDO_REGISTER_MOVE_PAGES"):
                self.assertIn(name, groups)

    def test_a_broken_link_is_seen(self):
        pages = {"a.html": '<a href="b.html#x"></a><a href="b.html#y"></a><a href="c.html"></a>',
                 "b.html": '<p id="x"></p><a href="#x"></a><a href="https://example.com/#z"></a>'}
        self.assertEqual(broken_links(pages, Path("nowhere")), [("a.html", "b.html#y"), ("a.html", "c.html")])

    def test_a_listing_of_a_source_documents_no_function(self):
        listing = '<span class="keyword">rondo_status_t</span> rondo_all_reduce(<span>const</span> void *send);'
        self.assertEqual(documented_functions(listing), [])
        entry = '<td class="memname"><a href="x.html">rondo_status_t</a> rondo_all_reduce </td>\n<td>(</td>'
        self.assertEqual(documented_functions(entry), ["rondo_all_reduce"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
