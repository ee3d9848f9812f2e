# SPDX-License-Identifier: Apache-2.0
"""Tests the installed tree, under DESTDIR: install_test.py CC PREFIX LIBDIR PYTHON PLACE CXX, started in the build
folder. PLACE is the folder of the package for PYTHON."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = os.getcwd()
ROOT = HERE.parents[1]
# The laboratory notes are not installed.
DOCUMENTS = {f"share/doc/rondo/{name}" for name in
             ("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md",
              *(f"docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*")
                if path.is_file() and path.name != "rondo.1" and path.relative_to(ROOT / "docs").parts[0] != "lab"))}
EXAMPLES = [path for path in (HERE.parents[1] / "examples").iterdir() if path.suffix in (".c", ".cpp", ".py")]


def run(*command, **environment):
    """Returns standard output. If the command fails, the exception contains its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    compiler, prefix, libdir = ["cc"], "/usr/local", "lib"
    cpp_compiler = ["c++"]
    python, python_place = sys.executable, ""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="rondo-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name) / "root"
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", str(cls.root))
        cls.tree = cls.root / cls.prefix.lstrip("/")
        cls.lib = cls.tree / cls.libdir

    def pkg_config(self, *arguments):
        # The tree is not at its configured prefix, so this command gets the actual prefix.
        return run("pkg-config", f"--define-variable=prefix={self.tree}", *arguments, "rondo",
                   PKG_CONFIG_PATH=str(self.lib / "pkgconfig")).split()

    def test_exactly_what_users_need_is_installed(self):
        files = {str(path.relative_to(self.tree)) for path in self.tree.rglob("*") if not path.is_dir()}
        self.assertEqual({path for path in self.root.rglob("*") if not path.is_dir()},
                         {self.tree / name for name in files}, "something outside of the prefix")
        wanted = {"include/rondo/communicator.h", "include/rondo/queries.h", "include/rondo/rondo.h",
                  "include/rondo/rondo.hpp", "include/rondo/types.h", "include/rondo/window.h",
                  "share/rondo/constants.json",
                  "bin/rondo", "share/man/man1/rondo.1",
                  "share/bash-completion/completions/rondo", "share/zsh/site-functions/_rondo",
                  *(f"share/doc/rondo/examples/{path.name}" for path in EXAMPLES), *DOCUMENTS,
                  *(f"{self.libdir}/{name}" for name in
                    ("librondo.so", "librondo.so.0", "librondo.so.0.1.0", "pkgconfig/rondo.pc",
                     "rondo/nccl/libnccl.so", "rondo/nccl/libnccl.so.2",
                     "cmake/Rondo/RondoConfig.cmake", "cmake/Rondo/RondoConfigVersion.cmake"))}
        package = Path(BUILD) / "src/python/rondo"
        wanted |= {f"{self.python_place}/{path.relative_to(package)}" for path in package.rglob("*")
                   if path.suffix in (".py", ".typed")}
        if (Path(BUILD) / "src/cli/rondo-train").exists():
            wanted.add("bin/rondo-train")
        self.assertEqual(files, wanted)

    def test_a_c_program_found_through_pkg_config_is_built_and_runs(self):
        program = str(Path(self.folder.name) / "consumer")
        flags = self.pkg_config("--cflags", "--libs")
        self.assertIn(f"-I{self.tree}/include", flags)
        run(*self.compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(HERE / "consumer.c"), *flags, "-o", program)
        said = run(program, LD_LIBRARY_PATH=str(self.lib))
        self.assertEqual(said, "11 44\n")

    def test_a_cpp_program_uses_every_handle_of_the_header(self):
        program = str(Path(self.folder.name) / "consumer-cpp")
        flags = self.pkg_config("--cflags", "--libs")
        for standard in ("c++17", "c++20"):
            run(*self.cpp_compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
                "-Werror", str(HERE / "consumer.cpp"), *flags, "-lpthread", "-o", program)
        self.assertEqual(run(program, LD_LIBRARY_PATH=str(self.lib), RONDO_INTERFACE="lo"), "1 rank alone\n")

    def test_every_installed_example_is_built_with_what_pkg_config_says(self):
        folder = Path(self.pkg_config("--variable=examples")[0])
        sources = sorted(folder.glob("*.c"))
        self.assertGreaterEqual(len(sources), 8)
        flags = self.pkg_config("--cflags", "--libs")
        for source in sources:
            run(*self.compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", str(source), *flags,
                "-lpthread", "-ldl", "-o", str(Path(self.folder.name) / source.stem))
        for source in folder.glob("*.cpp"):
            run(*self.cpp_compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", str(source), *flags,
                "-o", str(Path(self.folder.name) / source.stem))

    def test_a_python_program_needs_the_installed_library_and_constants_alone(self):
        constants = self.pkg_config("--variable=constants")[0]
        program = Path(self.pkg_config("--variable=examples")[0]) / "all_reduce.py"
        said = run(str(self.tree / "bin/rondo"), "run", "-n", "3", "--", sys.executable, str(program),
                   str(self.lib / "librondo.so.0"), constants, LD_LIBRARY_PATH=str(self.lib), PYTHONUNBUFFERED="1")
        self.assertEqual(sorted(said.splitlines()), [f"rank {rank} of 3: the sum is 6.0" for rank in range(3)])
        # Without arguments the program calls pkg-config, which gets the actual prefix, as in pkg_config().
        folder = Path(self.folder.name) / "bin"
        folder.mkdir()
        script = f'#!/bin/sh\nPATH=$OLD_PATH exec pkg-config --define-variable=prefix={self.tree} "$@"\n'
        (folder / "pkg-config").write_text(script, encoding="utf-8")
        (folder / "pkg-config").chmod(0o755)
        alone = run(sys.executable, str(program), LD_LIBRARY_PATH=str(self.lib), OLD_PATH=os.environ["PATH"],
                    PATH=f"{folder}:{os.environ['PATH']}", PKG_CONFIG_PATH=str(self.lib / "pkgconfig"))
        self.assertEqual(alone, "rank 0 of 1: the sum is 1.0\n")

    def test_the_python_package_finds_the_installed_library(self):
        look = "import rondo; print(rondo.__version__, open('/proc/self/maps').read())"
        said = run(self.python, "-B", "-c", look, PYTHONPATH=str((self.tree / self.python_place).parent),
                   LD_LIBRARY_PATH="")
        self.assertIn(str(self.lib.resolve() / "librondo.so.0.1.0"), said)

    def cmake(self, name, wanted):
        """Configures a project that requires this version of Rondo. Returns its build folder and the process."""
        source, build = Path(self.folder.name) / name, Path(self.folder.name) / f"{name}-build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(Rondo {wanted} REQUIRED)
add_executable(consumer {HERE / "consumer.c"})
target_link_libraries(consumer PRIVATE Rondo::rondo)
""", encoding="utf-8")
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", build,
                               f"-DCMAKE_PREFIX_PATH={self.tree}"], text=True,
                              env={**os.environ, "CC": self.compiler[-1]}, capture_output=True, timeout=300,
                              check=False)
        return build, done

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_a_c_program_found_through_cmake_is_built_and_runs(self):
        build, done = self.cmake("by-cmake", "0.1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        run("cmake", "--build", str(build))
        self.assertEqual(run(str(build / "consumer")), "11 44\n")  # CMake's own run path leads to the library

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_cmake_refuses_another_version(self):
        for wanted in ("0.2", "0.0.9", "1.0"):
            _, done = self.cmake(f"wants-{wanted}", wanted)
            self.assertNotEqual(done.returncode, 0, wanted)
            self.assertIn("RondoConfig.cmake, version: 0.1.0", done.stderr)

    def test_after_an_installation_it_says_what_to_set(self):
        script = HERE.parents[1] / "packaging" / "after_install.py"
        environment = {"MESON_INSTALL_PREFIX": str(self.tree), "LD_LIBRARY_PATH": "", "PKG_CONFIG_PATH": "",
                       "PATH": "/usr/bin:/bin"}
        # A shell takes the place of Meson. The script writes to the output of the shell.
        words = ["bash", "-c", '"$@" >/dev/null; exit $?', "sh", sys.executable, str(script), self.libdir, "bin",
                 self.python, self.python_place]
        said = run(*words, **environment)
        lines = dict(re.findall(r"^  export (\w+)=(.*?):\$\1$", said, re.M))
        self.assertEqual(lines, {"LD_LIBRARY_PATH": str(self.lib), "PKG_CONFIG_PATH": str(self.lib / "pkgconfig"),
                                 "PATH": str(self.tree / "bin"),
                                 "PYTHONPATH": str((self.tree / self.python_place).parent)})
        lines["PATH"] += ":/usr/bin:/bin"
        self.assertEqual(run(*words, **{**environment, **lines}), "")
        self.assertIn("/etc/ld.so.conf.d", said)

    def test_pkg_config_asks_for_nothing_but_rondo(self):
        self.assertEqual([flag for flag in self.pkg_config("--libs") if flag.startswith("-l")], ["-lrondo"])

    def commands(self):
        return sorted((self.tree / "bin").iterdir())

    def test_the_commands_have_no_copy_of_the_library(self):
        # Mangled names have the length of each part. The trainer has kernels of its own.
        library = re.compile(r"^rondo_|12Communicator|7Planner|12HostExecutor|14KernelExecutor|12CopyExecutor|"
                             r"19rondo_kernels_image")
        for command in self.commands():
            self.assertIn("[librondo.so.0]", run("readelf", "-d", str(command)), command)
            defined = [line.split()[-1] for line in run("nm", "--defined-only", str(command)).splitlines()]
            self.assertIn("_ZN5rondo11read_configEv", defined)  # a part that each command needs
            self.assertEqual([name for name in defined if library.search(name)], [], command)

    def test_a_moved_tree_works_without_variables(self):
        moved = Path(self.folder.name) / "moved"
        shutil.copytree(self.tree, moved, symlinks=True)
        library = str(moved.resolve() / self.libdir / "librondo.so.0")
        for name in (path.name for path in self.commands()):
            found = run(str(moved / "bin" / name), LD_TRACE_LOADED_OBJECTS="1", LD_LIBRARY_PATH="")
            path = re.search(r"librondo\.so\.0 => (\S+)", found)
            self.assertEqual(os.path.normpath(path[1]), library, found)
        said = run(str(moved / "bin/rondo"), "run", "-n", "2", "--", str(moved / "bin/rondo"), "perf", "all_reduce",
                   "-b", "8", "-e", "8", "-n", "1", LD_LIBRARY_PATH="")
        self.assertIn("# Out of bounds values : 0 OK", said)

    def test_the_command_refuses_a_library_of_another_version(self):
        other = Path(self.folder.name) / "other"
        other.mkdir()
        (other / "map").write_text("RONDO_0.1 { local: *; };\nRONDO_PRIVATE_9.9.9 { global: rondo_private; };\n",
                                   encoding="utf-8")
        (other / "empty.c").write_text("int rondo_private;\n", encoding="utf-8")
        run(*self.compiler, "-shared", "-fPIC", str(other / "empty.c"), "-Wl,-soname=librondo.so.0",
            f"-Wl,--version-script={other}/map", "-o", str(other / "librondo.so.0"))
        done = subprocess.run([self.tree / "bin/rondo", "--version"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LD_LIBRARY_PATH": str(other)}, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"librondo\.so\.0: version `RONDO_PRIVATE_[\d.]+' not found")

    def test_the_command_runs_where_it_is_installed_and_says_its_version(self):
        header = (self.tree / "include/rondo/rondo.h").read_text(encoding="utf-8")
        version = ".".join(re.findall(r"#define RONDO_VERSION_\w+ (\d+)", header))
        self.assertIn(version, run(str(self.tree / "bin/rondo"), "--version", LD_LIBRARY_PATH=""))
        self.assertEqual(self.pkg_config("--modversion"), [version])

    def test_the_command_names_the_library_for_programs_of_nccl_which_finds_librondo_by_itself(self):
        path = Path(run(str(self.tree / "bin/rondo"), "nccl", LD_LIBRARY_PATH="").rstrip("\n"))
        self.assertEqual(path, (self.lib / "rondo/nccl/libnccl.so.2").resolve())
        look = f"import ctypes; print(ctypes.CDLL({str(path)!r}).ncclGroupEnd(), open('/proc/self/maps').read())"
        said = run(sys.executable, "-c", look, LD_LIBRARY_PATH="")
        self.assertTrue(said.startswith("5 "), said)
        self.assertIn(str(self.lib.resolve() / "librondo.so.0.1.0"), said)

    def test_the_command_says_how_to_get_the_trainer_where_there_is_none_and_loads_nothing_for_it(self):
        alone = Path(self.folder.name) / "alone"
        command = alone / "bin/rondo"
        command.parent.mkdir(parents=True)
        shutil.copy(self.tree / "bin/rondo", command)
        (alone / self.libdir).parent.mkdir(parents=True, exist_ok=True)
        (alone / self.libdir).symlink_to(self.lib)
        for words, status in (((), 2), (("--steps", "1"), 2), (("--help",), 0)):
            done = subprocess.run([command, "train", *words], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status)
            self.assertIn("install libdnnl-dev", done.stderr if status else done.stdout)
        self.assertNotIn("dnnl", run("readelf", "-d", str(command)))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        Installed.compiler, Installed.prefix, Installed.libdir = sys.argv[1].split(), sys.argv[2], sys.argv[3]
        Installed.python, Installed.python_place = sys.argv[4:6]
        Installed.cpp_compiler = sys.argv[6].split()
    unittest.main(argv=sys.argv[:1], verbosity=2)
