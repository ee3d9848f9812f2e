# SPDX-License-Identifier: Apache-2.0
"""Tests the Debian packages of what meson installs: what each contains and depends on, and that nothing is left once
they are installed and removed. Start package_test.py in the build folder. If it is not started as root, it skips the
installation."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.getcwd()
# With xz, packages that these tests only list and unpack would take 19 s. A dpkg-deb older than 1.21.10 ignores this.
QUICK = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rondo-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.folder / "tree")
        run(ROOT / "scripts/package", "--tree", cls.folder / "tree", cls.folder / "out", **QUICK)
        cls.packages = {path.name.split("_")[0]: path for path in (cls.folder / "out").iterdir()}

    def files(self, name):
        lines = run("dpkg-deb", "-c", self.packages[name]).splitlines()
        return {re.sub(r" (->|link to) .*", "", line).split(None, 5)[5] for line in lines if not line.endswith("/")}

    def test_each_installed_file_is_in_one_package(self):
        self.assertEqual(sorted(self.packages), ["librondo-dev", "librondo0", "python3-rondo", "rondo"])
        tree = self.folder / "tree"
        installed = sorted(f"./{path.relative_to(tree)}" for path in tree.rglob("*") if not path.is_dir())
        packed = sorted(re.sub(r"\.1\.gz$", ".1", name) for package in self.packages for name in self.files(package))
        self.assertEqual(packed, installed)
        self.assertEqual({Path(name).name for name in self.files("librondo0")},
                         {"librondo.so.0", "librondo.so.0.1.0", "libnccl.so.2"})

    def test_they_depend_on_what_their_files_ask_for(self):
        depends = run("dpkg-deb", "-f", self.packages["librondo0"], "Depends")
        self.assertEqual(re.findall(r"([\w.+-]+) \(>= [\w.+:~-]+\)", depends),
                         ["libc6", "libhwloc15", "libsodium23"])
        wanted = {"rondo": {"libhwloc", "libsodium", "libstdc"}, "rondo-train": {"libdnnl", "libgomp"}}
        depends = run("dpkg-deb", "-f", self.packages["rondo"], "Depends")
        for name in {Path(file).name for file in self.files("rondo") if "/bin/" in file}:
            for library in wanted.pop(name):
                self.assertIn(library, depends, name)
        self.assertRegex(depends, r"^librondo0 \(= [\d.]+\), ")  # the commands use its library
        self.assertNotIn("rondo", wanted)
        self.assertRegex(run("dpkg-deb", "-f", self.packages["librondo-dev"], "Depends"), r"^librondo0 \(= [\d.]+\)\n$")
        self.assertRegex(run("dpkg-deb", "-f", self.packages["python3-rondo"], "Depends"),
                         r"^librondo0 \(= [\d.]+\), python3 \(>= 3\.9\)\n$")

    @unittest.skipUnless(os.geteuid() == 0, "dpkg installs as root only")
    def test_installed_and_removed_again_they_leave_nothing(self):
        place = self.folder / "root"
        for name in ("updates", "info"):
            (place / "var/lib/dpkg" / name).mkdir(parents=True)
        for name in ("status", "available"):
            (place / "var/lib/dpkg" / name).touch()
        # This root is empty: it has no library that the packages need, and no program that a trigger could start.
        dpkg = ("dpkg", f"--root={place}", "--force-depends", "--no-triggers", "--log=/dev/null",
                "--force-script-chrootless")
        run(*dpkg, "--install", *self.packages.values())
        program = next(place.rglob("bin/rondo"))
        self.assertIn("rondo 0.", run(program, "--version", LD_LIBRARY_PATH=""))
        compiled = next(place.rglob("rondo/py.typed")).parent / "__pycache__" / "__init__.cpython-311.pyc"
        compiled.parent.mkdir()  # as Python makes it, if root imports the package
        compiled.touch()
        run(*dpkg, "--purge", *self.packages)
        left = [path for path in place.rglob("*") if not path.is_dir() and "var/lib/dpkg" not in str(path)]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
