# SPDX-License-Identifier: Apache-2.0
"""Runs a command whose processes share a device through NVIDIA's Multi-Process Service, by a daemon of its own that
ends with it. If MPS does not work, the driver goes on without it, and processes take turns. So a process first
checks whether MPS serves it. If not, the command does not run (exit status 77).

usage: gpu_check_mps.py COMMAND..."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PATIENCE = 10  # seconds, for the daemon to begin and to end, and for a process to be served
SKIPPED = 77
MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED: a context made on the device will be shared through MPS


def begin(environment):
    """Starts the daemon. Returns the daemon once it listens, or None if it does not listen. The daemon stays in this
    process's group, and so ends with the group."""
    daemon = subprocess.Popen([CONTROL, "-f"], env=environment, stdin=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not (Path(environment["CUDA_MPS_PIPE_DIRECTORY"]) / "control").exists():
        if daemon.poll() is not None or time.monotonic() > end:
            daemon.kill()
            daemon.wait()
            return None
        time.sleep(0.05)
    return daemon


def why_not_served(environment):
    """Returns why a process is not served, or "" if it is. The driver remembers the answer, so a new process asks
    the driver."""
    try:
        done = subprocess.run([sys.executable, "-B", __file__, "--served"], env=environment, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"a process waited for {PATIENCE} s for it"
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip().rpartition("\n")[2] or "a process died"


def ask_driver():
    """Exits with the answer that why_not_served() returns."""
    driver = ctypes.CDLL(os.environ.get("RONDO_CUDA_LIBRARY", "libcuda.so.1"))
    device, served, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), 0)),
                            ("cuDeviceGetAttribute", (ctypes.byref(served), MPS_ENABLED, device)),
                            ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device))):
        if status := getattr(driver, name)(*arguments):
            sys.exit(f"{name} failed with {status}")
    sys.exit(0 if served.value else "the driver goes on without it")


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
        why = ""
        daemon = begin(environment)
        try:
            why = why_not_served(environment) if daemon else f"{CONTROL} -f does not listen"
            return SKIPPED if why else subprocess.run(command, env=environment, check=False).returncode
        finally:
            if daemon:
                finish(daemon, environment)
            for log in sorted(Path(folder, "log").iterdir()):
                print(f"{log.name}: {log.read_text(errors='replace')[-2000:]}", flush=True)
            if why:
                print(f"MPS does not work here: {why}", flush=True)


def stop(_number, _frame):
    sys.exit("ended by a signal")  # behind which the daemon is told to quit


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(ask_driver() if sys.argv[1:] == ["--served"] else run(sys.argv[1:]))
