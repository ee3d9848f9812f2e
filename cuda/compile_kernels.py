# SPDX-License-Identifier: Apache-2.0
"""compile_kernels.py NVCC IMAGE REPORT PTX DEPFILE ROOT SOURCE ARCHITECTURES [-DNAME]...: compiles the kernels of a
file into a fat binary.

ARCHITECTURES is a list such as "80,90,120+ptx": machine code for each, and PTX where "+ptx" says so and of the lowest,
which every later device can compile. What ptxas says of
each kernel (registers, spills) goes into REPORT; PTX gets that of one architecture, to be looked at; DEPFILE names the
headers, so that a changed one rebuilds the image.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def targets(architectures):
    """The -gencode options."""
    names = [name.strip() for name in architectures.split(",")]
    lowest = min(names, key=lambda name: int(re.match(r"\d*", name)[0] or 0))
    for name in names:
        number, _, ptx = name.partition("+")
        if not number.isalnum() or ptx not in ("", "ptx"):
            sys.exit(f"gpu_architectures: '{name}' is no architecture such as 90 or 90+ptx")
        code = [f"sm_{number}"] + ([f"compute_{number}"] if ptx or name == lowest else [])
        for each in code:
            yield f"-gencode=arch=compute_{number},code={each}"


def compression(nvcc):
    """An image for size, by those that can."""
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in re.search(r"release (\d+)\.(\d+)", said).groups())
    return ["--compress-mode=size"] if version >= (12, 8) else []


def main():
    nvcc, image, report, ptx, depfile, root, source, architectures, *defines = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        compile_in(folder, nvcc, image, report, depfile, root, source, architectures, defines)
        shutil.copyfile(sorted(Path(folder).glob("*.ptx"))[0], ptx)


def compile_in(folder, nvcc, image, report, depfile, root, source, architectures, defines):
    """Leaves what nvcc makes on the way in `folder`."""
    command = [nvcc, "-fatbin", "-std=c++20", *targets(architectures), *compression(nvcc),
               "--threads=0", "--split-compile=1",  # with more parts, the machine code is another each time
               "-fmad=false",  # results are bit-equal to the host's
               "-Xptxas=-v", "-Xcompiler=-Wall,-Wextra", f"-I{root}", *defines, "-MD", "-MF", depfile, "-MT", image,
               "--keep", "--keep-dir", folder, "-o", image, source]
    # nvcc calls its parts by PATH where it is a link from elsewhere.
    environment = dict(os.environ, PATH=os.path.dirname(os.path.realpath(nvcc)) + os.pathsep + os.environ["PATH"])
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment)
    with open(report, "w", encoding="utf-8") as file:
        file.write(done.stderr)
    if done.returncode != 0:
        sys.exit(" ".join(command) + "\n" + done.stderr)


if __name__ == "__main__":
    main()
