# SPDX-License-Identifier: Apache-2.0
"""Prints where the package goes, and the path from the package to its library.

usage: place.py PREFIX LIBDIR DEFAULT

The first line is a folder relative to PREFIX. It is a folder below PREFIX in which this Python searches packages, or
otherwise DEFAULT. Debian's Python does not search the folder that Meson takes for /usr/local. The second line is the
path from the package to the library."""

import os
import sys


def main():
    prefix, libdir, default = sys.argv[1:]
    searched = [path for path in sys.path if path.endswith("-packages") and path.startswith(prefix + "/") and
                not path.startswith(f"{prefix}/local/")]
    place = os.path.join(os.path.relpath(searched[0], prefix) if searched else default, "rondo")
    print(place)
    print(os.path.relpath(os.path.join(prefix, libdir, "librondo.so.0"), os.path.join(prefix, place)))


if __name__ == "__main__":
    main()
