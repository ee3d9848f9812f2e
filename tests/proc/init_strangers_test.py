# SPDX-License-Identifier: Apache-2.0
"""A rank must reach its store although strangers keep connections there, silently or with half of a handshake. It must
also do so if the store's process has few descriptors. A job of one host cannot be reached from other hosts.

usage: init_strangers_test.py RONDO INIT_RANK STORE_HOST FLOOD"""

import subprocess
import sys
import time
import unittest
from pathlib import Path

from init_support import OK, Ranks, StoreHost, outcome

FLOOD = sys.argv.pop()
STORE_HOST = sys.argv.pop()
PROGRAM = sys.argv.pop()
RONDO = sys.argv.pop()
INIT_TIMEOUT_S = 120  # detects hangs only: a flood adds 5 s at most
LOOPBACK = ("0100007F", "00000000000000000000000001000000")  # as /proc/net/tcp and tcp6 write it


class Flood:
    def __init__(self, port, count, manner):
        self.process = subprocess.Popen([FLOOD, str(port), str(count), manner], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.began = self.process.stdout.readline().strip()

    def end(self):
        """Ends the flood. Returns how many connections it made."""
        out, _ = self.process.communicate("x", timeout=120)
        return int(out.split()[1]) if out.startswith("made") else 0


def listening_addresses():
    """Returns (address in hexadecimal, inode) of each TCP socket of this network namespace that listens."""
    found = []
    for name in ("tcp", "tcp6"):
        path = Path("/proc/net") / name
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            words = line.split()
            if words[3] == "0A":
                found.append((words[1].partition(":")[0], words[9]))
    return found


def sockets_of(pid):
    """Returns the inodes of the sockets of a process."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


class Strangers(unittest.TestCase):
    def meet_in_a_flood(self, count, manner, descriptors):
        host = StoreHost(STORE_HOST, descriptors)
        flood = Flood(host.port, count, manner)
        try:
            if flood.began != "ready":
                print(f"skipped: {count} strangers: {flood.began}", flush=True)
                return
            time.sleep(0.5)
            begun = time.monotonic()
            said = Ranks(PROGRAM, 3, {}, environment=host.environment, timeout_s=INIT_TIMEOUT_S).end()
            taken = time.monotonic() - begun
        finally:
            made = flood.end()
            host.kill()
        for rank, lines in said.items():
            _, status, _, message = outcome(lines)
            self.assertEqual(status, OK, f"rank {rank}: {message}")
        print(f"{count} {manner} strangers, {descriptors or 'all'} descriptors: met in {taken:.2f} s", flush=True)
        self.assertGreater(made, count, "no stranger was ever turned away: the test shows nothing")

    def test_thousands_of_silent_strangers_do_not_keep_a_job_from_meeting(self):
        self.meet_in_a_flood(7000, "silent", 0)

    def test_thousands_of_strangers_in_half_a_handshake_do_not_either(self):
        self.meet_in_a_flood(7000, "half", 0)

    def test_with_64_descriptors_members_come_in_past_700_strangers(self):
        for manner in ("silent", "half"):
            with self.subTest(manner=manner):
                self.meet_in_a_flood(700, manner, 64)


class OneHost(unittest.TestCase):
    def test_a_job_of_one_host_listens_on_loopback_only(self):
        # The launcher waits for its ranks meanwhile. They find the store's address in their environment.
        script = "echo $RONDO_STORE; exec sleep 200"
        launcher = subprocess.Popen([RONDO, "run", "-n", "1", "--", "sh", "-c", script], stdout=subprocess.PIPE,
                                    text=True)
        try:
            endpoint = launcher.stdout.readline()
            self.assertIn("127.0.0.1:", endpoint)
            own = sockets_of(launcher.pid)
            listening = [address for address, inode in listening_addresses() if inode in own]
            self.assertTrue(listening, "the launcher listens nowhere")
            for address in listening:
                self.assertIn(address, LOOPBACK)
        finally:
            launcher.terminate()
            launcher.wait(timeout=120)
            launcher.stdout.close()


if __name__ == "__main__":
    unittest.main()
