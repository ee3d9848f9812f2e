# SPDX-License-Identifier: Apache-2.0
"""Keeps a context on device 0 until its input ends: without one a driver may take a second to wake the device for each
program. Prints "ready", or why it keeps none.   usage: gpu_check_keeper.py LIBCUDA"""

import ctypes
import sys

COMPUTE_MODE = 20  # CU_DEVICE_ATTRIBUTE_COMPUTE_MODE; 0: any number of processes may have a context


def keep(path):
    try:
        driver = ctypes.CDLL(path)
    except OSError as why:
        return f"no context is kept: {why}"
    device, mode, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), 0)),
                            ("cuDeviceGetAttribute", (ctypes.byref(mode), COMPUTE_MODE, device))):
        if status := getattr(driver, name)(*arguments):
            return f"no context is kept: {name} failed with {status}"
    if mode.value != 0:
        return f"no context is kept: with compute mode {mode.value} it would be the only one"
    if status := driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
        return f"no context is kept: cuDevicePrimaryCtxRetain failed with {status}"
    return "ready"


if __name__ == "__main__":
    print(keep(sys.argv[1]), flush=True)
    sys.stdin.read()
