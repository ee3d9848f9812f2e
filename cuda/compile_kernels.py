# SPDX-License-Identifier: Apache-2.0
"""compile_kernels.py NVCC IMAGE REPORT PTX DEPFILE ROOT SOURCE ARCHITECTURES [-DNAME]...: compiles the kernels of a
file into a fat binary.

ARCHITECTURES is a list such as "80,90,120+ptx". The image has machine code for each of them. It has PTX for each one
with "+ptx", and for the lowest, which every later device can compile. REPORT receives what ptxas prints about each
kernel (registers, spills). PTX receives the PTX of one architecture, for people to read. DEPFILE names the headers,
so that a changed header rebuilds the image.

If ccache is installed, IMAGE, REPORT and PTX are kept under ~/.cache for later builds, because ccache itself does not
support images. The key is made of the contents of the source, of all headers and of this file, nvcc's version, and the
options. CCACHE_DISABLE turns this off, as it does for ccache.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT_MAX = 16  # number of images kept, the newest ones


def targets(architectures):
    """Returns the -gencode options."""
    names = [name.strip() for name in architectures.split(",")]
    lowest = min(names, key=lambda name: int(re.match(r"\d*", name)[0] or 0))
    for name in names:
        number, _, ptx = name.partition("+")
        if not number.isalnum() or ptx not in ("", "ptx"):
            sys.exit(f"gpu_architectures: '{name}' is no architecture such as 90 or 90+ptx")
        code = [f"sm_{number}"] + ([f"compute_{number}"] if ptx or name == lowest else [])
        for each in code:
            yield f"-gencode=arch=compute_{number},code={each}"


def compression(said, architectures):
    """Returns the option that makes a release's image smaller, if nvcc has it. For one architecture it is not
    used, as the build would take a tenth longer. `said` is nvcc's text about its version."""
    if "," not in architectures:
        return []
    version = tuple(int(part) for part in re.search(r"release (\d+)\.(\d+)", said).groups())
    return ["--compress-mode=size"] if version >= (12, 8) else []


def run(command):
    """Returns what the command wrote to its error output. Ends this program if the command failed."""
    # nvcc may be a link from another folder. Then it finds its tools by PATH.
    path = os.path.dirname(os.path.realpath(command[0])) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ, PATH=path))
    if done.returncode != 0:
        sys.exit(" ".join(command) + "\n" + done.stderr)
    return done.stderr


def files_in(depfile):
    """Returns the files that a rule of make names after its colon."""
    text = Path(depfile).read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2]
    return [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text.strip())]


def place_in_cache(words, files):
    """Returns the folder of the kept results of this command for these files, or None if nothing is kept."""
    if shutil.which("ccache") is None or "CCACHE_DISABLE" in os.environ:
        return None
    digest = hashlib.sha256()
    # nvcc takes options from these environment variables, too.
    words = [*words, *(os.environ.get(f"NVCC_{name}", "") for name in ("PREPEND_FLAGS", "APPEND_FLAGS", "CCBIN"))]
    for part in [*(word.encode() for word in words), *(Path(name).read_bytes() for name in [__file__, *files])]:
        digest.update(len(part).to_bytes(8, "little") + part)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "rondo-kernels" / digest.hexdigest()


def take_kept(place, made):
    """Returns whether the kept files existed and were copied."""
    try:
        os.utime(place)  # so that it counts as new
        for name, path in made.items():
            shutil.copyfile(place / name, path)
        return all(Path(path).stat().st_size > 0 for path in made.values())
    except OSError:
        return False


def keep(place, made):
    """Copies the files to `place`. Another build may have done the same meanwhile."""
    folder = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=place.parent)
        for name, path in made.items():
            shutil.copyfile(path, Path(folder) / name)
        os.rename(folder, place)
        kept = sorted(place.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in kept[KEPT_MAX:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        print(f"these kernels are not kept for another build: {error}")
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def main():
    nvcc, image, report, ptx, depfile, root, source, architectures, *defines = sys.argv[1:]
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    options = ["-std=c++20", *targets(architectures), "-Xcompiler=-Wall,-Wextra", *defines]
    run([nvcc, "-M", "-MF", depfile, "-MT", image, *options, f"-I{root}", source])
    code = [*compression(version, architectures),
            "--threads=0", "--split-compile=1",  # more parts would differ between builds
            "-fmad=false",  # results are bit-equal to results on the host
            "-Xptxas=-v"]
    made = {"image": image, "report": report, "ptx": ptx}
    place = place_in_cache([version, *options, *code], files_in(depfile))
    if place is not None and take_kept(place, made):
        return
    with tempfile.TemporaryDirectory() as folder:  # for nvcc's temporary files
        said = run([nvcc, "-fatbin", *options, *code, f"-I{root}", "--keep", "--keep-dir", folder, "-o", image, source])
        Path(report).write_text(said, encoding="utf-8")
        shutil.copyfile(sorted(Path(folder).glob("*.ptx"))[0], ptx)
    if place is not None:
        keep(place, made)


if __name__ == "__main__":
    main()
