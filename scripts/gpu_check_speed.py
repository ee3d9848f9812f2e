# SPDX-License-Identifier: Apache-2.0
"""Part B of scripts/gpu-check: the speed, beside budgets and floors."""

from gpu_check_figures import (BESIDE_BAR, FLOOR_BAR, against_floor, against_floor_and_turns, and_setup, beside_product,
                               labelled, latency, setup)
from gpu_check_steps import COPIES, KERNELS, SHARED, find_library, options_of
from gpu_check_train import TrainSteps


class AllSteps(TrainSteps):
    def part_b(self):
        """Yields first the steps that have a bar, then those that the tuner would need, then the rest."""
        yield from self.bandwidth()
        yield from self.latencies()
        yield from self.registered()
        yield from self.protocols()
        yield from self.algorithms()
        yield from self.blocks()
        yield from self.processes()
        yield from self.products()
        yield from self.others()

    def all_reduce(self, name, arguments, judge, **more):
        return self.perf("B", f"all_reduce of {name}", ["all_reduce", *arguments], judge, **more)

    def bandwidth(self):
        sizes = self.sizes
        large = ("-b", sizes.large, "-e", sizes.large, *sizes.runs)
        for ranks in (2, sizes.many):
            yield self.all_reduce(f"{ranks} threads", ["--ranks", ranks, *large], and_setup(against_floor(FLOOR_BAR)))
        for blocks in sizes.pair_blocks:
            yield self.all_reduce(f"2 threads by {blocks} blocks", ["--ranks", 2, *large, "--channels", blocks],
                                  labelled(against_floor(None), f"{blocks} blocks of each"))
        for ranks in (2, sizes.many):
            yield self.all_reduce(f"{ranks} threads by one kernel", ["--ranks", ranks, *large],
                                  labelled(against_floor(FLOOR_BAR), "one kernel"), environment=SHARED)
        yield self.all_reduce(f"{sizes.many} threads by load_store",
                              ["--ranks", sizes.many, *large, "--in-place-only", *options_of("load_store")],
                              labelled(against_floor(FLOOR_BAR), "load_store"))

    def medium(self):
        return ("-b", self.sizes.medium, "-e", self.sizes.medium, *self.sizes.runs)

    def replayed(self):
        """Returns options for many calls in a graph, and all streams released by one word. So neither launches nor
        their skew are measured."""
        return ("--graph", "--together", "-m", self.sizes.calls, *self.sizes.replays)

    def latencies(self):
        """Yields latencies by a graph of each rank, by one kernel in a graph of all, and call by call."""
        many = self.sizes.many
        for ranks, label, more, environment in (
                (2, "", (), {}), (many, "", (), {}), (2, "one kernel", ("--one-graph",), SHARED),
                (many, "one kernel", ("--one-graph",), SHARED)):
            yield self.all_reduce(f"{ranks} threads{label and ' by ' + label}, replayed",
                                  ["--ranks", ranks, *self.sizes.small, *more, *self.replayed()],
                                  labelled(latency, label) if label else latency, environment=environment)
        for label, environment in (("a kernel each", {}), ("one kernel", SHARED)):
            yield self.all_reduce(f"{many} threads by {label}, call by call",
                                  ["--ranks", many, *self.sizes.small, *self.sizes.runs],
                                  labelled(against_floor(None), f"{label}, call by call"), environment=environment)

    def by(self, way, sizes, options, **more):
        return self.all_reduce(f"{self.sizes.many} threads by {way}, replayed",
                               ["--ranks", self.sizes.many, *sizes, *options, "--in-place-only", *self.replayed()],
                               labelled(against_floor(None), f"{way}, replayed"), **more)

    def registered(self):
        """Yields processes that share the device, in buffers that they share and through places. They request blocks,
        since through MPS nobody knows what other processes have."""
        before, more = self.through_mps()
        for kind in ("registered", "private"):
            yield self.all_reduce(f"2 processes through MPS, {kind} buffers",
                                  ["--buffers", kind, "--channels", self.sizes.mps_blocks, *self.medium()],
                                  labelled(against_floor(None), f"MPS, {kind} buffers"),
                                  launcher=(*before, *self.launcher(2)), **more)

    def protocols(self):
        for way in ("ll", "load_store", "simple"):
            yield self.by(way, self.sizes.protocols, options_of(way))

    def algorithms(self):
        for way in ("one_shot", "two_shot"):
            yield self.by(way, self.sizes.algorithms, (*options_of("load_store"), "--algorithm", way))

    def blocks(self):
        for blocks in (1, 2, 4, 8):
            yield self.all_reduce(f"4 threads, {blocks} blocks",
                                  ["--ranks", 4, *self.medium(), "--channels", 8, "--max-ctas", blocks,
                                   "--in-place-only"],
                                  labelled(against_floor(None), f"at most {blocks} blocks"))

    def processes(self):
        """Yields processes that share the device without MPS, and the time of making communicators."""
        sizes = self.sizes
        yield self.all_reduce("2 processes", ["-b", sizes.large, "-e", sizes.large, *sizes.runs],
                              against_floor_and_turns, launcher=self.launcher(2))
        one = ("-b", 8, "-e", 8, "-n", 1, "-w", 0, "-m", 1, "--in-place-only")
        for executor, environment in (("kernel", KERNELS), ("copy", COPIES)):
            yield self.all_reduce(f"{sizes.many} threads, set-up, {executor}", [*one, "--ranks", sizes.many],
                                  labelled(setup, f"threads, {executor}"), environment=environment)
            yield self.all_reduce(f"{sizes.many} processes, set-up, {executor}", one,
                                  labelled(setup, f"processes, {executor}"), launcher=self.launcher(sizes.many),
                                  environment=environment)

    def products(self):
        """Yields how much a large matrix product and a collective slow each other."""
        library = str(self.kernels / "libfake_cublas.so") if self.soft else find_library("libcublas")
        missing = "" if library else "there is no cuBLAS: no toolkit, no Python packages with it"
        size = self.sizes.medium
        beside = ("--ranks", 4, "-b", size, "-e", size, "-n", 5, "-w", 1, "-m", 5, "--in-place-only",
                  "--beside-product", self.sizes.rows, "--product-library", library)
        yield self.perf("B", "all_gather of 4 threads by copies, beside a product", ["all_gather", *beside],
                        labelled(beside_product(BESIDE_BAR), "by copies"), missing=missing, environment=COPIES)
        for blocks in (1, 2, 4, 8):
            yield self.all_reduce(f"4 threads, {blocks} blocks, beside a product", [*beside, "--channels", 8],
                                  labelled(beside_product(None), f"at most {blocks} blocks"), missing=missing,
                                  environment=KERNELS | {"RONDO_MAX_CTAS": str(blocks)})

    def others(self):
        for collective in ("reduce_scatter", "all_gather", "broadcast", "reduce"):
            yield self.perf("B", f"{collective} of {self.sizes.many} threads",
                            [collective, "--ranks", self.sizes.many, *self.medium()], against_floor(None))
        replayed = (["--graph"], "by copies, replayed")
        for collective, more, label in (("all_gather", [], "by copies"), ("all_gather", *replayed),
                                        ("all_reduce", *replayed)):
            yield self.perf("B", f"{collective} of 4 threads, {label}",
                            [collective, "--ranks", 4, "--in-place-only", *more, *self.medium()],
                            labelled(against_floor(None), label), environment=COPIES)
