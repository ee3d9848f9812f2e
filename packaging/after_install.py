# SPDX-License-Identifier: Apache-2.0
"""Runs as the last step of `meson install` (not under DESTDIR), with MESON_INSTALL_PREFIX.

usage: after_install.py LIBDIR BINDIR PYTHON PLACE

PLACE is the folder of the Python package, or empty, and PYTHON the program that it is for.

If root installs, this adds the new library to the dynamic linker's cache. If programs, pkg-config or the shell would
not find what was installed, it says what to set. No failure here makes the installation fail."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

ADMINISTRATOR = "/usr/sbin:/sbin"  # often not in a user's PATH


def output_of(program, *arguments):
    """Returns standard output, or an empty text if the program is missing or fails."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{ADMINISTRATOR}")
    if path is None:
        return ""
    done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300,
                          check=False)
    return done.stdout if done.returncode == 0 else ""


def linker_finds(library):
    known = [line.rpartition(" => ")[2] for line in output_of("ldconfig", "-p").splitlines()]
    return any(Path(path).name == library.name and Path(path).resolve() == library.resolve() for path in known)


def is_in(folder, path):
    return any(entry and Path(entry).resolve() == folder.resolve() for entry in path.split(":"))


def missing(libraries, binaries, python, package):
    """Yields the variables to set, each as a line."""
    if not linker_finds(libraries / "librondo.so.0") and not is_in(libraries, os.environ.get("LD_LIBRARY_PATH", "")):
        yield f"export LD_LIBRARY_PATH={libraries}:$LD_LIBRARY_PATH"
    packages = libraries / "pkgconfig"
    if not is_in(packages, output_of("pkg-config", "--variable=pc_path", "pkg-config").strip()) and not is_in(
            packages, os.environ.get("PKG_CONFIG_PATH", "")):
        yield f"export PKG_CONFIG_PATH={packages}:$PKG_CONFIG_PATH"
    if not is_in(binaries, os.environ.get("PATH", "")):
        yield f"export PATH={binaries}:$PATH"
    if package and package.parent.resolve() not in python_searches(python):
        yield f"export PYTHONPATH={package.parent}:$PYTHONPATH"


def python_searches(python):
    """Returns the folders in which a Python searches packages."""
    return {Path(path).resolve() for path in output_of(python, "-c", "import sys; print(*sys.path)").split()}


def say(text):
    """Writes to Meson's own output, since Meson keeps the output of its scripts to itself. If that is a file, this
    does not write there, because Meson would overwrite the text."""
    try:
        output = os.open(f"/proc/{os.getppid()}/fd/1", os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        output = 1
    if stat.S_ISREG(os.fstat(output).st_mode):
        output = 1
    os.write(output, text.encode())


def main():
    prefix = Path(os.environ["MESON_INSTALL_PREFIX"])
    libraries, binaries = prefix / sys.argv[1], prefix / sys.argv[2]
    if os.geteuid() == 0:
        output_of("ldconfig")
    python, place = sys.argv[3:]
    lines = list(missing(libraries, binaries, python, prefix / place if place else None))
    if not lines:
        return
    text = f"\nRondo is installed below {prefix}, where not everything is looked for. To use it, set:\n"
    text += "".join(f"  {line}\n" for line in lines)
    if any("LD_LIBRARY_PATH" in line for line in lines):
        text += f"or, for all users, as root: echo {libraries} >/etc/ld.so.conf.d/rondo.conf && ldconfig\n"
    say(text)


if __name__ == "__main__":
    main()
