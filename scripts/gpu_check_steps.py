# SPDX-License-Identifier: Apache-2.0
"""Lists what scripts/gpu-check runs. Priorities 1 and 2 fit into one call, 3 into a second one; 4 waits for time."""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import gpu_check_mps
from gpu_check_figures import (BESIDE_BAR, FLOOR_BAR, MIB, against_floor, against_floor_and_turns, against_other,
                               beside_product, follows, labelled, latency, overlap, setup, times, torch_step)

SEVERAL_DEVICES = {"SOFT_CUDA_DEVICES": "8"}  # of the driver in software
SHARED = {"RONDO_DEVICE_LAUNCH": "shared"}  # one kernel for all ranks that are threads
COPIES, KERNELS = ({"RONDO_DEVICE_EXECUTOR": executor} for executor in ("copy", "kernel"))
APART = {"RONDO_TEST_DEVICES_APART": "on"}  # ranks on one device use the code for several devices
RESIDENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}  # ranks that are threads on a device need a queue each
CALL_SECONDS = 360  # of a run with the steps of priorities 1 and 2, and of a run with those of priority 3
TRAIN_BATCH = 16  # samples a rank, of the trainer and of PyTorch
MATRIX_SECONDS = {2: 20, 3: 25, 8: 50}  # by ranks, of the size "small"
COLLECTIVES, LOAD_STORE = ("reduce_scatter", "all_gather", "broadcast", "reduce"), ("--kernel", "load_store")
SMALL_MODEL = ("--width", 32, "--layers", 2, "--heads", 2, "--context", 32, "--batch", 2)
# These are steps of tests/gpu/region_rank.cpp: sums in registered buffers, replayed, through places, in other buffers,
# and other collectives.
REGISTERED = ["register", "shared", "plan", "sum=in_place", "capture", "replay=graph", "deregister", "sum=places",
              "replace", "register", "shared", "sum=again",
              *(word for name in COLLECTIVES for word in (f"collective={name}", f"sum={name}"))]


@dataclass
class Step:
    priority: int
    name: str
    command: list
    seconds: int                                    # about, on an H200
    environment: dict = field(default_factory=dict)
    missing: str = ""                               # why it cannot run here
    says: str = ""                                  # words that its log must have
    report: Path = None                             # the JSON that it writes
    judge: object = None                            # of that report: judge(report) -> [Figure]
    deadline: float = 0                             # seconds after which it is ended


@dataclass
class Sizes:
    """The amount of work: for a GPU, for the driver in software, and only to show that the scripts work."""
    large: str            # of one rank's vector, where bandwidth is asked for
    medium: str
    small: tuple          # range of sizes at which latency is asked for
    protocols: tuple      # range of sizes at which protocols are compared
    beside: tuple         # range of sizes at which another library is compared
    runs: tuple           # of large vectors
    replays: tuple        # of graphs
    calls: int            # in a graph
    many: int             # ranks
    rows: int             # of a matrix product
    matrix: dict          # ranks -> RONDO_TEST_MATRIX
    thread_seeds: int
    process_seeds: int
    mps_blocks: int = 2   # of each of two processes
    train: tuple = ("--steps", 4, "--measure", 1)
    train_ranks: tuple = (2,)
    train_blocks: tuple = (2,)
    patience: float = 1   # of each step's deadline


FULL = Sizes(large="256M", medium="64M", small=("-b", 8, "-e", "32K", "-f", 8),
             protocols=("-b", 8, "-e", "8M", "-f", 8), beside=("-b", 8, "-e", "1G", "-f", 8),
             runs=("-n", 5, "-w", 1), replays=("-n", 20, "-w", 3), calls=500, many=8, rows=8192,
             matrix={2: "small", 3: "small", 8: "small"}, thread_seeds=40, process_seeds=6, mps_blocks=32,
             train=("--steps", 20, "--measure", 6), train_ranks=(2, 4), train_blocks=(1, 2, 4, 8))
SOFT = Sizes(large="1M", medium="64K", small=("-b", 8, "-e", "32K", "-f", 64), protocols=("-b", "8K", "-e", "8K"),
             beside=("-b", 8, "-e", "8K", "-f", 64), runs=("-n", 2, "-w", 1, "-m", 1), replays=("-n", 2, "-w", 1),
             calls=4, many=8, rows=64, matrix={2: "small", 3: "small", 8: "tiny"}, thread_seeds=20, process_seeds=10,
             patience=20)
QUICK = Sizes(large="64K", medium="16K", small=("-b", 8, "-e", 8), protocols=("-b", "4K", "-e", "4K"), calls=2, many=3,
              beside=("-b", 8, "-e", 8), runs=("-n", 1, "-w", 0, "-m", 1), replays=("-n", 1, "-w", 0), rows=16,
              matrix={2: "tiny", 3: "tiny"}, thread_seeds=2, process_seeds=2, patience=20)


def find_library(name):
    """Returns the path of cuBLAS or cuBLASLt, of a toolkit or of PyTorch's packages, or "" if there is none."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) + ["/usr/local/cuda/lib64"]
    folders += [os.path.join(place, "nvidia", part, "lib") for place in sys.path for part in ("cu13", "cublas")]
    folders += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    found = (os.path.join(folder, f"{name}.so.{version}") for version in (13, 12) for folder in folders if folder)
    return next(filter(os.path.isfile, found), "")


class Steps:
    def __init__(self, bundle, work, soft, sizes, nccl=None):
        self.bin, self.tests, self.lib, self.work = bundle / "bin", bundle / "tests", bundle / "lib", work
        self.shim = str(bundle / "nccl/libnccl.so.2")  # not in lib, where PyTorch would find it
        self.peer_training = bundle / "bench/compare/ddp.py"
        self.soft, self.sizes = soft, sizes
        self.nccl = self.lib / "libfake_nccl.so" if soft and nccl is None else nccl

    def all(self):
        """Returns the steps by priority. Steps of one priority keep the order of this list."""
        groups = (self.smoke, self.bars, self.beside_nccl, self.tests_of_parts, self.matrices, self.as_if_apart,
                  self.through_mps_steps, self.products, self.losses, self.training, self.seeds, self.sanitizer,
                  self.other_tests, self.costs, self.other_speed, self.other_training)
        steps = sorted((step for group in groups for step in group()), key=lambda step: step.priority)
        for step in steps:
            step.deadline = (3 * step.seconds + 10) * self.sizes.patience
            tests = {"RONDO_TEST_PROGRESS": "on", "RONDO_TEST_CASE_SECONDS": str(int(step.deadline))}
            step.environment = RESIDENT | tests | step.environment
            step.command = [str(word) for word in step.command]
        return steps

    def run(self, ranks):
        return [self.bin / "rondo", "run", "-n", ranks, "--"]

    def perf(self, priority, name, arguments, judge=None, seconds=6, launcher=(), **more):
        report = self.work / (name.replace(" ", "-").replace(",", "") + ".json")
        command = [*launcher, self.bin / "rondo", "perf", *arguments, "--device", "cuda:0", "--json", report]
        return Step(priority, name, command, seconds, report=report, judge=judge, **more)

    def speed(self, priority, what, arguments, judge, label="", **more):
        """Returns a step of `rondo perf`. Its figures have the label."""
        name = f"{arguments[0]} of {what}{label and ', ' + label}"
        return self.perf(priority, name, arguments, labelled(judge, label), **more)

    def timeout(self, seconds):
        """Returns the timeout of `rondo perf` in seconds. On the driver in software the timeout only ends what
        hangs, because a busy machine takes longer than a GPU by any factor."""
        return 60 if self.soft else seconds

    def kernels(self, *names):
        return {"SOFT_CUDA_KERNELS": ":".join(str(self.lib / name) for name in names)} if self.soft else {}

    def test_kernels(self):
        """Returns the environment of programs that launch kernels of the tests."""
        image = self.lib / "test_kernels.fatbin"
        return {"RONDO_TEST_KERNELS": str(image)} if image.exists() and not self.soft else self.kernels(
            "libsoftcuda_test_kernels.so")

    def through_mps(self):
        """Returns the words before the launcher of processes that share the device through MPS, and the fields of their
        step."""
        if self.soft:
            return (), {"environment": {"SOFT_CUDA_MPS": "on", "REGION_RANK_COUNT": "20000"}}
        control = gpu_check_mps.CONTROL
        return (("python3", "-B", gpu_check_mps.__file__),  # clients share the queues of their server: 8 by default
                {"missing": "" if shutil.which(control) else f"{control} is not installed",
                 "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "8", "RONDO_LOG": "info"}})

    def smoke(self):
        """Yields each protocol, kernel and executor once, verified. On a GPU, a call that takes over 2 s is aborted."""
        brief = ("-b", 8, "-e", "128K", "-f", 128, "-n", 1, "-w", 1, "-m", 2, "-T", self.timeout(2))
        ways = [("simple", ["--protocol", "simple"], KERNELS), ("ll", ["--protocol", "ll"], KERNELS),
                ("load_store", LOAD_STORE, KERNELS), ("kernels, replayed", ["--graph"], KERNELS),
                ("one kernel for all", [], SHARED),
                ("one kernel for all, replayed", ["--graph", "--one-graph"], SHARED), ("copies", [], COPIES),
                ("copies, replayed", ["--graph"], COPIES)]
        for name, more, environment in ways:
            yield self.perf(1, f"smoke of {name}", ["all_reduce", "--ranks", 2, *brief, *more], seconds=2,
                            environment=environment)
        for collective in COLLECTIVES:
            yield self.perf(1, f"smoke of {collective}", [collective, "--ranks", 2, *brief], seconds=2,
                            environment=KERNELS)
        for handles in ("ipc", "vmm"):
            for name, environment in (("copies", COPIES), ("kernels", KERNELS)):
                yield self.perf(1 if handles == "vmm" else 4, f"smoke of processes by {name}, {handles}",
                                ["all_reduce", *brief], seconds=3, launcher=self.run(2),
                                environment=environment | {"RONDO_DEVICE_HANDLES": handles})

    def matrices(self):
        for ranks, size in self.sizes.matrix.items():
            yield self.matrix(2, ranks, size, MATRIX_SECONDS[ranks])

    def matrix(self, priority, ranks, size, seconds):
        return Step(priority, f"device matrix of {ranks} ranks, bit-equal to the host ({size})",
                    [self.bin / "device_matrix"], seconds,
                    {"RONDO_TEST_MATRIX": size, "RONDO_TEST_MATRIX_RANKS": str(ranks)})

    def cases(self, program, usual, quick):  # the gate runs all cases of the program by themselves
        return [self.bin / program, *([quick] if self.sizes is QUICK else usual)]

    def tests_of_parts(self):
        yield Step(2, "load_store: by kernels of its own", self.cases("gpu_load_store", [], "[short]"), 30)
        yield Step(2, "random programs of messages, blocks and collectives", [self.bin / "device_programs"], 20,
                   {"RONDO_SEED": "1"} if self.sizes is QUICK else {})
        for scenario in ("threads", "graphs", "messages"):
            yield Step(2, f"nccl.h: {scenario}", [self.bin / "nccl_client", scenario], 4, {"LD_PRELOAD": self.shim})
        yield Step(2, "first calls load and allocate nothing", [self.bin / "gpu_hazard", "hazard: the first*"], 8)
        yield Step(2, "kernels that want unlike carve-outs wait for no one", [self.bin / "gpu_hazard", "[carve-out]"],
                   5, {"SOFT_CUDA_RESIDENT_BLOCKS": "12", "SOFT_CUDA_BLOCKS_PER_MULTIPROCESSOR": "3",
                       "RONDO_DEVICE_LAUNCH": "own"})

    def as_if_apart(self):
        """Yields what eight devices would run, on one."""
        yield Step(2, "load_store as if on several devices",
                   self.cases("gpu_load_store", ["[peers]"], "peers: an all-reduce *"), 25, APART)
        for ranks in (2, self.sizes.many):
            yield self.speed(2, f"{ranks} threads, replayed",
                             ["all_reduce", "--ranks", ranks, *self.sizes.small, *self.replayed()], times,
                             "as if on several devices", environment=APART)

    def through_mps_steps(self):
        before, more = self.through_mps()
        yield Step(3, "registered buffers of 2 processes through MPS",
                   [*before, *self.run(2), self.bin / "region_rank", *REGISTERED], 15,
                   says="plan two_shot load_store", **more)
        for kind in ("registered", "private"):  # they request blocks: nobody knows what other processes have
            yield self.speed(3, "2 processes through MPS",
                             ["all_reduce", "--buffers", kind, "--channels", self.sizes.mps_blocks,
                              *self.all_of(self.sizes.medium)], against_floor(None), f"{kind} buffers",
                             seconds=10, launcher=(*before, *self.run(2)), **more)

    def other_tests(self):
        plain = {"SOFT_CUDA_QUEUES": "8"}  # the conformance test looks at queues itself
        yield Step(4, "driver conformance", [self.bin / "driver_conformance"], 30, self.test_kernels() | plain)
        yield Step(4, "driver processes", [self.bin / "driver_process"], 30,
                   self.test_kernels() | plain | {"RONDO_DRIVER_PEER": str(self.bin / "driver_peer")})
        # Processes that take turns on a device share no buffers, so requested calls go through their places.
        for collective in ("all_reduce", *COLLECTIVES):
            yield self.perf(4, f"{collective} of processes through places",
                            [collective, *LOAD_STORE, "-b", 8, "-e", "1M", "-f", 512, "-n", 1, "-w", 1, "-m", 2, "-T",
                             self.timeout(10)], seconds=8, launcher=self.run(2), environment=KERNELS)
        yield Step(4, "device, ranks as threads", self.cases("gpu_device", [], "device: an all-reduce *"), 30,
                   SEVERAL_DEVICES)
        yield Step(4, "one kernel for all ranks of a process",
                   self.cases("gpu_shared", ["[plain]"], "shared launch: a call of all *"), 20)
        yield Step(4, "one kernel for all ranks of a process, and one hardware queue",
                   [self.bin / "gpu_shared", "[queue]"], 20,
                   {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "SOFT_CUDA_QUEUES": "1"})
        if self.sizes is QUICK:  # the tests of both have run by themselves
            return
        for ranks in self.sizes.matrix if self.sizes is FULL else ():
            yield self.matrix(4, ranks, "large", 110)
        yield Step(4, "device, ranks as processes",
                   ["python3", "-B", self.tests / "gpu/device_process_test.py", self.bin / "device_rank"], 105)
        yield Step(4, "copy-engine executor, ranks as threads", [self.bin / "gpu_copy"], 120)

    def seeds(self):
        threads, processes = self.sizes.thread_seeds, self.sizes.process_seeds
        yield Step(3, f"{threads} seeds: a rank aborts, stays away or disagrees", [self.bin / "device_seeds"], 25,
                   {"RONDO_SEED_COUNT": str(threads)})
        # Without MPS a device does the work of one process at a time. Jobs side by side would miss their deadlines.
        yield Step(3, f"{processes} seeds of processes: one is killed, exits, aborts, is silent or disagrees",
                   ["python3", "-B", self.tests / "gpu/device_chaos_test.py", self.bin / "device_chaos_rank",
                    "--any-driver", "--jobs", "1", "--seeds", processes], 30)

    def all_of(self, size):
        return ("-b", size, "-e", size, *self.sizes.runs)

    def replayed(self):
        """Returns options for many calls in a graph, and for one word that releases all streams. So neither launches
        nor their skew are measured."""
        return ("--graph", "--together", "-m", self.sizes.calls, *self.sizes.replays)

    def bars(self):
        """Yields the figures that have a bar."""
        sizes, large = self.sizes, self.all_of(self.sizes.large)
        for ranks in (2, sizes.many):
            yield self.speed(1, f"{ranks} threads", ["all_reduce", "--ranks", ranks, *large], against_floor(FLOOR_BAR))
            yield self.speed(1, f"{ranks} threads", ["all_reduce", "--ranks", ranks, *large],
                             against_floor(FLOOR_BAR), "one kernel", environment=SHARED)
            for label, more, environment in (("", (), {}), ("one kernel", ("--one-graph",), SHARED)):
                yield self.speed(1, f"{ranks} threads, replayed",
                                 ["all_reduce", "--ranks", ranks, *sizes.small, *more, *self.replayed()], latency,
                                 label, environment=environment)
        yield self.speed(4, "2 processes", ["all_reduce", *large], against_floor_and_turns, seconds=10,
                         launcher=self.run(2))

    def beside_nccl(self):
        """Yields NVIDIA's library beside Rondo, with two ranks on the one device, called and replayed."""
        missing = "" if self.nccl else "no --nccl FILE names libnccl.so.2 of NCCL 2.30 or newer"
        for collective in ("all_reduce", "all_gather", "reduce_scatter"):
            for label, more in (("called", ()), ("replayed", ("--graph",))):
                yield self.speed(1, "2 threads beside NCCL",
                                 [collective, "--ranks", 2, *self.sizes.beside, *self.sizes.runs, *more, "--against",
                                  self.nccl, "-T", self.timeout(10)], against_other, label, seconds=12,
                                 missing=missing, environment={"NCCL_MULTI_RANK_GPU_ENABLE": "1"})

    def costs(self):
        path = self.work / "device-costs.json"  # it keeps what it has when it is ended
        yield Step(4, "device costs", [self.bin / "device_costs", *(["--quick"] if self.soft else []), path], 60,
                   self.test_kernels(), report=path)

    def other_speed(self):
        """Yields figures without a bar: by call, of processes, by protocol, by blocks, of set-up, of others."""
        many, medium, in_place = self.sizes.many, self.all_of(self.sizes.medium), "--in-place-only"
        floor = against_floor(None)
        for label, environment in (("a kernel each", {}), ("one kernel", SHARED)):
            yield self.speed(4, f"{many} threads, call by call",
                             ["all_reduce", "--ranks", many, *self.sizes.small, *self.sizes.runs], floor, label,
                             environment=environment)
        for label, more in (("ll", ("--protocol", "ll")), ("simple", ("--protocol", "simple")),
                            *((f"load_store and {way}", (*LOAD_STORE, "--algorithm", way))
                              for way in ("one_shot", "two_shot"))):
            yield self.speed(4, f"{many} threads, replayed",
                             ["all_reduce", "--ranks", many, *self.sizes.protocols, *more, in_place, *self.replayed()],
                             floor, label)
        for blocks in (1, 2, 4, 8):
            yield self.speed(4, "4 threads", ["all_reduce", "--ranks", 4, *medium, "--channels", 8, "--max-ctas",
                                              blocks, in_place], floor, f"at most {blocks} blocks")
        one = ("-b", 8, "-e", 8, "-n", 1, "-w", 0, "-m", 1, in_place)
        for executor, environment in (("kernel", KERNELS), ("copy", COPIES)):
            yield self.speed(4, f"{many} threads, set-up", ["all_reduce", *one, "--ranks", many], setup,
                             f"threads, {executor}", environment=environment)
            yield self.speed(4, f"{many} processes, set-up", ["all_reduce", *one], setup, f"processes, {executor}",
                             launcher=self.run(many), environment=environment)
        for collective in COLLECTIVES:
            yield self.speed(4, f"{many} threads", [collective, "--ranks", many, *medium], floor)
        yield self.speed(4, "4 threads", ["all_gather", "--ranks", 4, in_place, *medium], floor, "copies",
                         environment=COPIES)

    def products(self):
        """Yields how much a large matrix product and a collective slow each other."""
        library = str(self.lib / "libfake_cublas.so") if self.soft else find_library("libcublas")
        missing = "" if library else "there is no cuBLAS: no toolkit, no Python packages with it"
        size = self.sizes.medium
        beside = ("--ranks", 4, "-b", size, "-e", size, "-n", 5, "-w", 1, "-m", 5, "--in-place-only",
                  "--beside-product", self.sizes.rows, "--product-library", library)
        yield self.speed(3, "4 threads beside a product", ["all_gather", *beside], beside_product(BESIDE_BAR), "copies",
                         missing=missing, environment=COPIES)
        for blocks in (4, 8, 1, 2):
            yield self.speed(3 if blocks >= 4 else 4, "4 threads beside a product",
                             ["all_reduce", *beside, "--channels", 8],
                             beside_product(None), f"at most {blocks} blocks", missing=missing,
                             environment=KERNELS | {"RONDO_MAX_CTAS": str(blocks)})

    def train(self, priority, name, ranks, arguments, judge=None, environment=None, before=()):
        library = str(self.lib / "libfake_cublas_lt.so") if self.soft else find_library("libcublasLt")
        missing = "" if library else "there is no cuBLASLt: no toolkit, no Python packages with it"
        if not (self.bin / "rondo-train").exists():
            missing = "the bundle was built without oneDNN, so it has no trainer"
        folder = self.work / name.replace(" ", "-").replace(",", "")
        corpus = [word for place in (self.tests, Path(__file__)) for word in ("--corpus", place)] if self.soft else []
        device = () if name == "losses of the host" else ("--device", "cuda:0", "--product-library", library)
        command = [*before, *self.run(ranks), self.bin / "rondo", "train", *corpus, *arguments, *device, "--report",
                   folder]
        # These are the library's kernels, and the trainer's kernels.
        soft = self.kernels("librondo_soft_kernels.so", "librondo_soft_train_kernels.so")
        return Step(priority, name, command, 20, (environment or {}) | soft, missing, "", folder / "report.json", judge)

    def losses(self):
        small = (*(SMALL_MODEL if self.soft else ("--model", "nano")), *self.sizes.train[:2], "--measure", 0)
        yield self.train(3, "losses of the host", 1, small)
        yield self.train(3, "losses of the device", 1, small, follows(self.work / "losses-of-the-host" / "report.json"))

    def model(self):
        large = SMALL_MODEL if self.soft else ("--model", "gpt2", "--batch", TRAIN_BATCH, "--bucket-mb", 25)
        return (*large, "--precision", "bfloat16", "--wire", "bfloat16", "--check-every", 0, "--validation-batches", 1,
                *self.sizes.train)

    def train_by_kernels(self, priority, ranks, blocks):
        # Without MPS, a kernel that waits for a rank keeps that rank's computation from the device.
        before, more = self.through_mps()
        kernels = KERNELS | {"RONDO_CHANNELS": str(max(self.sizes.train_blocks)), "RONDO_MAX_CTAS": str(blocks)}
        step = self.train(priority, f"gpt2, {ranks} ranks, kernels of at most {blocks} blocks", ranks, self.model(),
                          overlap(f"kernels, at most {blocks} blocks"), kernels | more["environment"], before)
        step.missing = step.missing or more.get("missing", "")
        return step

    def training(self):
        yield self.train(3, "gpt2, one rank", 1, self.model(), overlap("alone"))
        report = self.work / "torch.json"
        model = ("--model", "nano", "--batch", 2, "--steps", 1) if self.soft else (
            "--model", "gpt2", "--batch", TRAIN_BATCH, "--steps", 20, "--device", "cuda")
        yield Step(3, "gpt2, one rank, by PyTorch",
                   ["python3", "-B", self.peer_training, *model, "--corpus", self.tests / "gpu", "--json", report], 25,
                   missing="" if importlib.util.find_spec("torch") else "PyTorch is not installed", report=report,
                   judge=torch_step)
        yield self.train_by_kernels(3, 2, min(4, max(self.sizes.train_blocks)))

    def other_training(self):
        for ranks in self.sizes.train_ranks:
            yield self.train(4, f"gpt2, {ranks} ranks, copies", ranks, self.model(), overlap("copies"), COPIES)
            for blocks in self.sizes.train_blocks:
                if (ranks, blocks) != (2, min(4, max(self.sizes.train_blocks))):
                    yield self.train_by_kernels(4, ranks, blocks)

    def sanitizer(self):
        """Yields the checks of compute-sanitizer. Ranks with kernels of their own wait for each other. If the tool runs
        kernels one by one, these calls time out, and so only one kernel for all ranks can be checked."""
        tool = shutil.which("compute-sanitizer", path=os.pathsep.join(
            [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]))
        missing = "there is no GPU" if self.soft else "" if tool else "compute-sanitizer is not installed"
        checks = ((3, "memcheck of load_store", "memcheck", ("gpu_load_store", "[short]"), {}),
                  (3, "memcheck of messages and blocks", "memcheck", ("device_programs",), {"RONDO_SEED": "8"}),
                  (4, "memcheck of one kernel for all", "memcheck", ("device_matrix",),
                   {"RONDO_TEST_MATRIX": "tiny"} | SHARED),
                  (4, "racecheck of one kernel for all", "racecheck", ("device_matrix",),
                   {"RONDO_TEST_MATRIX": "tiny"} | SHARED))
        for priority, name, check, (program, *arguments), environment in checks:
            yield Step(priority, name, [tool, "--tool", check, "--error-exitcode", "99", self.bin / program,
                                        *arguments], 40, environment, missing)


def soft_environment(bundle):
    """Sets the driver in software up like real devices: a queue for each stream, and two blocks on a multiprocessor."""
    libraries = Path(bundle) / "lib"
    return {"RONDO_CUDA_LIBRARY": str(libraries / "libsoftcuda.so"), "SOFT_CUDA_QUEUES": "32",
            "SOFT_CUDA_KERNELS": str(libraries / "librondo_soft_kernels.so"),
            "SOFT_CUDA_BLOCKS_PER_MULTIPROCESSOR": "2", "SOFT_CUDA_MEMORY": str(1024 * MIB)}
