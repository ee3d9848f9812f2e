# SPDX-License-Identifier: Apache-2.0
"""Lists the steps of scripts/gpu-check as data, except part B, the speed (gpu_check_speed.py)."""

import math
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import gpu_check_mps
from gpu_check_figures import MIB

PARTS = ("A", "B", "C", "D", "E")
NO_LL128 = "the requested protocol 'll128'"  # how Rondo refuses it where devices are not known to bear it
OWN_DEVICES = {"SOFT_CUDA_DEVICES": "8"}  # of the driver in software: a device for each rank of ll128
SHARED = {"RONDO_DEVICE_LAUNCH": "shared"}  # one kernel for all ranks that are threads
COPIES = {"RONDO_DEVICE_EXECUTOR": "copy"}
KERNELS = {"RONDO_DEVICE_EXECUTOR": "kernel"}
RESIDENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}  # ranks that are threads on a device need a queue each


def options_of(way):
    """Returns the option of `rondo perf` for the way to run plans: a kernel of its own, or the interpreter by a
    protocol."""
    return ("--kernel" if way == "load_store" else "--protocol", way)


def places_of(way):
    """Returns the step's fields about devices. By ll128 ranks take the devices in turn; ranks that share a device
    cannot run."""
    return {"device": "cuda", "refusal": NO_LL128} if way == "ll128" else {}


@dataclass
class Step:
    part: str
    name: str
    command: list
    seconds: int                                    # at most
    environment: dict = field(default_factory=dict)
    missing: str = ""                               # why it cannot run here
    refusal: str = ""                               # a failure whose log has these words: it cannot run here
    says: str = ""                                  # words that its log must have
    report: Path = None                             # the JSON that it writes
    judge: object = None                            # of that report, by `rondo perf`: judge(report) -> [Figure]
    case_seconds: int = 30                          # of a test case of it, at most (tests/catch_main.cpp)


@dataclass
class Sizes:
    """The amount of work: on a GPU, on the driver in software, and just to show that the scripts work."""
    large: str            # of one rank's vector, where bandwidth is asked for
    medium: str
    protocols: tuple      # range of sizes at which protocols are compared
    algorithms: tuple     # range of sizes about which one_shot gives way to two_shot
    small: tuple          # range of sizes at which latency is asked for
    runs: tuple           # of large vectors
    replays: tuple        # of graphs
    calls: int            # in a graph
    many: int             # ranks
    rows: int             # of a matrix product
    matrix: dict          # ranks -> RONDO_TEST_MATRIX
    thread_seeds: int
    process_seeds: int
    pair_blocks: tuple = (2,)  # of each of two ranks, beside as many as they have by default
    mps_blocks: int = 2        # of each of two processes
    device_costs: tuple = ("--quick",)
    train_steps: int = 4
    train_rounds: int = 1
    train_ranks: tuple = (2,)
    train_blocks: tuple = (2,)
    patience: float = 1   # of each step's deadline


FULL = Sizes(large="256M", medium="64M", protocols=("-b", 8, "-e", "8M", "-f", 8),
             algorithms=("-b", "16K", "-e", "64K", "-f", 2), small=("-b", 8, "-e", "32K", "-f", 8),
             runs=("-n", 5, "-w", 1), replays=("-n", 20, "-w", 3), calls=500, many=8, rows=8192,
             matrix={2: "large", 3: "large", 8: "large"}, thread_seeds=70, process_seeds=30,
             pair_blocks=(64, 128), mps_blocks=32, device_costs=(), train_steps=20, train_rounds=6,
             train_ranks=(2, 4), train_blocks=(1, 2, 4, 8))
BRIEF = replace(FULL, matrix={2: "small", 3: "small", 8: "small"}, thread_seeds=40, process_seeds=6, train_steps=8,
                train_rounds=2, train_ranks=(2,), train_blocks=(2, 4), patience=0.4)
SOFT = Sizes(large="1M", medium="64K", protocols=("-b", "8K", "-e", "8K"),
             algorithms=("-b", "8K", "-e", "8K"), small=("-b", 8, "-e", "32K", "-f", 64),
             runs=("-n", 2, "-w", 1, "-m", 1), replays=("-n", 2, "-w", 1), calls=4, many=8, rows=64,
             matrix={2: "small", 3: "small", 8: "tiny"}, thread_seeds=20, process_seeds=10, patience=5)
QUICK = Sizes(large="64K", medium="16K", protocols=("-b", "4K", "-e", "4K"),
              algorithms=("-b", "4K", "-e", "4K"), small=("-b", 8, "-e", 8),
              runs=("-n", 1, "-w", 0, "-m", 1), replays=("-n", 1, "-w", 0), calls=2, many=3, rows=16,
              matrix={2: "tiny", 3: "tiny"}, thread_seeds=2, process_seeds=2, patience=5)


# Commands for tests/gpu/region_rank.cpp: sums in registered buffers, replayed, through places, in others, and other
# collectives.
REGISTERED = ["register", "shared", "plan", "sum=in_place", "capture", "replay=graph", "deregister", "sum=places",
              "replace", "register", "shared", "sum=again"]
for _name in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
    REGISTERED += [f"collective={_name}", f"sum={_name}"]


# The library's kernels and the trainer's.
SOFT_FOLLOWED = ("librondo_soft_kernels.so", "librondo_soft_train_kernels.so")


def find_library(name):
    """Finds cuBLAS or cuBLASLt of a toolkit, or of the Python packages that PyTorch brings. Returns "" if there is
    none."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) + ["/usr/local/cuda/lib64"]
    folders += [os.path.join(place, "nvidia", part, "lib") for place in sys.path for part in ("cu13", "cublas")]
    folders += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    found = (os.path.join(folder, f"{name}.so.{version}") for version in (13, 12) for folder in folders if folder)
    return next(filter(os.path.isfile, found), "")


def compute_sanitizer():
    return shutil.which("compute-sanitizer", path=os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]))


class Steps:
    """One part's; `of()` gives them in order, what matters most first."""

    def __init__(self, bundle, work, soft, sizes):
        self.bin, self.tests, self.work = bundle / "bin", bundle / "tests", work
        self.soft, self.sizes = soft, sizes
        self.kernels = bundle / "lib"

    def of(self, part):
        for step in getattr(self, f"part_{part.lower()}")():
            step.seconds *= self.sizes.patience
            case_seconds = math.ceil(step.case_seconds * self.sizes.patience)
            tests = {"RONDO_TEST_PROGRESS": "on", "RONDO_TEST_CASE_SECONDS": str(case_seconds)}
            step.environment = RESIDENT | tests | step.environment
            step.command = [str(word) for word in step.command]
            yield step

    def soft_kernels(self, names):
        names = (names,) if isinstance(names, str) else names
        return {"SOFT_CUDA_KERNELS": ":".join(str(self.kernels / name) for name in names)} if self.soft else {}

    def test_kernels(self):
        """Returns the environment of programs that launch kernels of the tests."""
        image = self.kernels / "test_kernels.fatbin"
        if self.soft or not image.exists():
            return self.soft_kernels("libsoftcuda_test_kernels.so")
        return {"RONDO_TEST_KERNELS": str(image)}

    def launcher(self, ranks):
        return [self.bin / "rondo", "run", "-n", ranks, "--"]

    def perf(self, part, name, arguments, judge=None, seconds=60, launcher=(), device="cuda:0", environment=None,
             **more):
        report = self.work / (name.replace(" ", "-").replace(",", "") + ".json")
        command = [*launcher, self.bin / "rondo", "perf", *arguments, "--device", device, "--json", report]
        environment = (OWN_DEVICES if device == "cuda" else {}) | (environment or {})
        return Step(part, name, command, seconds, environment, report=report, judge=judge, **more)

    def through_mps(self):
        """Returns the words before the launcher of processes that share the device through MPS, and the fields of their
        step."""
        if self.soft:
            return (), {"environment": {"SOFT_CUDA_MPS": "on", "REGION_RANK_COUNT": "20000"}}
        control = gpu_check_mps.CONTROL
        missing = "" if shutil.which(control) else f"{control} is not installed"
        # Clients share the queues that their server has, so each asks for no more than a driver gives by itself.
        return (("python3", "-B", gpu_check_mps.__file__),
                {"missing": missing, "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "8", "RONDO_LOG": "info"}})

    def part_a(self):
        """Yields the steps that show what exists, whether anything of Rondo works, and what the device's elementary
        steps cost."""
        yield from self.smoke()
        plain = {"SOFT_CUDA_QUEUES": "8"}  # the conformance test looks at queues itself
        yield Step("A", "driver conformance", [self.bin / "driver_conformance"], 60, self.test_kernels() | plain)
        yield Step("A", "driver processes", [self.bin / "driver_process"], 60,
                   self.test_kernels() | plain | {"RONDO_DRIVER_PEER": str(self.bin / "driver_peer")})
        costs = self.work / "device-costs.json"  # it keeps what it has when it is ended
        yield Step("A", "device costs", [self.bin / "device_costs", *self.sizes.device_costs, costs], 90,
                   self.test_kernels(), report=costs)

    def smoke(self):
        """Yields each protocol, kernel and executor once, with results verified. On a GPU a call that takes over 2 s is
        aborted."""
        brief = ("-b", 8, "-e", "128K", "-f", 128, "-n", 1, "-w", 1, "-m", 2, "-T", 20 if self.soft else 2)
        threads = ("--ranks", 2, *brief)
        for way in ("simple", "ll", "ll128", "load_store"):
            yield self.perf("A", f"smoke of {way}", ["all_reduce", *threads, *options_of(way)], seconds=20,
                            environment=KERNELS, **places_of(way))
        for name, more, environment in (("kernels, replayed", ["--graph"], KERNELS), ("one kernel for all", [], SHARED),
                                        ("one kernel for all, replayed", ["--graph", "--one-graph"], SHARED),
                                        ("copies", [], COPIES), ("copies, replayed", ["--graph"], COPIES)):
            yield self.perf("A", f"smoke of {name}", ["all_reduce", *threads, *more], seconds=20,
                            environment=environment)
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            yield self.perf("A", f"smoke of {collective}", [collective, *threads], seconds=20, environment=KERNELS)
        for handles in ("ipc", "vmm"):
            for name, environment in (("copies", COPIES), ("kernels", KERNELS)):
                yield self.perf("A", f"smoke of processes by {name}, {handles}", ["all_reduce", *brief], seconds=20,
                                launcher=self.launcher(2), environment=environment | {"RONDO_DEVICE_HANDLES": handles})

    def part_c(self):
        """Yields tests of correctness: what moves most bytes by default, then every combination, then the rest."""
        yield Step("C", "load_store: by kernels of its own", [self.bin / "gpu_load_store"], 60)
        # Processes that take turns on a device share no buffers: what is asked for goes through their places.
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"):
            yield self.perf("C", f"{collective} of processes through places",
                            [collective, "--kernel", "load_store", "-b", 8, "-e", "1M", "-f", 512, "-n", 1, "-w", 1,
                             "-m", 2, "-T", 10], seconds=30, launcher=self.launcher(2), environment=KERNELS)
        before, more = self.through_mps()
        yield Step("C", "registered buffers of 2 processes through MPS",
                   [*before, *self.launcher(2), self.bin / "region_rank", *REGISTERED], 60,
                   says="plan two_shot load_store", **more)
        for ranks, size in self.sizes.matrix.items():
            yield Step("C", f"device matrix of {ranks} ranks, bit-equal to the host ({size})",
                       [self.bin / "device_matrix"], 110,
                       OWN_DEVICES | {"RONDO_TEST_MATRIX": size, "RONDO_TEST_MATRIX_RANKS": str(ranks)},
                       case_seconds=110)
        yield Step("C", "device, ranks as threads", [self.bin / "gpu_device"], 60, OWN_DEVICES)
        yield Step("C", "ll128: where it can be had", [self.bin / "gpu_ll128"], 60, OWN_DEVICES)
        yield Step("C", "one kernel for all ranks of a process", [self.bin / "gpu_shared", "[plain]"], 60)
        yield Step("C", "one kernel for all ranks of a process, and one hardware queue",
                   [self.bin / "gpu_shared", "[queue]"], 60,
                   {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "SOFT_CUDA_QUEUES": "1"})
        yield Step("C", "first calls load and allocate nothing", [self.bin / "gpu_hazard", "hazard: the first*"], 60)
        if self.sizes is QUICK:  # the tests of both have run by themselves
            return
        yield Step("C", "device, ranks as processes",
                   ["python3", "-B", self.tests / "gpu/device_process_test.py", self.bin / "device_rank"], 90)
        yield Step("C", "copy-engine executor, ranks as threads", [self.bin / "gpu_copy"], 120)

    def part_d(self):
        """Yields faults, one job at a time, then compute-sanitizer."""
        threads, processes = self.sizes.thread_seeds, self.sizes.process_seeds
        yield Step("D", f"{threads} seeds: a rank aborts, stays away or disagrees", [self.bin / "device_seeds"], 120,
                   {"RONDO_SEED_COUNT": str(threads)}, case_seconds=120)
        # Without MPS a device does the work of one process at a time: jobs side by side would miss their deadlines.
        yield Step("D", f"{processes} seeds of processes: one is killed, exits, aborts, is silent or disagrees",
                   ["python3", "-B", self.tests / "gpu/device_chaos_test.py", self.bin / "device_chaos_rank",
                    "--any-driver", "--jobs", "1", "--seeds", processes], 180)
        tool = compute_sanitizer()
        missing = "there is no GPU" if self.soft else "" if tool else "compute-sanitizer is not installed"
        for check in ("memcheck", "racecheck"):
            # It may make kernels run one by one: ranks in kernels of their own would wait for ever.
            yield Step("D", check, [tool, "--tool", check, "--error-exitcode", "99", self.bin / "device_matrix"], 90,
                       {"RONDO_TEST_MATRIX": "tiny"} | SHARED, missing, case_seconds=90)


def soft_environment(bundle):
    """Sets up the driver in software as devices are: a queue for each stream, and two blocks on a multiprocessor."""
    libraries = Path(bundle) / "lib"
    return {"RONDO_CUDA_LIBRARY": str(libraries / "libsoftcuda.so"), "SOFT_CUDA_QUEUES": "32",
            "SOFT_CUDA_KERNELS": str(libraries / "librondo_soft_kernels.so"),
            "SOFT_CUDA_BLOCKS_PER_MULTIPROCESSOR": "2", "SOFT_CUDA_MEMORY": str(1024 * MIB)}
