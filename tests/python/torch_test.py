# SPDX-License-Identifier: Apache-2.0
"""Tests rondo.torch in jobs of four processes: torch_test.py LIBNCCL. RONDO_TEST_PYTHON names an interpreter that has
PyTorch 2.9 or newer."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "torch_program.py"
PYTHON = os.environ.get("RONDO_TEST_PYTHON", sys.executable)
LIMIT_S = 240  # only detects hangs
SIZE = 4
LIBRARY = ""
# PyTorch's wheels also load NVIDIA's library, by its path. Calls go to the library that is first in the global scope.
LOOK = "import torch; print(*torch.__version__.split('+')[0].split('.')[:2])"


def missing():
    """Returns why the tests cannot run, or None."""
    look = subprocess.run([PYTHON, "-c", LOOK], capture_output=True, text=True, check=False)
    if look.returncode != 0:
        return f"{PYTHON} cannot import torch: name one that can, by RONDO_TEST_PYTHON"
    if tuple(map(int, look.stdout.split())) < (2, 9):
        return f"PyTorch {look.stdout.strip()} is older than 2.9: name another interpreter, by RONDO_TEST_PYTHON"
    return None


def run(*cases):
    """Runs cases in a job. Returns the exit code and the output of each rank."""
    environment = {name: value for name, value in os.environ.items() if name == "RONDO_INTERFACE" or
                   not name.startswith(("RONDO_", "TORCH_"))}
    environment.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    with tempfile.TemporaryDirectory() as folder:
        outputs = [open(Path(folder) / f"output{rank}", "w+", encoding="utf-8") for rank in range(SIZE)]
        ranks = [subprocess.Popen([PYTHON, "-B", str(PROGRAM), f"{folder}/store", str(rank), str(SIZE), *cases],
                                  env=environment, stdout=outputs[rank], stderr=subprocess.STDOUT)
                 for rank in range(SIZE)]
        try:
            codes = [rank.wait(LIMIT_S) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
            texts = []
            for output in outputs:
                output.seek(0)
                texts.append(output.read())
                output.close()
            print(*texts, sep="\n")
    return list(zip(codes, texts))


class Torch(unittest.TestCase):
    def passes(self, *cases):
        for code, text in run(*cases):
            self.assertEqual((code, [line for line in text.splitlines() if line.startswith("done: ")]),
                             (0, [f"done: {case}" for case in cases]))

    def test_collectives_and_messages_equal_what_the_ranks_compute_alone(self):
        self.passes("reductions", "sparse", "strides", "monitored", "remade", "copies", "blocks", "asynchronous",
                    "messages", "any_source", "groups", "splits", "memory", "other_backends", "device_waits",
                    "captured", "completers", "windows")

    def test_pytorch_is_imported_behind_our_libnccl(self):
        environment = {**os.environ, "LD_PRELOAD": LIBRARY, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
        look = subprocess.run([PYTHON, "-c", "import torch; print(torch.version.cuda)"], env=environment, text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(look.returncode, 0, look.stderr[-2000:])
        if look.stdout.strip() == "None":
            self.skipTest("this PyTorch has no CUDA")
        bound = [line for line in look.stderr.splitlines() if "libtorch_cuda.so" in line and "`ncclGetVersion'" in line]
        self.assertTrue(bound and all(LIBRARY in line for line in bound), bound)

    def test_losses_of_ddp_and_fsdp_equal_those_of_gloo(self):
        self.passes("trainings", "uneven")

    def test_deadlines_and_aborts_end_an_operation(self):
        self.passes("lateness")

    def test_a_rank_that_is_killed_is_named_by_its_global_rank(self):
        ended = run("death")
        self.assertEqual([code for code, _ in ended], [0, 0, -9, 0])
        for rank in (0, 1, 3):
            self.assertIn("done: death", ended[rank][1])


if __name__ == "__main__":
    reason = missing()
    if reason is not None:
        print(f"skipped: python torch: {reason}")
        sys.exit(77)
    LIBRARY = str(Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1], verbosity=2)
