# SPDX-License-Identifier: Apache-2.0
"""Tests options and variables that are misspelt, out of range or contradictory, and files that cannot be written. The
exit status is 2 before anything starts, standard output is empty, and the message says what to do.

usage: refusals_test.py RONDO"""

import os
import subprocess
import sys
import tempfile
import unittest

RONDO = os.path.abspath(sys.argv.pop(1))
NONE = "/no/such/folder"
AR = ["perf", "all_reduce", "--ranks", "2", "-e", "64"]
PROGRAM = ["--", "sh", "-c", "echo started"]

# Each case has arguments, variables, and the text that the message must contain.
CASES = [
    # The command itself.
    ([], {}, "Usage: rondo COMMAND"),
    (["prf"], {}, "known are: info, nccl, perf, run"),
    (["prf"], {}, "tune; did you mean perf? See rondo --help."),
    (["walk"], {}, "tune. See rondo --help."),
    (["help", "prf"], {}, "known are: info, nccl, perf, run"),
    # rondo perf: names.
    (["perf"], {}, "collective"),
    (["perf", "all_red"], {}, "all_reduce, reduce_scatter, all_gather"),
    (["perf", "al_reduce"], {}, "; did you mean all_reduce?"),
    ([*AR, "--algorithm", "rings"], {}, "; did you mean ring?"),
    (AR, {"RONDO_ALGORITHM": "halving-doubling"}, "; did you mean halving_doubling?"),
    (AR, {"RONDO_LOG": "plam=debug"}, "; did you mean plan?"),
    (["schedule", "--algorithm", "three"], {}, "; did you mean tree?"),
    (["sim", "--collective", "all_reduces"], {}, "; did you mean all_reduce?"),
    (["perf", "barrier"], {}, "unknown collective 'barrier'"),
    ([*AR, "-d", "float8"], {}, "float8_e4m3"),
    ([*AR, "-o", "mul"], {}, "sum, prod, min, max, avg, mulsum, all"),
    ([*AR, "--algorithm", "star"], {}, "auto, ring, tree"),
    ([*AR, "--protocol", "ll64"], {}, "auto, simple, ll"),
    ([*AR, "--kernel", "direct"], {}, "auto, interpreter, load_store"),
    ([*AR, "--buffers", "mine"], {}, "private, alloc, registered, moved"),
    ([*AR, "--device", "gpu"], {}, "cuda:ORDINAL"),
    # Numbers and sizes.
    ([*AR, "--ranks", "0"], {}, "1 to 1024"),
    ([*AR, "-n", "0"], {}, "--iters"),
    ([*AR, "-n", "many"], {}, "--iters"),
    ([*AR, "-w", "-1"], {}, "--warmup_iters"),
    ([*AR, "-m", "0"], {}, "--agg_iters"),
    ([*AR, "-T", "0"], {}, "--timeout"),
    ([*AR, "--pause", "10001"], {}, "--pause"),
    ([*AR, "--channels", "9"], {}, "0 to 8"),
    ([*AR, "--max-ctas", "2000"], {}, "0 to 1024"),
    ([*AR, "--chunk-bytes", "3"], {}, "64 to 1G"),
    ([*AR, "-b", "8X"], {}, "'8X' is not a size"),
    ([*AR, "-b", "128"], {}, "below --minbytes"),
    ([*AR, "-f", "1"], {}, "at least 2"),
    ([*AR, "-i", "0"], {}, "at least 1"),
    ([*AR, "-i", "8", "-f", "2"], {}, "exclude each other"),
    (["perf", "all_reduce", "--ranks", "2", "-i", "1"], {}, "10,000 sizes"),
    (["perf", "all_reduce", "--ranks", "2", "-b", "1G", "-e", "65536G", "-f", "65536"], {}, "lower --maxbytes"),
    # Contradictions.
    ([*AR, "--in-place-only", "--out-of-place-only"], {}, "exclude each other"),
    ([*AR, "-t", "2"], {}, "exclude each other"),
    ([*AR, "-r", "2"], {}, "--ranks N"),
    ([*AR, "-r", "first"], {}, "give a rank, or all"),
    (["perf", "reduce", "-r", "1"], {}, "-r 1 names no rank of this job, which has 1 rank ("),
    ([*AR, "--graph"], {}, "--device cuda"),
    ([*AR, "--together"], {}, "add --graph"),
    ([*AR, "--one-graph"], {}, "add --graph"),
    ([*AR, "--against", "libnccl.so.2"], {}, "--device cuda"),
    ([*AR, "--beside-product", "64"], {}, "--device cuda"),
    ([*AR, "--product-library", "libcublas.so.13"], {}, "--beside-product"),
    ([*AR, "-a", "1"], {}, "slowest"),
    ([*AR, "-R", "2"], {}, "--buffers alloc"),
    ([*AR, "--frobnicate"], {}, "rondo perf --help"),
    ([*AR, "--rank", "2"], {}, "unknown option '--rank'; did you mean --ranks? See rondo perf --help"),
    ([*AR, "-z", "2"], {}, "-m N"),
    ([*AR, "-I", "1"], {}, "leave -I and -K out"),
    # An algorithm or a protocol that is impossible is refused before the first row.
    (["perf", "all_gather", "--ranks", "2", "--algorithm", "two_shot"], {}, "these can: ring, one_shot"),
    (["perf", "all_gather", "--ranks", "2", "--kernel", "load_store"], {}, "use 'auto'"),
    (["perf", "broadcast", "--ranks", "2"], {"RONDO_ALGORITHM": "halving_doubling"}, "these can:"),
    (["run", "-n", "2", "--", RONDO, "perf", "all_reduce", "--protocol", "ll128"], {}, "known are: auto, simple, ll"),
    (["run", "-n", "2", "--", RONDO, "perf", "all_reduce", "--kernel", "load_store", "--channels", "8"], {},
     "on one channel"),
    # Files.
    ([*AR, "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    ([*AR, "--csv", f"{NONE}/x.csv"], {}, "name a file in a folder that exists"),
    ([*AR, "--plot", f"{NONE}/x.svg"], {}, "name a file in a folder that exists"),
    ([*AR, "--plot", "x.png"], {}, "does not end in .svg"),
    ([*AR, "--json", "-", "--csv", "-"], {}, "cannot share standard output"),
    (["sim", "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["sim", "--plot", f"{NONE}/x.svg"], {}, "name a file in a folder that exists"),
    (["sim", "--plot", "x.png"], {}, "does not end in .svg"),
    (["sim", "--json", "--plot", "-"], {}, "cannot share standard output"),
    (["info", "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["info", "--topology-xml", f"{NONE}/x.xml"], {}, "name a file in a folder that exists"),
    (["schedule", "--algorithm", "ring", "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["schedule", "--algorithm", "ring", "--plot", f"{NONE}/x.svg"], {}, "name a file in a folder that exists"),
    (["schedule", "--algorithm", "ring", "--plot", "x.pdf"], {}, "does not end in .svg"),
    (["status", "--job", "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["status", "--job", "--dump", f"{NONE}/x"], {}, "name a file in a folder that exists"),
    (["trace", str(os.getpid()), "-o", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["tune", "--quick", "-o", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    (["tune", "--quick", "--json", f"{NONE}/x.json"], {}, "name a file in a folder that exists"),
    # Variables.
    (AR, {"RONDO_CHANNELS": "9"}, "RONDO_CHANNELS: '9' is not a number from 1 to 8"),
    (AR, {"RONDO_INTERFACE": "none0"}, "'none0' does not exist, is down or has no address; this host has: lo ("),
    (AR, {"RONDO_INTERFACE": "none*"}, "selects no network interface that is up and has an address; this host has: lo"),
    (AR, {"RONDO_INTERFACE": "none0,^lo"}, "is no list of names; put ^ before the first name, and * behind a name"),
    # Rank 1 would wait for the store of rank 0 for a minute.
    (AR[:2], {"RONDO_INTERFACE": "none0", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": "9"}, "'none0' does not exist"),
    (AR, {"RONDO_TIMEOUT": "soon"}, "RONDO_TIMEOUT: 'soon' is not a time"),
    (AR, {"RONDO_SLOT_COUNT": "3"}, "known are: auto, 2, 4, 8"),
    (AR, {"RONDO_LOG": "loud"}, "known are: debug, info, warning, error"),
    (AR, {"RONDO_LOG": "plan=loud"}, "known are: debug, info, warning, error"),
    (AR, {"RONDO_LOG_FILE": f"{NONE}/log"}, "RONDO_LOG_FILE: the file"),
    (AR, {"RONDO_RECORDER_DIR": NONE}, "name a folder that exists"),
    (["run", "-n", "2", *PROGRAM], {"RONDO_RECORDER_DIR": NONE}, "name a folder that exists"),
    (AR, {"RONDO_TUNING_FILE": f"{NONE}/x.json"}, "make a table with rondo tune"),
    (["info"], {"RONDO_TUNING_FILE": f"{NONE}/x.json"}, "make a table with rondo tune"),
    (AR, {"RONDO_TOPOLOGY_FILE": f"{NONE}/x.xml"}, "make one with rondo info --topology-xml FILE"),
    (["info"], {"RONDO_TOPOLOGY_FILE": f"{NONE}/x.xml"}, "make one with rondo info --topology-xml FILE"),
    (["info", "--hosts", "0"], {}, "--hosts"),
    (["info", "--hosts", "4", "--ranks", "2"], {}, "at least one rank for each"),
    (["trace"], {}, "rondo trace --help"),
    (["nccl", "--place"], {}, "rondo nccl --help"),
    (["info"], {"RONDO_WAIT": "nap"}, "known are: auto, spin, yield, sleep"),
    (["run", "-n", "2", *PROGRAM], {"RONDO_NETWORK": "verbs9"}, "RONDO_NETWORK: 'verbs9' is not a known network"),
    # rondo run.
    (["run", *PROGRAM], {}, "--ranks"),
    (["run", "-n", "0", *PROGRAM], {}, "--ranks"),
    (["run", "-np", "none", *PROGRAM], {}, "--ranks"),
    (["run", "-n", "2"], {}, "no program given"),
    (["run", "-n", "2", "--bind", "socket", *PROGRAM], {}, "core"),
    (["run", "-n", "2", "--timeout", "-1", *PROGRAM], {}, "--timeout"),
    (["run", "-n", "2", "--env", "RONDO_RANK=3", *PROGRAM], {}, "rondo run sets it"),
    (["run", "-n", "2", "--env", "NAME", *PROGRAM], {}, "NAME=VALUE"),
    (["trace", f"{NONE}/recording"], {}, "cannot open /no/such/folder/recording: No such file"),
    (["sim", "--topology", f"{NONE}/x.json"], {}, "No such file"),
    (["run", "--hostfile", f"{NONE}/hosts", *PROGRAM], {}, "/hosts: cannot be read: No such file or directory"),
    (["run", "--hosts", "a:none,b", *PROGRAM], {}, "HOST or HOST:RANKS"),
    (["run", "-n", "3", "--hosts", "a,b", *PROGRAM], {}, "-n 3, but --hosts has 2"),
    (["run", "-n", "2", "--ssh", "ssh -4", *PROGRAM], {}, "for --hosts, which is not given"),
]


class Refusals(unittest.TestCase):
    def test_each_is_refused_before_anything_starts_with_what_to_do(self):
        self.assertGreaterEqual(len(CASES), 60)
        place = tempfile.TemporaryDirectory(prefix="rondo-refusals-")
        self.addCleanup(place.cleanup)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        for arguments, variables, said in CASES:
            with self.subTest(arguments=arguments, variables=variables):
                done = subprocess.run([RONDO, *arguments], env=clean | variables, capture_output=True, text=True,
                                      timeout=60, check=False, cwd=place.name)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(said, done.stderr)
        self.assertEqual(os.listdir(place.name), [])  # no file was made, since there was no result


if __name__ == "__main__":
    unittest.main()
