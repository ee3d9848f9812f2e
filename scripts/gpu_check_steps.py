# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu-check runs, as data: the tests, the figures, and the bars that figures are to meet."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

STAGES = ("correctness", "bench", "faults", "sanitizer")
MIB = 1 << 20
FLOOR_BAR = 1.3        # times the floor: 2, 4, 8 ranks as threads, float32 sum, 256 MiB
LATENCY_BAR_US = 5.0   # 8 B to 32 KiB, 8 ranks, replayed
TURNS_BAR = 2.0        # times the floor, and the measured hand-overs, of processes that share the device
BESIDE_BAR = 0.03      # a large matrix product slows by so much beside a copy-engine all-gather
COVERED_LEAST = 0.9    # of the product's time, for that to say anything
NO_LL128 = "the protocol 'll128' that was asked for"  # how Rondo refuses it on a device that is not known to bear it
SHARED = {"RONDO_DEVICE_LAUNCH": "shared"}  # one kernel for all ranks that are threads
RESIDENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}  # ranks that are threads on a device need a queue each


@dataclass
class Step:
    stage: str
    name: str
    command: list
    seconds: int                                    # at most
    environment: dict = field(default_factory=dict)
    missing: str = ""                               # why it cannot run here
    refusal: str = ""                               # a failure whose log has these words: it cannot run here
    judge: object = None                            # of a `rondo perf` report: judge(report) -> [Figure]


@dataclass
class Figure:
    name: str
    value: str
    bar: str = ""
    met: object = None  # True, False, or None: there is no bar


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def times(report):
    """(bytes, placement, median us, floor us) of each result."""
    for row in report["results"]:
        for placement in ("out_of_place", "in_place"):
            if row[placement] is not None:
                yield row["bytes"], placement, row[placement]["time_us"]["median"], row[placement]["floor_us"]


def against_floor(bar):
    """Each result as a multiple of its floor; `bar` may be None."""
    def judge(report):
        for size, placement, median, floor in times(report):
            ratio = median / floor if floor > 0 else float("inf")
            yield Figure(f"{report['collective']}, {report['ranks']} ranks, {size_name(size)}, "
                         f"{placement.replace('_', ' ')}",
                         f"{median:.1f} us = {ratio:.2f} x floor {floor:.1f} us",
                         f"at most {bar} x floor" if bar else "", ratio <= bar if bar else None)
    return judge


def latency(report):
    for size, placement, median, _ in times(report):
        yield Figure(f"{report['collective']}, {report['ranks']} ranks, {size_name(size)}, "
                     f"{placement.replace('_', ' ')}, replayed", f"{median:.2f} us",
                     f"at most {LATENCY_BAR_US} us", median <= LATENCY_BAR_US)


def setup(report):
    """What making the communicator took."""
    yield Figure(f"a communicator of {report['ranks']} ranks made", f"{report['setup_ms']:.1f} ms")


def and_setup(judge):
    def judged(report):
        yield from setup(report)
        yield from judge(report)
    return judged


def against_floor_and_turns(report):
    """Processes that share a device: the floor, and the hand-overs that the plan has in a row."""
    told = [device["hand_over_us"] for device in report["devices"] if "hand_over_us" in device]
    if not told:  # the device cannot wait for words
        yield from against_floor(None)(report)
        return
    hand_over = max(told)
    yield Figure(f"the device handed over among {report['ranks']} processes", f"{hand_over:.1f} us")
    counts = {row["bytes"]: row.get("hand_overs", 0) for row in report["results"]}
    for size, placement, median, floor in times(report):
        most = TURNS_BAR * floor + counts[size] * hand_over
        yield Figure(f"{report['collective']}, {report['ranks']} processes that take turns, {size_name(size)}, "
                     f"{placement.replace('_', ' ')}",
                     f"{median:.1f} us; floor {floor:.1f} us, {counts[size]} hand-overs of {hand_over:.1f} us",
                     f"at most {TURNS_BAR} x floor + hand-overs = {most:.1f} us", median <= most)


def beside_product(bar):
    """Both slow-downs; `bar`, which may be None, is the product's."""
    def judge(report):
        product = report["product"]
        for row in report["results"]:
            for placement in ("out_of_place", "in_place"):
                if row[placement] is None:
                    continue
                beside = row[placement]["beside"]
                what = f"{report['collective']}, {report['ranks']} ranks, {size_name(row['bytes'])}"
                slow, covered = beside["slowdown"]["product"], beside["covered"]["product"]
                yield Figure(f"a product of {product['size']} rows beside {what}", slowed(beside, "product"),
                             f"at most {bar:.0%} slower, {COVERED_LEAST:.0%} covered" if bar else "",
                             slow <= bar and covered >= COVERED_LEAST if bar else None)
                yield Figure(f"{what}, beside that product", slowed(beside, "call"))
    return judge


def slowed(beside, which):
    alone, with_other = (beside[f"{which}_us"][when]["median"] for when in ("alone", "beside"))
    return (f"{alone:.1f} us alone, {with_other:.1f} us beside: {beside['slowdown'][which]:+.1%}, "
            f"{beside['covered'][which]:.0%} covered")


def cublas_library():
    """cuBLAS of a toolkit, or of the Python packages that PyTorch brings; "": none."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) + ["/usr/local/cuda/lib64"]
    folders += [os.path.join(place, "nvidia", part, "lib") for place in sys.path for part in ("cu13", "cublas")]
    folders += ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    found = (os.path.join(folder, name) for name in ("libcublas.so.13", "libcublas.so.12") for folder in folders
             if folder)
    return next(filter(os.path.isfile, found), "")


def labelled(judge, label):
    def judged(report):
        for figure in judge(report):
            figure.name += f" ({label})"
            yield figure
    return judged


class Steps:
    def __init__(self, bundle, output, soft, quick):
        self.bin, self.tests, self.output = bundle / "bin", bundle / "tests", output
        self.soft, self.quick = soft, quick
        self.kernels = bundle / "lib"

    def soft_kernels(self, name):
        return {"SOFT_CUDA_KERNELS": str(self.kernels / name)} if self.soft else {}

    def correctness(self):
        test_kernels = self.soft_kernels("libsoftcuda_test_kernels.so")
        image = self.kernels / "test_kernels.fatbin"
        if not self.soft and image.exists():
            test_kernels = {"RONDO_TEST_KERNELS": str(image)}
        plain = {"SOFT_CUDA_QUEUES": "8"}  # the conformance test looks at queues itself
        yield Step("correctness", "driver conformance", [self.bin / "driver_conformance"], 60, test_kernels | plain)
        yield Step("correctness", "driver processes", [self.bin / "driver_process"], 60,
                   test_kernels | plain | {"RONDO_DRIVER_PEER": str(self.bin / "driver_peer")})
        yield Step("correctness", "device, ranks as threads", [self.bin / "gpu_device"], 90)
        yield Step("correctness", "copy-engine executor, ranks as threads", [self.bin / "gpu_copy"], 120)
        yield Step("correctness", "ll128: where it can be had", [self.bin / "gpu_ll128"], 60)
        yield Step("correctness", "direct: by kernels of its own", [self.bin / "gpu_direct"], 60)
        yield Step("correctness", "one kernel for all ranks of a process", [self.bin / "gpu_shared", "[plain]"], 60)
        yield Step("correctness", "one kernel for all ranks of a process, and one hardware queue",
                   [self.bin / "gpu_shared", "[queue]"], 60,
                   {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "SOFT_CUDA_QUEUES": "1"})
        yield Step("correctness", "device, ranks as processes",
                   ["python3", "-B", self.tests / "gpu/device_process_test.py", self.bin / "device_rank"], 90)
        yield Step("correctness", "first calls load and allocate nothing",
                   [self.bin / "gpu_hazard", "hazard: the first*"], 60)
        size = "large" if not self.quick else "tiny"
        yield Step("correctness", f"device matrix, bit-equal to the host ({size})", [self.bin / "device_matrix"], 180,
                   {"RONDO_TEST_MATRIX": size})

    def perf(self, name, arguments, judge, seconds=60, launcher=(), **more):
        report = self.output / (name.replace(" ", "-").replace(",", "") + ".json")
        command = [*launcher, self.bin / "rondo", "perf", *arguments, "--device", "cuda:0", "--json", report]
        return Step("bench", name, command, seconds, judge=judge, **more)

    def launcher(self, ranks):
        return [self.bin / "rondo", "run", "-n", ranks, "--"]

    def setups(self):
        """Making a communicator, and one call to see that it works."""
        one = ("all_reduce", "-b", 8, "-e", 8, "-n", 1, "-w", 0, "-m", 1, "--in-place-only")
        ranks = 8 if not self.quick else 3
        for executor in ("kernel", "copy"):
            environment = {"RONDO_DEVICE_EXECUTOR": executor}
            yield self.perf(f"set-up of {ranks} threads, {executor}", [*one, "-r", ranks],
                            labelled(setup, f"threads, {executor}"), environment=environment)
            yield self.perf(f"set-up of {ranks} processes, {executor}", one,
                            labelled(setup, f"processes, {executor}"), launcher=self.launcher(ranks),
                            environment=environment)

    def products(self):
        """What a large matrix product and a collective cost each other."""
        library = str(self.kernels / "libfake_cublas.so") if self.soft else cublas_library()
        missing = "" if library else "there is no cuBLAS: no toolkit, no Python packages with it"
        rows, size = (8192, str(64 * MIB)) if not self.quick else (64, "32K")
        beside = ("-r", 4, "-b", size, "-e", size, "-n", 5, "-w", 1, "-m", 5, "--in-place-only",
                  "--beside-product", rows, "--product-library", library)
        yield self.perf("all_gather of 4 threads by copies, beside a product", ["all_gather", *beside],
                        labelled(beside_product(BESIDE_BAR), "by copies"), missing=missing,
                        environment={"RONDO_DEVICE_EXECUTOR": "copy"})
        for blocks in (1, 2, 4, 8):
            yield self.perf(f"all_reduce of 4 threads, {blocks} blocks, beside a product",
                            ["all_reduce", *beside, "--channels", 8],
                            labelled(beside_product(None), f"at most {blocks} blocks"), missing=missing,
                            environment={"RONDO_DEVICE_EXECUTOR": "kernel", "RONDO_MAX_CTAS": str(blocks)})

    def bench(self):
        large = str(256 * MIB) if not self.quick else "64K"
        medium = str(64 * MIB) if not self.quick else "32K"
        few = ("-n", "5", "-w", "1")
        for ranks in (2, 4, 8):
            yield self.perf(f"all_reduce of {ranks} threads",
                            ["all_reduce", "-r", ranks, "-b", large, "-e", large, *few],
                            and_setup(against_floor(FLOOR_BAR)))
        runs = few if self.quick else ("-n", "30", "-w", "5")
        yield self.perf("all_reduce of 8 threads, replayed",
                        ["all_reduce", "-r", 8, "-b", 8, "-e", "32K", "-f", 8, "--graph", *runs], latency)
        sizes = ("-b", "64K", "-e", "64K") if self.quick else ("-b", "8K", "-e", "8M", "-f", 8)
        directly = ("--protocol", "direct")
        yield self.perf("all_reduce of 8 threads by direct, small, replayed",
                        ["all_reduce", "-r", 8, "-b", 8, "-e", "32K", "-f", 8, "--graph", *directly, *runs],
                        labelled(latency, "direct"))
        yield self.perf("all_reduce of 8 threads by direct",
                        ["all_reduce", "-r", 8, "-b", large, "-e", large, "--in-place-only", *directly, *few],
                        labelled(against_floor(FLOOR_BAR), "direct"))
        for protocol in ("simple", "ll", "ll128", "direct"):  # what the tuner would have to know
            yield self.perf(f"all_reduce of 8 threads by {protocol}, replayed",
                            ["all_reduce", "-r", 8, *sizes, "--graph", "--protocol", protocol, "--in-place-only",
                             *runs],
                            labelled(against_floor(None), f"{protocol}, replayed"),
                            refusal=NO_LL128 if protocol == "ll128" else "")
        yield self.perf("all_reduce of 2 processes", ["all_reduce", "-b", large, "-e", large, *few],
                        against_floor_and_turns, launcher=self.launcher(2))
        yield from self.setups()
        yield from self.products()
        for blocks in (1, 2, 4, 8):
            yield self.perf(f"all_reduce of 4 threads, {blocks} blocks",
                            ["all_reduce", "-r", 4, "-b", medium, "-e", medium, "--channels", 8, "--max-ctas", blocks,
                             "--in-place-only", *few], labelled(against_floor(None), f"at most {blocks} blocks"))
        yield self.perf("all_reduce of 8 threads, one kernel",
                        ["all_reduce", "-r", 8, "-b", large, "-e", large, "--in-place-only", *few],
                        labelled(against_floor(FLOOR_BAR), "one kernel"), environment=SHARED)
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            yield self.perf(f"{collective} of 8 threads", [collective, "-r", 8, "-b", medium, "-e", medium, *few],
                            against_floor(None))
        replayed = (["--graph"], "by copies, replayed")
        for collective, more, label in (("all_gather", [], "by copies"), ("all_gather", *replayed),
                                        ("all_reduce", *replayed)):
            yield self.perf(f"{collective} of 4 threads, {label}",
                            [collective, "-r", 4, "-b", medium, "-e", medium, "--in-place-only", *more, *few],
                            labelled(against_floor(None), label), environment={"RONDO_DEVICE_EXECUTOR": "copy"})

    def faults(self):
        threads, processes = ("70", "30") if not self.quick else ("3", "3")
        yield Step("faults", f"{threads} seeds: a rank aborts, stays away or disagrees", [self.bin / "device_seeds"],
                   120, {"RONDO_SEED_COUNT": threads})
        yield Step("faults", f"{processes} seeds of processes: one is killed, exits, aborts, is silent or disagrees",
                   ["python3", "-B", self.tests / "gpu/device_chaos_test.py", self.bin / "device_chaos_rank",
                    "--any-driver", "--seeds", processes], 180)

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer", path=os.pathsep.join(
            [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]))
        missing = "there is no GPU" if self.soft else "" if tool else "compute-sanitizer is not installed"
        for check in ("memcheck", "racecheck"):
            # It may make kernels run one by one: ranks in kernels of their own would wait for ever.
            yield Step("sanitizer", check,
                       [tool, "--tool", check, "--error-exitcode", "99", self.bin / "device_matrix"], 120,
                       {"RONDO_TEST_MATRIX": "tiny"} | SHARED, missing)

    def of(self, stage):
        for step in getattr(self, stage)():
            step.environment = RESIDENT | self.soft_kernels("librondo_soft_kernels.so") | step.environment
            step.command = [str(word) for word in step.command]
            yield step


def soft_environment(bundle):
    return {"RONDO_CUDA_LIBRARY": str(Path(bundle) / "lib/libsoftcuda.so"), "SOFT_CUDA_QUEUES": "32",
            "SOFT_CUDA_MEMORY": str(512 * MIB)}
