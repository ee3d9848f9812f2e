# SPDX-License-Identifier: Apache-2.0
"""Runs a command whose processes share a device through NVIDIA's Multi-Process Service, by a daemon of its own that
ends with it.   usage: gpu_check_mps.py COMMAND..."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PATIENCE = 10  # seconds, for the daemon to begin and to end


def begin(environment):
    """The daemon, when it listens. It stays in this process's group, and so ends with it."""
    daemon = subprocess.Popen([CONTROL, "-f"], env=environment, stdin=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not (Path(environment["CUDA_MPS_PIPE_DIRECTORY"]) / "control").exists():
        if daemon.poll() is not None or time.monotonic() > end:
            daemon.kill()
            daemon.wait()
            sys.exit(f"{CONTROL} -f does not listen")
        time.sleep(0.05)
    return daemon


def finish(daemon, environment):
    try:
        subprocess.run([CONTROL], env=environment, input="quit\n", text=True, timeout=PATIENCE, check=False)
        daemon.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
        print(f"{CONTROL} did not quit, and was killed", flush=True)


def run(command):
    with tempfile.TemporaryDirectory(prefix="rondo-mps-") as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for name in names.values():
            os.mkdir(name)
        environment = os.environ | names
        daemon = begin(environment)
        try:
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            finish(daemon, environment)
            for log in sorted(Path(folder, "log").iterdir()):
                print(f"{log.name}: {log.read_text(errors='replace')[-2000:]}", flush=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
