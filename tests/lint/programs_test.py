# SPDX-License-Identifier: Apache-2.0
"""Tests that a bare Debian has every program that scripts and tests start, once scripts/lib.sh has run.

A bare root has Debian's required packages and apt. A program that a file first searches (`command -v`, shutil.which)
may be missing, since that file handles this itself.
"""

import functools
import os
import re
import shutil
import subprocess
import unittest

import programs
import source_tree as tree

PACKAGES = {  # package: the programs of it that are used
    # A bare root has these.
    "apt": "apt-config apt-get",
    "bash": "bash",
    "bsdutils": "renice",
    "coreutils": "basename cat chmod chown chroot cp cut dirname du env head id install ln ls mkdir mktemp mv nproc "
                 "paste readlink realpath rm sleep sort stat tail tee touch tr uname wc",
    "dash": "sh",
    "dpkg": "dpkg dpkg-deb dpkg-query",
    "findutils": "find",
    "grep": "grep",
    "gzip": "gzip",
    "libc-bin": "getent ldconfig ldd",
    "mawk": "awk",
    "mount": "mount",
    "passwd": "useradd",
    "sed": "sed",
    "tar": "tar",
    "util-linux": "nsenter runuser setarch setsid taskset unshare",
    # The scripts install these packages, or depend on them.
    "binutils": "nm readelf strip",
    "buildah": "buildah",
    "cmake": "cmake",
    "debootstrap": "debootstrap",
    "doxygen": "doxygen",
    "gcc": "gcc",
    "groff-base": "groff",
    "meson": "meson",
    "ninja-build": "ninja",
    "pkg-config": "pkg-config",
    "python3": "python3",
}
MAY_BE_MISSING = {
    "git": "scripts/check-fresh then copies the folder with tar, scripts/gpu-bundle says 'unknown' for the commit",
}
HOME = {name: package for package, names in PACKAGES.items() for name in names.split()}
PLACES = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")  # not the PATH, on which a user may have others of these names


def installed_by_scripts():
    """Returns the Debian packages that lib.sh lists, and those that a script names to install_packages."""
    text = tree.read("scripts/lib.sh")
    lists = re.findall(r"^packages_\w+=\((.*?)\)", text, re.M | re.S)
    lists += re.findall(r"\becho (clang .*?) ;;", text)
    for path in tree.all_files():
        if tree.is_shell(path):
            lists += re.findall(r"^ *install_packages ([a-z][\w.+ -]*)$", tree.read(path), re.M)
    return {name for names in lists for name in names.split() if "==" not in name}


@functools.lru_cache
def calls():
    """Returns (path, line, program) of each program that a script or test starts without a search for it. Also
    returns the names of the programs for which they search."""
    sources = {path: tree.read(path) for path in tree.all_files()
               if tree.is_shell(path) or tree.is_python(path) and path.parts[0] in ("scripts", "tests", "bench")}
    starters, functions = {}, set()
    for path, text in sources.items():
        if tree.is_python(path):
            starters |= programs.Python(text).starters
    readers = {path: programs.Python(text, starters) if tree.is_python(path) else programs.Shell(text)
               for path, text in sources.items()}
    for path, reader in readers.items():
        if not tree.is_python(path):
            functions |= reader.functions  # those of lib.sh are called by the others
    started = [(path, line, name) for path, reader in readers.items() for name, line in reader.calls
               if name not in programs.BUILTINS | functions | reader.asked]
    return started, {name for reader in readers.values() for name in reader.asked}


def query(*arguments):
    done = subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-query"), "no dpkg: the table of programs is taken as it is")
class Table(unittest.TestCase):
    """The table agrees with this Debian or Ubuntu."""

    @classmethod
    def setUpClass(cls):
        cls.needs, cls.bare = {}, {"apt"}
        for row in query("-W", "-f", "${Package}\t${Priority}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
                         ).splitlines():
            name, priority, essential, needs, provides = row.split("\t")
            if priority == "required" or essential == "yes":
                cls.bare.add(name)
            for provided in [name, *re.findall(r"[a-z0-9][\w.+-]*(?=$|[ ,])", provides)]:
                cls.needs.setdefault(provided, set()).update(re.findall(r"(?:^|[,|] *)([a-z0-9][\w.+-]*)", needs))

    def brought(self):
        """Returns lib.sh's packages, and all on which they depend."""
        found, open_names = set(), installed_by_scripts()
        while open_names:  # bounded by the packages there are
            name = open_names.pop()
            found.add(name)
            open_names |= self.needs.get(name, set()) - found
        return found

    def test_each_package_of_the_table_is_there_without_being_asked_for(self):
        brought = self.brought()
        for package in PACKAGES:
            self.assertTrue(package in self.bare or package in brought, f"{package} is neither in a bare root nor "
                            "installed by scripts/lib.sh: add it there, or do without its programs")

    def test_each_program_is_of_the_package_that_the_table_names(self):
        files = {}  # program: the paths by which its package may know it
        for name, package in HOME.items():
            path = shutil.which(name, path=":".join(PLACES))
            if path is None or package not in self.needs:
                continue  # such as debootstrap, which scripts/check-fresh installs when it needs it
            linked = re.sub("^/usr", "", path)
            files[name] = {path, linked, "/usr" + linked, os.path.realpath(path)}
        self.assertGreater(len(files), 20)
        owners = {}
        for packages, path in re.findall(r"^(.*): (/.*)$", query("-S", *sorted(set().union(*files.values()))), re.M):
            owners.setdefault(path, []).extend(re.findall(r"(?:^|, )([\w.+-]+)", packages))
        for name, paths in files.items():
            named = [owner for path in paths for owner in owners.get(path, [])]
            if name == "awk" or not named:
                continue  # an alternative: gawk's, where a user has it
            self.assertIn(HOME[name], self.closure_of(named, HOME[name]), name)

    def closure_of(self, owners, package):
        """Returns the owners, and `package` if it is a name for them: g++ depends on g++-12, which has the program."""
        return [*owners, package] if self.needs.get(package, set()) & set(owners) else owners


class Programs(unittest.TestCase):
    def test_every_program_that_is_started_is_in_the_table(self):
        started, _ = calls()
        self.assertGreater(len(started), 100)
        self.assertLessEqual({"tar", "strip", "ninja", "readelf", "sleep"}, {name for _, _, name in started})
        strange = [f"{path}:{line}: {name}" for path, line, name in started
                   if name not in HOME and name not in MAY_BE_MISSING]
        self.assertEqual(strange, [], "these programs may be missing on a bare Debian. Do without them; or look for "
                         "them first (command -v, shutil.which) and say what happens without; or add their package to "
                         "scripts/lib.sh and to the table of tests/lint/programs_test.py")

    def test_the_table_names_no_program_that_nothing_starts(self):
        started, asked = calls()
        self.assertEqual(sorted({*HOME, *MAY_BE_MISSING} - {name for _, _, name in started} - asked), [])


class Reader(unittest.TestCase):
    def test_a_shell_command_is_found_wherever_it_stands(self):
        text = """a1 | b1 "$(c1 `d1`)" && { e1; } <<'END' >file 2>&1  # x1
x2 not a command
END
x=3 y=$(f1) g1 'x3;x4' "${z:-$(h1)}" || if ! i1; then j1; fi
case "$(k1)" in x5 | x6) l1 ;; (x7) m1 <(n1) ; esac
name() { o1; }
for x in x8 x9; do name; done; for ((x16 = 0; x16 < 2; ++x16)); do name; done
words=(p1 x10); "${words[@]}" x11
env -i A=b timeout 3 q1; sh -c 'r1; s1'; trap 't1' EXIT; command -v x12 && "$x13" scripts/x14; (cd x15; u1)"""
        shell = programs.Shell(text)
        names = {name for name, _ in shell.calls} - programs.BUILTINS - shell.functions - {"env", "sh", "timeout"}
        self.assertEqual(sorted(names), [f"{letter}1" for letter in "abcdefghijklmnopqrstu"])
        self.assertEqual((shell.asked, dict(shell.calls)["u1"]), ({"x12"}, 9))

    def test_a_python_command_is_found_through_the_functions_that_start_it(self):
        text = '''
def start(seconds, command): subprocess.run(command or ["a1"])
def told(*command): return subprocess.run([str(word) for word in command])
def other(words): subprocess.run([OWN, *words])
subprocess.Popen(["b1", "x1"]); start(3, ["c1"]); told("d1", "x2"); other(["x3"]); shutil.which("x4")
later = ["e1", "x5"]
start(1, later); elsewhere(["f1"]); job(command=["sh", "-c", f"g1 {later}"])'''
        python = programs.Python(text, {"elsewhere": (0, "command", False), "other": (0, "command", False)})
        self.assertEqual(sorted({name for name, _ in python.calls}), ["b1", "c1", "d1", "e1", "f1", "g1", "sh"])
        self.assertEqual(python.asked, {"x4"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
