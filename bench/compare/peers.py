# SPDX-License-Identifier: Apache-2.0
"""The contenders: which are available, how their drivers are built, and how they are started."""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import between

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("bench/compare")
LIMITED_CALLS_MIN = 2  # few calls, because one over a slow network takes seconds
HARNESS = ("harness.c", "measure.c", "options.c")
FLAGS = ("-O3", "-march=native", "-Wall", "-Wextra", "-D_GNU_SOURCE", f"-I{ROOT}", f"-I{ROOT}/include")

# Temporary memory that is mapped afresh in every call would cost a library a factor of two from 64 MiB up. With these
# variables glibc keeps such memory. All contenders get them.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}
UCX = ("--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca",
       "opal_common_ucx_devices", "any")
OPENMPI_OVER_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self")
INTEL_OVER_TCP = ("-genv", "I_MPI_FABRICS", "ofi", "-genv", "I_MPI_OFI_PROVIDER", "tcp", "-genv", "FI_TCP_IFACE",
                  between.INTERFACE)
ALONE = "a job of its own"  # what mpi.c prints if MPI_Init finds no other rank
HOW_TO_GET = {
    "Open MPI": "apt-get install openmpi-bin libopenmpi-dev libucx-dev",
    "MPICH": "apt-get install mpich libmpich-dev",
    "Gloo": "apt-get install libgloo-dev",
}


@dataclass
class Contender:
    """A way to start a driver for a run. `family` says how to use its launcher. Without a launcher the driver forks."""
    name: str
    driver: Path
    family: str | None = None
    launcher: str = ""
    launcher_options: tuple = ()
    driver_options: tuple = ()
    environment: dict = field(default_factory=dict)
    oversubscribed_max_bytes: int | None = None  # the largest run with more ranks than cores; larger runs take minutes
    version: str = ""  # the version; of Rondo it is the build, so that runs of different builds are kept apart
    ours: bool = False
    hosts_options: tuple | None = None  # launcher options for several hosts; None: it does not run on several
    one_host: bool = True               # usable on one host

    def command(self, run, pin, control, seconds, deadline_s, network=None):
        """`network`: where the hosts are, if the run has several (between.py)."""
        options = ["--ranks", run.ranks, "--type", run.type, "--seconds", seconds, "--deadline", deadline_s,
                   *self.driver_options]
        options += ["--create"] if run.create else ["--bytes", run.bytes]
        options += ["--in-place"] if run.in_place else []
        options += ["--pin"] if pin else ["--iterations-min", 3]
        options += ["--control", control, "--result", result_file(control)] if self.family or run.hosts > 1 else []
        if run.hosts > 1:
            options += ["--interface", between.INTERFACE, "--iterations-min", LIMITED_CALLS_MIN if run.rate else 5]
            launch = (*network.launch(self, run.ranks), *self.hosts_options)
        else:
            launch = self.launch(run.ranks, pin)
        return [str(word) for word in (*launch, self.driver, *options)]

    def launch(self, ranks, pin):
        if self.family is None:
            return ()
        binding = {"openmpi": ("--bind-to", "core") if pin else
                   ("--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"),
                   "mpich": ("-bind-to", "core" if pin else "none"),
                   "intel": ("-genv", "I_MPI_PIN", "1" if pin else "0")}.get(self.family, ())
        return (self.launcher, "-np", ranks, *binding, *self.launcher_options)

    def takes(self, run, core_count):
        if run.hosts > 1 and self.hosts_options is None or run.hosts == 1 and not self.one_host:
            return False
        return (self.oversubscribed_max_bytes is None or run.ranks <= core_count or
                run.bytes <= self.oversubscribed_max_bytes)


def result_file(control):
    """Returns the file to which rank 0 writes its result, because a launcher may lose a line that it should pass on."""
    return control.with_suffix(".result")


class Missing(Exception):
    """A contender is not available. The text says why, and how to get it."""


class Workshop:
    """Builds drivers into `folder`."""

    def __init__(self, folder, build):
        self.folder, self.build = Path(folder), Path(build).resolve()
        self.library = self.build / "librondo.so"
        if not self.library.exists():
            raise Missing(f"{self.build} has no librondo.so: meson setup {self.build} && ninja -C {self.build}, or "
                          "name another folder with --build")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cc = shlex.split(os.environ.get("CC", "cc"))
        self.cxx = shlex.split(os.environ.get("CXX", "c++"))

    def compile(self, what, command, environment=None, cwd=ROOT):
        try:
            done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True,
                                  check=False, timeout=300, env={**os.environ, **(environment or {})})
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{what} does not build: {error}") from None
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line or "cannot find" in line),
                         done.stderr.strip()[:300])
            raise Missing(f"{what} does not build: {first}")

    def harness(self):
        objects = []
        for source in HARNESS:
            objects.append(self.folder / source.replace(".c", ".o"))
            self.compile("the harness", [*self.cc, "-std=c11", *FLAGS, "-c", HERE / source, "-o", objects[-1]])
        return objects

    def rondo(self, objects):
        output = self.folder / "rondo"
        self.compile("rondo", [*self.cc, "-std=c11", *FLAGS, HERE / "rondo.c", *objects, f"-L{self.build}", "-lrondo",
                               f"-Wl,-rpath,{self.build}", "-o", output])
        version = hashlib.sha256(self.library.read_bytes()).hexdigest()[:12]
        kinds = {"rondo": "private", "rondo-alloc": "alloc", "rondo-registered": "registered"}
        made = [Contender(name, output, driver_options=("--buffers", buffers), version=version, ours=True)
                for name, buffers in kinds.items()]
        made[0].hosts_options = ()
        return [*made, replace(made[0], name="rondo-ring", environment={"RONDO_ALGORITHM": "ring"}, one_host=False)]

    def raw(self, objects):
        output = self.folder / "raw"
        self.compile("the raw exchange", [*self.cc, "-std=c11", *FLAGS, HERE / "raw.c", *objects, "-o", output])
        return [Contender("raw", output, hosts_options=(), one_host=False)]

    def floor(self, objects):
        if platform.machine() != "x86_64":
            raise Missing(f"the floor is measured on x86-64 only, this is {platform.machine()}; states are not told")
        if len(os.sched_getaffinity(0)) < 2:
            raise Missing("the floor needs two processors; states are not told")
        output = self.folder / "floor"
        self.compile("floor", [*self.cc, "-std=c11", *FLAGS, HERE / "floor.c", *objects, "-o", output])
        return output

    def gloo(self, objects):
        output = self.folder / "gloo"
        try:
            self.compile("Gloo", [*self.cxx, "-std=c++20", *FLAGS, HERE / "gloo.cpp", *objects, "-lgloo", "-pthread",
                                  "-o", output])
        except Missing as missing:
            raise Missing(f"{missing}; {HOW_TO_GET['Gloo']}") from None
        return [Contender("gloo", output, oversubscribed_max_bytes=16 << 20, version=package_version("libgloo-dev"),
                          hosts_options=())]

    def mpi(self, objects, name, compiler, launcher, prefix=None):
        """Returns the contenders of one MPI. Open MPI has three, which differ in what moves the data."""
        environment = mpi_environment(prefix)
        told = output_of([launcher, "--version"], environment)
        family = ("openmpi" if "Open MPI" in told or "OpenRTE" in told else
                  "intel" if "Intel" in told else
                  "mpich" if "HYDRA" in told else "other")
        version = re.search(r"\d+\.\d[\w.]*", told)
        output = self.folder / f"mpi-{name}"
        self.compile(name, [compiler, "-std=c11", *FLAGS, HERE / "mpi.c", *objects, "-o", output], environment)
        made = Contender(name, output, family, launcher, environment=environment, version=version[0] if version else "")
        made.hosts_options = {"openmpi": OPENMPI_OVER_TCP, "mpich": (), "intel": INTEL_OVER_TCP}.get(family)
        if family == "mpich":
            made.launcher_options = ("-launcher", "fork")
            made.oversubscribed_max_bytes = 256 << 10
        check_launcher(made)
        return [made, *over_ucx(made)] if family == "openmpi" else [made]


def check_launcher(made):
    """Checks the launcher. With some packages of MPICH, processes do not find their launcher (Ubuntu 24.04)."""
    options = ("--ranks", "2", "--seconds", "0.001", "--deadline", "30")
    command = [str(word) for word in (*made.launch(2, False), made.driver, *options)]
    if ALONE in output_of(command, made.environment, subprocess.STDOUT):
        raise Missing(f"{made.name}: each of the processes that {made.launcher} starts is {ALONE}")


def over_ucx(plain):
    """Returns Open MPI over UCX, and over UCX's shared memory only, which excludes cross-memory attach."""
    ompi_info = Path(plain.launcher).with_name("ompi_info")
    if "ucx" not in output_of([str(ompi_info), "--parsable", "--param", "pml", "ucx"], plain.environment):
        return []
    over_tcp = (*UCX, "-x", "UCX_TLS=tcp,self", "-x", f"UCX_NET_DEVICES={between.INTERFACE}")
    return [replace(plain, name=f"{plain.name}-ucx", launcher_options=UCX, version="", hosts_options=over_tcp),
            replace(plain, name=f"{plain.name}-ucx-posix", launcher_options=(*UCX, "-x", "UCX_TLS"), version="",
                    hosts_options=None,
                    environment={**plain.environment, "UCX_TLS": "posix,self"})]


def mpi_environment(prefix):
    """Returns the environment that an MPI needs. Root in a container may run it, and a prefix has its own files."""
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if prefix:
        for variable, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin")):
            environment[variable] = os.pathsep.join(filter(None, [f"{prefix}/{folder}", os.environ.get(variable)]))
        environment |= {"OPAL_PREFIX": str(prefix), "I_MPI_ROOT": str(prefix), "I_MPI_HYDRA_BOOTSTRAP": "fork"}
    return environment


def output_of(command, environment=None, errors=subprocess.DEVNULL):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=60, check=False,
                              env={**os.environ, **(environment or {})})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout


def package_version(package):
    return output_of(["dpkg-query", "-W", "-f", "${Version}", package]).strip() if shutil.which("dpkg-query") else ""


def installed_mpis():
    """Yields (name, title, compiler, launcher) of Debian's MPIs; the compiler is None if it is missing."""
    for name, title in (("openmpi", "Open MPI"), ("mpich", "MPICH")):
        compiler, launcher = shutil.which(f"mpicc.{name}"), shutil.which(f"mpirun.{name}")
        yield name, title, compiler if launcher else None, launcher


def prefixed_mpi(name, prefix):
    prefix = Path(prefix).resolve()
    compiler = prefix / "bin" / "mpicc"
    launcher = next((path for path in (prefix / "bin" / "mpirun", prefix / "bin" / "mpiexec") if path.exists()), None)
    if not compiler.exists() or launcher is None:
        raise Missing(f"{name}: {prefix} has no bin/mpicc with bin/mpirun or bin/mpiexec")
    return str(compiler), str(launcher), prefix


def build_all(workshop, more_mpis, say):
    """Returns the contenders by name, and the floor's program or None. Missing contenders are reported; a missing Rondo
    is an error."""
    objects = workshop.harness()
    contenders = workshop.rondo(objects)

    def attempt(make):
        try:
            return make()
        except Missing as missing:
            say(f"missing: {missing}")
            return []

    floor = attempt(lambda: workshop.floor(objects)) or None
    contenders += attempt(lambda: workshop.raw(objects))
    for name, title, compiler, launcher in installed_mpis():
        if compiler is None:
            say(f"missing: {title}: {HOW_TO_GET[title]}")
        else:
            contenders += attempt(lambda: workshop.mpi(objects, name, compiler, launcher))
    for name, prefix in more_mpis:
        def make():
            compiler, launcher, folder = prefixed_mpi(name, prefix)
            return workshop.mpi(objects, name, compiler, launcher, folder)
        contenders += attempt(make)
    contenders += attempt(lambda: workshop.gloo(objects))
    return {contender.name: contender for contender in contenders}, floor
