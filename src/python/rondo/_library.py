# SPDX-License-Identifier: Apache-2.0
"""This module loads librondo.so and gives each function of the C API its types."""

from __future__ import annotations

import ctypes
import os
import re
import sys

from . import _interface
from ._location import LIBRARY

SONAME = "librondo.so.0"


def is_for_packages(folder: object) -> bool:
    """Returns whether an entry of sys.path is a folder for installed packages, and not a folder of the program."""
    return isinstance(folder, str) and os.path.isabs(folder) and os.path.normpath(folder).endswith("-packages")


def open_library() -> ctypes.CDLL:
    """Opens the library that was installed with this package. If there is none, the dynamic linker searches for it.

    On some systems, the libraries of a wheel are in another folder for packages than its modules."""
    place = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY))
    below = os.path.join(*os.path.normpath(LIBRARY).split(os.sep)[-2:])
    reasons = []
    others = [os.path.join(folder, below) for folder in sys.path if is_for_packages(folder)]
    for name in [path for path in [place, *others] if os.path.exists(path)][:1] + [SONAME]:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            needed = re.match(r"(\S+): cannot open shared object file", str(error))
            if needed and needed[1] != name:
                raise ImportError(f"{name} needs {needed[1]}, which this system lacks. Install it; on Debian and "
                                  "Ubuntu: apt-get install libhwloc15 libsodium23") from None
            reasons.append(str(error))
    raise ImportError(f"{SONAME} cannot be loaded: it is not at {place}, and the dynamic linker says: "
                      f"{'; '.join(reasons)}. Install Rondo's library, or add its folder to LD_LIBRARY_PATH")


def check_version(library: ctypes.CDLL) -> None:
    """Refuses a library that is older than this package, or has another major version."""
    found = [ctypes.c_int(-1) for _ in range(3)]
    library.rondo_version(*map(ctypes.byref, found))
    version = tuple(number.value for number in found)
    if version[0] != _interface.VERSION[0] or version[:2] < _interface.VERSION[:2]:
        raise ImportError(f"{library._name} is Rondo {'.'.join(map(str, version))}, but this package needs "
                          f"{'.'.join(map(str, _interface.VERSION))} or newer: install both from the same version")


def load() -> ctypes.CDLL:
    """Returns the library, with the types of all its functions set."""
    library = open_library()
    check_version(library)
    for name, (result, arguments) in _interface.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f"{library._name} has no {name}: it is older than this package. Install both from the "
                              "same version")
        function.restype, function.argtypes = result, arguments
    return library


C = load()
