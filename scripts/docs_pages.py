#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages as Doxygen reads them: docs_pages.py ROOT OUT writes README.md and docs/*.md to OUT/pages.

Doxygen knows headings by labels only, so each heading gets the label PAGE--HEADING, and each link to the heading
names this label. Links to files that are not on the site, such as sources and laboratory notes, become plain text."""

import posixpath
import re
import sys
from pathlib import Path

MAIN = "docs/README.md"
QUOTED_CODE = re.compile(r"(?<!`)`([^`\n]*'[^`\n]*)`(?!`)")  # `x' is a quotation to Doxygen


def slug(heading):
    """Returns the anchor of a heading, as GitHub makes it."""
    text = re.sub(r"\]\([^)]*\)", "]", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def label(page):
    """Returns the name of a page on the site."""
    return "index" if page == MAIN else "page_" + Path(page).stem.lower().replace("-", "_")


def without_quotes(row):
    """Returns a row of a table without an apostrophe, which ends a quotation for Doxygen."""
    cells = re.split(r"(`[^`]*`)", row)
    return "".join(f"`{cell}`" if at % 2 and "'" in cell else cell if at % 2 else cell.replace("'", "&rsquo;")
                   for at, cell in enumerate(cells))


def converted(text, page, pages):
    """Returns a page for Doxygen. `pages` are the names of all pages of the site, from the root."""
    def link(found):
        words, target, anchor = re.sub(r"\s+", " ", found[1]), found[2], found[3]  # Doxygen ends a link with its line
        if "://" in target:
            return found[0]
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
        if name == "include/rondo/rondo.h":
            return f"[{words}](@ref rondo.h)"
        if name not in pages:
            return words
        return f"[{words.replace('`', '')}](@ref {label(name)}{'--' + anchor if anchor else ''})"

    lines, fence, first = [], False, True
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fence = not fence
        heading = None if fence else re.match(r"(#+) (.*)$", line)
        if heading:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2]).replace("`", "")
            name = label(page) if first else f"{label(page)}--{slug(heading[2])}"
            line = f"{heading[1]} {title}" + ("" if name == "index" else f" {{#{name}}}")
            first = False
        lines.append(line)
    parts = re.split(r"(^[ ]*```.*?^[ ]*```)", "\n".join(lines), flags=re.M | re.S)  # a fence stays as it is
    for at in range(0, len(parts), 2):
        part = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]*)(?:#([^)\s]+))?\)", link, parts[at])
        part = re.sub(r"\*\*(`[^`]*`)\*\*", r"\1", part)
        part = re.sub(r"^(?!\|).*$", lambda line: QUOTED_CODE.sub(r"``\1``", line[0]), part, flags=re.M)
        part = re.sub(r"^\|.*$", lambda row: without_quotes(row[0]), part, flags=re.M)
        parts[at] = re.sub(r"#(?=wrong)", r"\\#", part)
    return "".join(parts) + "\n"


def main():
    root, out = Path(sys.argv[1]), Path(sys.argv[2]) / "pages"
    pages = ["README.md", *sorted(str(path.relative_to(root)) for path in (root / "docs").glob("*.md"))]
    out.mkdir(parents=True)
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        (out / f"{label(page)}.md").write_text(converted(text, page, pages), encoding="utf-8")


if __name__ == "__main__":
    main()
