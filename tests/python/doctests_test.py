# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in the docstrings of the Python package and in docs/python.md."""

import doctest
import importlib
import pkgutil
import unittest
from pathlib import Path

import rondo

ROOT = Path(__file__).resolve().parents[2]


class Examples(unittest.TestCase):
    def test_the_docstrings_say_what_happens(self):
        attempted = 0
        for module in pkgutil.iter_modules(rondo.__path__, "rondo."):
            if module.name == "rondo.torch":  # needs PyTorch, and has no examples to run
                continue
            done = doctest.testmod(importlib.import_module(module.name))
            self.assertEqual(done.failed, 0, module.name)
            attempted += done.attempted
        self.assertGreater(attempted, 30)

    def test_the_page_says_what_happens(self):
        done = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False)
        self.assertEqual(done.failed, 0)
        self.assertGreaterEqual(done.attempted, 10)

    def test_every_public_name_has_a_docstring(self):
        for name in rondo.__all__:
            thing = getattr(rondo, name)
            self.assertTrue(thing.__doc__, name)
            if isinstance(thing, type):
                missing = [each for each, value in vars(thing).items()
                           if callable(value) and not each.startswith("_") and not value.__doc__]
                self.assertEqual(missing, [], name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
