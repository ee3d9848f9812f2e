# SPDX-License-Identifier: Apache-2.0
"""Rondo: collective communication among processes and threads, on host memory and CUDA devices.

    $ rondo run -n 2 -- python3 -c 'import rondo, array
    x = array.array("f", [1.0])
    with rondo.init() as comm:
        comm.all_reduce(x)'

This package calls librondo.so by ctypes. docs/python.md introduces it, and rondo.h has the contract of each call.
"""

from __future__ import annotations

from ._buffers import Buffer, empty
from ._communicator import Communicator, Registration, UniqueId, init, init_all, unique_id
from ._errors import (AbortedError, AuthenticationError, CommFailedError, Error, InternalError, InvalidArgument,
                      InvalidHandle, InvalidUsage, MismatchError, NotReadyError, OutOfResourcesError, RemoteError,
                      RevokedError, SystemCallError, TimeoutError, UnsupportedError)
from ._groups import Group, group
from ._interface import VERSION, Algorithm, Collective, DeviceExecutor, Kernel, Op, Protocol, Status, Type
from ._ops import PremulSum
from ._properties import DeviceMemory, Memory, OperationStatistics, Plan, Properties, Statistics
from ._streams import Event, Stream, Work
from ._windows import DeviceArray, Window, empty_on_device

__version__ = ".".join(map(str, VERSION))
__all__ = [
    "AbortedError", "Algorithm", "AuthenticationError", "Buffer", "Collective", "CommFailedError", "Communicator",
    "DeviceArray", "DeviceExecutor", "DeviceMemory", "Error", "Event", "Group", "InternalError", "InvalidArgument",
    "InvalidHandle", "InvalidUsage", "Kernel", "Memory", "MismatchError", "NotReadyError", "Op", "OperationStatistics",
    "OutOfResourcesError", "Plan", "PremulSum", "Properties", "Protocol", "Registration", "RemoteError",
    "RevokedError", "Statistics", "Status", "Stream", "SystemCallError", "TimeoutError", "Type", "UniqueId",
    "UnsupportedError", "Window", "Work", "empty", "empty_on_device", "group", "init", "init_all", "unique_id",
]
