# SPDX-License-Identifier: Apache-2.0
"""Ranks of one machine cannot share memory if they are in namespaces of their own, as containers are. They use a
network, and report why. usage: containers_test.py RANK_PROGRAM RONDO"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "proc"))
from container import CONTAINER, MORTAL, why_not  # noqa: E402
from job import PATIENCE, HeldPort  # noqa: E402

PROGRAM, RONDO = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))


class Containers(unittest.TestCase):
    def setUp(self):
        why = why_not()
        if why is not None:
            print(f"skipped: ranks in containers: {why}")
            self.skipTest(why)

    def ranks(self, wrappers, command, **environment):
        """Returns the output by rank. A rank is started by the words of its wrapper. All ranks share one network
        namespace, as in a pod."""
        port = HeldPort()
        self.addCleanup(port.socket.close)
        base = dict(os.environ, WORLD_SIZE=str(len(wrappers)), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port.number),
                    RONDO_SECRET=secrets.token_hex(32), RONDO_LOG="debug", **environment)
        self.processes = [subprocess.Popen([*wrapper, *command], env=dict(base, RANK=str(rank)), text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                          for rank, wrapper in enumerate(wrappers)]
        try:
            return [process.communicate(timeout=60 * PATIENCE)[0] for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def test_ranks_that_see_no_processes_of_each_other_use_a_network_and_say_why(self):
        outputs = self.ranks([[], [], CONTAINER], [PROGRAM, "sum", "20", "30000"])
        for rank, output in enumerate(outputs):
            self.assertIn(f"rank {rank}: ok", output)
        self.assertIn("to rank 1 by shared memory", outputs[0])
        self.assertRegex(outputs[0], "rank 2; it is this machine, but in a container: other PID namespace, so a "
                                     "network joins it")
        self.assertRegex(outputs[2], "ranks 0, 1; it is this machine, but in a container: other PID namespace")
        self.assertRegex(outputs[0], r"to host 2 \(ranks 2\) by tcp")

    def test_namespaces_that_do_no_harm_leave_shared_memory(self):
        apart = ["unshare", "-i", "-m", "-u"]
        outputs = self.ranks([apart, apart], [PROGRAM, "sum", "20", "30000"])
        for rank, output in enumerate(outputs):
            self.assertIn(f"rank {rank}: ok", output)
            self.assertIn(f"to rank {1 - rank} by shared memory", output)

    def test_a_rank_of_another_container_that_dies_is_named(self):
        outputs = self.ranks([[], MORTAL], [PROGRAM, "signal", str(int(signal.SIGKILL)), "1", "7", "1000"])
        self.assertRegex(outputs[0], r"rank 0: remote rank failed .*rank 1 \(host .*has ended")

    def test_ranks_below_a_proc_that_shows_other_processes_are_not_taken_for_dead(self):
        # The processes of the outer namespace have all numbers that the inner namespace uses.
        crowd = "for each in $(seq 300); do sleep 600 & done; exec \"$@\""
        command = [*CONTAINER, "sh", "-c", crowd, "sh", "unshare", "-p", "-f", "--kill-child", "sh", "-c",
                   '"$@"; exit $?', "sh", RONDO, "run", "-n", "2", PROGRAM, "close", "1"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_containers_with_one_host_name_keep_their_recordings_apart(self):
        with tempfile.TemporaryDirectory(prefix="rondo-containers-") as folder:
            outputs = self.ranks([[], [], MORTAL], [PROGRAM, "signal", str(int(signal.SIGKILL)), "1", "7", "1000"],
                                 RONDO_RECORDER_DIR=folder)
            for rank in (0, 2):
                self.assertIn(f"rank {rank}: remote rank failed", outputs[rank])
            names = sorted(os.listdir(folder))
        self.assertEqual(len(names), 2, names)
        self.assertEqual(names[0], names[1].replace(".jsonl", "-rank2.jsonl"))

    def test_info_tells_what_makes_a_host(self):
        said = subprocess.run([RONDO, "info"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertRegex(said, r"shares memory with +.*PID, network and user namespace")


if __name__ == "__main__":
    unittest.main(verbosity=2)
