# SPDX-License-Identifier: Apache-2.0
"""This test holds the rules of writing over the whole tree: no file has a finding of sentences.py."""

import unittest

import sentences
import source_tree as tree

FRAGMENTS = [
    "// Of links over TCP: other networks ignore the setting.\nint f();",
    "/// What submit() would choose.\nPlan choose();",
    "/// The first violation found, or none: proven.\nint verify(const Schedule &schedule);",
    "/// As rondo_config_default().\nint defaults(void *target);",
    "/* Where the recording goes. */\nint x;",
    "/// Ranks that have died.\nstd::vector<uint32_t> dead() const;",
    "def f():\n    \"\"\"What headings of a page are called.\"\"\"\n",
]
WHOLE = [
    "/// Waits until every rank has called it.\nvoid wait();",
    "/// Returns the number of links of `rank`.\n[[nodiscard]] uint32_t links_of(uint32_t rank) const;",
    "/// A link of one rank to another.\nstruct Link {};",
    "/// Captures the calls.\nvoid capture(Graph graph);",
    "/// Judges the load.\nint judge(int load);",
    "/// Summarises the times.\nint summarise(Times times);",
    "/// Notes the place.\nvoid note(Place place);",
    "/// Restores all signals.\nvoid restore();",
    "/// Lives as a rank.\nvoid live(int rank);",
    "/// The rank dies after one sum.\nvoid die(int rank);",
    "/// Sums over all ranks.\nint sum(int value);",
    "/// Assembles the topology.\nTopology assemble();",
    "/// Rewrites the inputs only.\nvoid rewrite(Inputs inputs);",
    "/// Configures a folder.\nvoid configure(Folder folder);",
    "/// Requests the cache line of `address`.\nvoid prefetch(const void *address);",
    "/// bytes of one slot\nuint64_t slot_bytes = 0;",
    "/// A counter alone in its cache line.\nstruct alignas(64) Counter {};",
    "// By default a stream spins.\nint f();",
    "// If a peer has died, the wait ends.\nif (x) f();",
    "/// Ranks share a ring.\nvoid ring();",
    "// Where a peer has died, the wait ends.\nint f();",
    "int x = 0;  // of links\n",
    "const char *url = \"https://of.example\";",
    "# The docs are made here.\nx = 1\n",
]
LONG = "The rank " + "reads one slot and " * 7 + "stops."  # 31 words


def blocks_of(sample):
    return list(sentences.python_blocks(sample) if sample.startswith(("def", "#")) else sentences.c_blocks(sample))


def kinds_in(text):
    return [kind for sentence in sentences.Block("page", 1, text).sentences for kind, _ in sentences.faults(sentence)]


def messages(findings):
    return [f"{path}:{line}: {kind}: {text}" for path, line, kind, text in findings]


class Sentences(unittest.TestCase):
    maxDiff = None

    def test_fragments_are_found(self):
        for sample in FRAGMENTS:
            self.assertEqual([block.is_fragment() for block in blocks_of(sample)], [True], sample)

    def test_whole_sentences_and_noun_phrases_of_things_are_not(self):
        for sample in WHOLE:
            self.assertFalse(any(block.is_fragment() for block in blocks_of(sample)), sample)

    def test_what_is_too_much_in_a_sentence_is_found(self):
        for kind, text in [("long sentence", LONG),
                           ("long parenthesis", "It waits (as long as one of the others has not come) and ends."),
                           ("second colon", "It waits: a peer is late; the deadline counts."),
                           ("idiom", "The rank tells its peers."), ("idiom", "All ranks but for the root send."),
                           ("idiom", "It looks for a peer."), ("idiom", "The blocks are those of the root."),
                           ("idiom", "It waits; else the call fails."), ("idiom", "Who waits is woken.")]:
            self.assertEqual(kinds_in(text), [kind], text)

    def test_a_plain_sentence_has_no_fault(self):
        for text in ["The rank reads one slot and stops. " * 9, "It waits (at most 2 s) and ends: the peer is late.",
                     "Run `rondo info; rondo perf: x; y` once.", "A rank that is late, or who started it, is named.",
                     "The function returns 0. Otherwise it returns 1, e.g. 2."]:
            self.assertEqual(kinds_in(text), [], text)

    def test_a_page_is_cut_into_paragraphs_cells_and_wide_lines(self):
        wide = "word " * 30
        page = sentences.Page(f"# Head\n\nOne line\nand one.\n\n- item one\n- item two\n\n```c\n{wide}\n```\n"
                              f"| a | {LONG} |\n\n    {wide}\n\n{wide}\n[x](https://example.com/{'x' * 120})\n")
        self.assertEqual([block.sentences[0][:8] for block in page.paragraphs],
                         ["One line", "item one", "item two", "word wor"])
        self.assertEqual([line for line, cell in page.cells if len(sentences.words(cell)) > 25], [12])
        self.assertEqual(page.wide, [16])

    def test_a_page_that_opens_with_a_fragment_is_found(self):
        for opening, wanted in [("How a link works.", True), ("All tables, and the pictures.", True),
                                ("This page describes a link.", False), ("Ranks of one host share memory.", False)]:
            page = sentences.Page(f"# Links\n\n{opening}\n\nAnd more.\n")
            self.assertEqual([block.is_fragment() for block in page.paragraphs], [wanted, False], opening)

    def test_the_data_of_a_page_are_no_sentence(self):
        page = sentences.Page("---\nname: a\nabout: b\n---\n\nThis page is short.\n")
        self.assertEqual([(block.line, block.sentences) for block in page.paragraphs], [(6, ["This page is short."])])

    def test_the_tree_is_read(self):
        findings = sentences.measure(sentences.written())
        print("\n".join(findings.figures()))
        self.assertGreater(findings.blocks, 4000)
        self.assertGreater(findings.paragraphs, 800)

    def test_every_file_is_clean(self):
        files = sentences.written()
        self.assertGreater(len(files), 1000)
        self.assertEqual(messages(sentences.measure(files).list), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
