# SPDX-License-Identifier: Apache-2.0
"""Tests the documentation: links lead to pages, the README's example is built, errors.md has each status."""

import re
import unittest

import source_tree as tree

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|\bsrc=\"([^\"]+)\"")


# The limit is 45,000 words, and 3,500 for messages, splits and Python, which were added after the pages were shortened.
WORDS_MAX, LAB_WORDS_MAX = 45000, 15000
# Examples whose code is on another page than the guide.
ELSEWHERE = {"all_reduce.c": "docs/get-started.md", "data_parallel.c": "docs/overlap.md",
             "messages.c": "docs/messages.md", "overlap.c": "docs/overlap.md", "survivors.c": "docs/recovery.md"}
# Pages show only some lines of these examples. All other examples are shown whole.
IN_PART = ("all_reduce.py", "data_parallel.c", "device.c", "messages.c", "overlap.c", "recovery.c", "registered.c",
           "survivors.c", "threads.c", "unique_id.c")
# Symptoms may have these words, which the linker, pkg-config, the compiler or the kernel prints, and not Rondo.
OF_THE_SYSTEM = {"error while loading shared libraries", "librondo.so.", "Package rondo was not found",
                 "rondo/rondo.h", "No such file", "RONDO_PRIVATE_", "not found (required by rondo)", "undefined symbol",
                 "rondo_", "Connection refused", "Connection timed out", "Network is unreachable",
                 "transport retry counter exceeded"}
# The exceptions are a whole application, and the Python form of a program that a page shows.
WHOLE = ("word_count.c", "data_parallel.py")


def pages():
    return [path for path in tree.all_files() if path.suffix == ".md"]


def interface():
    """Returns the public headers, without comments."""
    text = "".join(tree.read(path) for path in tree.public_headers())
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def installed_pages():
    """Returns the pages that are installed below share/doc/rondo: all except the laboratory notes."""
    return {str(page) for page in pages() if page.parts[0] == "docs" and "lab" not in page.parts}


def string_literals(text):
    """Returns the string literals of C++ with neighbours joined, as the compiler does."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text))
    return [literal.replace("\\n", "\n") for literal in literals]


def header_names(pattern):
    return set(re.findall(pattern, tree.read("include/rondo/types.h"), re.M))


def anchors(page):
    """Returns the names that links give to the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", tree.read(page), flags=re.M | re.S)
    names = []
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading).lower()).strip().replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return set(names)


class Documentation(unittest.TestCase):
    def test_every_link_to_a_heading_leads_to_one(self):
        broken, count = [], 0
        for page in pages():
            for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", tree.read(page)):
                if "://" in target:
                    continue
                place = (tree.ROOT / page.parent / target).resolve() if target else tree.ROOT / page
                count += 1
                if place.suffix == ".md" and anchor not in anchors(place.relative_to(tree.ROOT)):
                    broken.append(f"{page}: {target}#{anchor}")
        self.assertEqual(broken, [])
        self.assertGreater(count, 10)

    def test_every_page_that_a_source_or_a_message_names_is_there(self):
        named = [(path, name) for path in tree.all_files() if path.suffix != ".md" and str(path.parent) != "docs/images"
                 for name in re.findall(r"\bdocs/(?:lab/)?[\w-]+\.(?:md|1)\b", tree.read(path))]
        self.assertGreater(len(named), 20)
        self.assertEqual([it for it in named if not (tree.ROOT / it[1]).is_file()], [])

    def test_every_page_that_users_are_sent_to_is_installed(self):
        """Checks the pages that messages, helps, the manual page and the public headers name. Texts for users must name
        the installed page, since users have no sources."""
        installed = installed_pages()
        shown = [(path, text) for path in tree.all_files()
                 if path.suffix in (".cpp", ".h") and path.parts[0] in ("src", "bench", "transports", "cuda")
                 for text in string_literals(tree.read(path))]
        shown.append(("docs/rondo.1", tree.read("docs/rondo.1")))
        named = [(path, *found) for path, text in shown
                 for found in re.findall(r"([\w/]*?)(docs/[\w/-]+\.(?:md|1))\b", text)]
        self.assertGreater(len(named), 5)
        self.assertEqual([it for it in named if it[1] != "share/doc/rondo/" or it[2] not in installed], [])
        page_names = re.search(r"share/doc/rondo/docs ,(.*?)\.I ", tree.read("docs/rondo.1"), re.S)[1]
        self.assertEqual({name for name in re.findall(r"[\w-]+\.md", page_names) if f"docs/{name}" not in installed},
                         set())
        headers = [(path, name) for path in tree.public_headers()
                   for name in re.findall(r"\bdocs/[\w/-]+\.md\b", tree.read(path))]
        self.assertGreater(len(headers), 5)
        self.assertEqual([it for it in headers if it[1] not in installed], [])

    def test_a_name_in_a_joined_string_is_seen(self):
        self.assertEqual(string_literals('f("see do"\n  "cs/x\\ny");  // "z"\n'), ["see docs/x\ny"])

    def test_every_link_within_the_checkout_leads_to_a_file(self):
        broken = []
        for page in pages():
            for match in LINK.finditer(tree.read(page)):
                target = match[1] or match[2]
                if "://" not in target and not (tree.ROOT / page.parent / target).resolve().is_file():
                    broken.append(f"{page}: {target}")
        self.assertEqual(broken, [])

    def test_every_page_is_in_the_index(self):
        for folder in ("docs", "docs/lab"):
            index = tree.read(f"{folder}/README.md")
            missing = [page.name for page in pages()
                       if str(page.parent) == folder and page.name != "README.md" and f"({page.name})" not in index]
            self.assertEqual(missing, [])

    def test_pages_are_as_short_as_they_should_be(self):
        """Checks the words of all pages together. Words may move between pages, so the sum cuts no single page."""
        count = {folder: sum(len(tree.read(page).split()) for page in pages() if str(page.parent) == folder)
                 for folder in ("docs", "docs/lab")}
        print(count)
        self.assertLessEqual(count["docs"], WORDS_MAX)
        self.assertLessEqual(count["docs/lab"], LAB_WORDS_MAX)

    def test_the_example_of_the_readme_is_the_one_that_is_built(self):
        blocks = re.findall(r"```c\n(.*?)```", tree.read("README.md"), re.S)
        source = tree.read("examples/all_reduce.c")
        code = re.sub(r"\A(?:/\*.*?\*/|//[^\n]*\n|\s)*", "", source, flags=re.S)  # without its head comment
        self.assertIn(code.strip(), [block.strip() for block in blocks])

    def test_the_citation_has_the_version_of_the_build(self):
        version = re.search(r"version: '([\d.]+)'", tree.read("meson.build"))[1]
        self.assertIn(f"\nversion: {version}\n", tree.read("CITATION.cff"))

    def test_pages_show_every_example_as_it_is_and_the_guide_leads_to_it(self):
        blocks = {page: [block.rstrip() for block in re.findall(r"```(?:c|python)\n(.*?)```", tree.read(page), re.S)]
                  for page in ("docs/guide.md", *ELSEWHERE.values())}
        examples = [path for path in tree.all_files() if path.parent.name == "examples" and
                    path.suffix in (".c", ".py") and path.name not in WHOLE]
        for path in examples:
            code = re.sub(r"\A(?:/\*.*?\*/|# SPDX[^\n]*\n)", "", tree.read(str(path)), flags=re.S).strip("\n")
            mine = blocks[ELSEWHERE.get(path.name, "docs/guide.md")]
            shown = [block for block in mine if f"\n{block}\n" in f"\n{code}\n"]
            self.assertEqual(len(shown), 1, path)
            self.assertGreater(len(shown[0].splitlines()), 8, path)
            if path.name not in IN_PART:
                self.assertEqual(shown[0], code, path)
            mine.remove(shown[0])
            self.assertIn(f"(../examples/{path.name})", tree.read("docs/guide.md"))
        self.assertEqual([block for each in blocks.values() for block in each], [])

    def test_the_table_of_calls_names_every_collective_and_no_function_that_is_not_there(self):
        text = tree.read("docs/migrate.md")
        declared = set(re.findall(r"\b(rondo_\w+)\(", interface()))
        table = text.split("## The calls")[1]
        self.assertEqual(set(re.findall(r"\brondo_\w+", table)) - declared, set())
        wanted = {name for name in declared if re.search(r"(reduce|gather|scatter|broadcast|barrier)(_v)?$", name)}
        self.assertEqual(wanted - set(re.findall(r"\brondo_\w+", table)), set())

    def test_the_guide_names_the_default_function_of_each_struct(self):
        defaults = re.findall(r"\brondo_\w+_default(?=\()", interface())
        text = tree.read("docs/guide.md").split("## From other languages")[1]
        self.assertGreater(len(set(defaults)), 3)
        self.assertEqual({name for name in defaults if f"`{name}()`" not in text}, set())

    def test_a_message_leads_to_its_row_of_troubleshooting(self):
        """Checks that each symptom in code spans has the words of a message, so that a search for the words finds
        the row. What varies divides a symptom into parts: an ellipsis, a number, or what follows a colon."""
        text = "\n".join(literal for path in tree.all_files()
                         if path.suffix in (".cpp", ".h") and path.parts[0] in ("src", "transports", "cuda")
                         for literal in string_literals(tree.read(path)))
        rows = re.findall(r"^\| ([^|]+) \|", tree.read("docs/troubleshooting.md"), re.M)
        parts = {part.strip() for row in rows for symptom in re.findall(r"`([^`]+)`", row)
                 if not re.match(r"RONDO_\w+=", symptom)
                 for part in re.split(r"\(?\.\.\.\)?|\d+|: |:$", symptom)} - {""}
        self.assertGreater(len(parts), 40)
        self.assertEqual({part for part in parts - OF_THE_SYSTEM if part not in text}, set())
        self.assertEqual(OF_THE_SYSTEM - parts, set())
        literals = string_literals(tree.read("src/cli/main.cpp"))
        self.assertIn("share/doc/rondo/docs/troubleshooting.md", "".join(literals))

    def test_errors_md_has_every_status_and_its_text(self):
        known = header_names(r"^  (RONDO_(?:OK|NOT_READY|ERROR_\w+)) = \d+")
        self.assertEqual(len(known), 16)
        rows = dict(re.findall(r"^\| `(RONDO_\w+)` \| ([\w ]+) \|", tree.read("docs/errors.md"), re.M))
        self.assertEqual(set(rows), known)
        texts = re.search(r"rondo_status_string.*?\{(.*?)\}", tree.read("src/api/names.cpp"), re.S)[1]
        self.assertEqual(list(rows.values()), string_literals(re.sub(r",\s*", ",", texts)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
