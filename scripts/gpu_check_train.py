# SPDX-License-Identifier: Apache-2.0
"""Part E of scripts/gpu-check, the trainer on the device. First its losses are compared with the host's. Then the model
of GPT-2's size runs on ranks that share the device, by either executor and with budgets of blocks. It shows how much
communication hides, and what it takes from computation."""

import json

from gpu_check_figures import Figure
from gpu_check_steps import COPIES, KERNELS, SOFT_FOLLOWED, Step, Steps, find_library

FOLLOWS_BAR = 1e-3  # by which share a loss on the device may differ from the host's
SMALL = ("--width", 32, "--layers", 2, "--heads", 2, "--context", 32, "--batch", 2)


def spread(values, unit=""):
    return f"{values['median']:.2f}{unit} ({values['min']:.2f} to {values['max']:.2f})" if values else "not measured"


def overlap_of(label):
    """Returns a judge of how well communication and computation overlap, as the trainer reports it."""
    def judge(report):
        times = report["time_us"]
        parts = ", ".join(f"{name} {times[name] / 1e3:.1f}" for name in ("forward", "backward", "optimizer",
                                                                        "waiting", "communication", "exposed"))
        yield Figure(f"a step of {report['model']}, {report['ranks']} ranks ({label})",
                     f"{times['step'] / 1e3:.1f} ms: {parts}")
        overlap = report["overlap"] or {"headline": "not measured", "efficiency_text": None, "slowdown_text": None}
        yield Figure(f"overlap of {report['model']}, {report['ranks']} ranks ({label})", overlap["headline"])
        yield Figure(f"overlap efficiency of {report['model']}, {report['ranks']} ranks ({label})",
                     overlap["efficiency_text"] or "not told")
        rounds = report["measurement"]
        yield Figure(f"computation beside communication over the same alone, {report['ranks']} ranks ({label})",
                     overlap["slowdown_text"] or "not told")
        yield Figure(f"steps with overlap and without, {report['ranks']} ranks ({label})",
                     f"{spread(rounds['step_overlap_us'], ' us')}; {spread(rounds['step_no_overlap_us'], ' us')}")
    return judge


def follows(host_report):
    """Returns a judge of the largest relative difference of any loss."""
    def judge(report):
        host = json.loads(host_report.read_text(encoding="utf-8"))
        pairs = zip(report["loss"]["train"], host["loss"]["train"], strict=True)
        most = max(abs(mine - other) / other for (_, mine), (_, other) in pairs)
        yield Figure(f"losses of {len(host['loss']['train'])} steps on the device beside the host's",
                     f"differ by {most:.1e} at most", f"at most {FOLLOWS_BAR:.0e}", most <= FOLLOWS_BAR)
    return judge


class TrainSteps(Steps):
    def train(self, name, ranks, arguments, judge=None, environment=None, missing="", before=()):
        folder = self.work / name.replace(" ", "-").replace(",", "")
        places = (self.tests, self.bin.parent / "gpu_check_steps.py")
        corpus = [word for place in places for word in ("--corpus", place)]
        command = [*before, *self.launcher(ranks), self.bin / "rondo", "train", *corpus, *arguments, "--report", folder]
        return Step("E", name, command, 90, (environment or {}) | self.soft_kernels(SOFT_FOLLOWED), missing,
                    report=folder / "report.json", judge=judge)

    def part_e(self):
        library = str(self.kernels / "libfake_cublas_lt.so") if self.soft else find_library("libcublasLt")
        missing = "" if library else "there is no cuBLASLt: no toolkit, no Python packages with it"
        if not (self.bin / "rondo-train").exists():
            missing = "the bundle was built without oneDNN, so it has no trainer"
        device = ("--device", "cuda:0", "--product-library", library)
        small = SMALL if self.soft else ("--model", "nano")
        steps = ("--steps", self.sizes.train_steps, "--measure", 0)
        yield self.train("losses of the host", 1, (*small, *steps), missing=missing)
        host_report = self.work / "losses-of-the-host" / "report.json"
        yield self.train("losses of the device", 1, (*small, *steps, *device), follows(host_report), missing=missing)
        yield self.train("losses of two ranks on the device, narrow gradients", 2,
                         (*small, *steps, *device, "--wire", "bfloat16"), missing=missing)
        large = SMALL if self.soft else ("--model", "gpt2", "--batch", 4, "--bucket-mb", 25)
        beside = (*large, *device, "--precision", "bfloat16", "--wire", "bfloat16", "--check-every", 0,
                  "--validation-batches", 1, "--steps", self.sizes.train_steps, "--measure", self.sizes.train_rounds)
        yield self.train("gpt2, one rank", 1, beside, overlap_of("alone"), missing=missing)
        for ranks in self.sizes.train_ranks:
            yield self.train(f"gpt2, {ranks} ranks, copies", ranks, beside, overlap_of("copies"), COPIES, missing)
            # Without MPS a kernel that waits keeps the device from the computation of the rank that it waits for.
            before, more = self.through_mps()
            environment = KERNELS | more.pop("environment") | {"RONDO_CHANNELS": str(max(self.sizes.train_blocks))}
            for blocks in self.sizes.train_blocks:
                yield self.train(f"gpt2, {ranks} ranks, kernels of at most {blocks} blocks", ranks, beside,
                                 overlap_of(f"kernels, at most {blocks} blocks"),
                                 environment | {"RONDO_MAX_CTAS": str(blocks)}, missing or more.get("missing", ""),
                                 before)
