# SPDX-License-Identifier: Apache-2.0
"""This module has windows: arrays of every rank into which the other ranks write, and signals between ranks."""

from __future__ import annotations

import re
import weakref
from ctypes import byref, c_void_p
from operator import index
from typing import Any, Callable, Dict, Optional, Tuple

from ._buffers import SIZES, Scope, describe, type_of
from ._calls import number_of
from ._errors import InvalidArgument, check
from ._interface import SIGNAL_COUNT, WINDOW_SYMMETRIC, Type
from ._library import C

TYPESTR = re.compile(r"(u?int|float)\d+")


def signal_of(signal: Any) -> int:
    """Returns the number of a signal, if it fits the argument of C."""
    number: int = index(signal)
    if not 0 <= number < SIGNAL_COUNT:
        raise InvalidArgument(f"signal is {number}; there are the numbers 0 to {SIGNAL_COUNT - 1}")
    return number


class Window(Scope):
    """An array of each rank into which the other ranks write. The array stays alive while the window exists.

    The window ends with its `with` block, by deregister(), or with the communicator. Before the end, make sure that no
    peer still writes to the array, for instance by a barrier."""

    def __init__(self, comm: "Windows", handle: int, held: Any) -> None:
        self._comm, self._handle, self._held = comm, handle, held

    def put(self, data: Any, peer: int, offset: int = 0, signal: int = 0, stream: Any = None) -> Any:
        """Writes an array into the window of `peer`, then adds 1 to a signal of that rank, which need not call.

        `offset` counts elements from the start of the peer's array. The elements have the type of this rank's array.

        >>> import array, rondo
        >>> x = array.array("i", [0, 0, 0])
        >>> with rondo.init() as comm, comm.register_window(x) as window:
        ...     window.put(array.array("i", [7]), peer=0, offset=1)
        ...     comm.wait_signal(0)
        ...     x
        array('i', [0, 7, 0])
        """
        send = describe(data)
        if send[2] != self._held[2]:
            raise InvalidArgument(f"the array has elements of {Type(send[2]).name.lower()}, but the window has "
                                  f"{Type(self._held[2]).name.lower()}")
        size, first = SIZES[send[2]], index(offset)
        if not 0 <= first * size < 2 ** 63:
            raise InvalidArgument(f"offset {first} is outside of every window")
        return self._comm._call(C.rondo_put_signal, (send[0], send[1] * size, number_of(peer, "peer"), self._handle,
                                                     first * size, signal_of(signal)), stream, None, (send, self))

    def address(self, peer: int) -> Optional[int]:
        """Returns the address of the peer's array in this process, or None if only put() reaches it."""
        found = c_void_p()
        check(C.rondo_window_pointer(self._handle, number_of(peer, "peer"), byref(found)))
        return found.value

    def deregister(self) -> None:
        """Ends the window on this rank. No operation of this rank may still use it. A second call has no effect."""
        if self._comm._windows.get(self._handle) is self:
            check(C.rondo_window_deregister(self._comm._handle, self._handle), self._comm._handle)
            del self._comm._windows[self._handle]


class DeviceArray:
    """An array in memory of a CUDA device that other processes can map. CuPy, PyTorch and Numba can use it."""

    def __init__(self, count: int, dtype: Any, device: int) -> None:
        type_, pointer = type_of(dtype), c_void_p()
        name, size = type_.name.lower(), SIZES[type_]
        if count < 1:
            raise InvalidArgument(f"an array of {count} elements: rondo.empty_on_device() allocates at least one")
        if not TYPESTR.fullmatch(name):
            raise InvalidArgument(f"the CUDA array interface has no type {name}. Allocate uint8, and let rondo.Buffer "
                                  "interpret the elements")
        check(C.rondo_device_mem_alloc(byref(pointer), count * size, number_of(device, "device")))
        # The process ends with the memory.
        weakref.finalize(self, C.rondo_device_mem_free, pointer.value).atexit = False
        self.__cuda_array_interface__ = {"typestr": f"{'|' if size == 1 else '<'}{name[0]}{size}", "shape": (count,),
                                         "data": (pointer.value, False), "version": 3}

    def __len__(self) -> int:
        count: int = self.__cuda_array_interface__["shape"][0]
        return count


def empty_on_device(count: int, dtype: Any = "float32", device: int = 0) -> DeviceArray:
    """Allocates an array of `count` elements on a CUDA device, for a window between processes.

    Its content is unspecified. The array is freed with its last reference, so no rank may use it by then."""
    return DeviceArray(index(count), dtype, device)


class Windows:
    """The windows and signals of a communicator."""

    _handle: Optional[int]
    _windows: Dict[int, Window]
    _call: Callable[..., Any]

    def register_window(self, data: Any, symmetric: bool = False) -> Window:
        """Makes a window of one array of each rank. Every rank must call register_window().

        With `symmetric`, the arrays of all ranks have the same size in bytes. Memory of rondo.empty() is mapped by all
        ranks. Any other memory works where the system allows cross-memory attach."""
        address, count, type_, writable, _ = held = describe(data)
        if not writable:
            raise InvalidArgument("a window may be written, so pass an array that is not read-only")
        handle = c_void_p()
        check(C.rondo_window_register(self._handle, address, count * SIZES[type_],
                                      WINDOW_SYMMETRIC if symmetric else 0, byref(handle)), self._handle)
        made = Window(self, handle.value or 0, held)
        self._windows[made._handle] = made
        return made

    def signal(self, peer: int, signal: int = 0, stream: Any = None) -> Any:
        """Adds 1 to a signal of `peer`, once all earlier puts of this rank to `peer` have arrived."""
        return self._call(C.rondo_signal, (number_of(peer, "peer"), signal_of(signal)), stream, None, None)

    def wait_signal(self, peer: int, count: int = 1, signal: int = 0, stream: Any = None) -> Any:
        """Waits until `count` more signals of `peer` have arrived than earlier waits have used."""
        wanted: int = index(count)
        if not 0 <= wanted < 2 ** 63:
            raise InvalidArgument(f"count is {wanted}; a rank cannot wait for as many signals")
        arguments: Tuple[int, ...] = (number_of(peer, "peer"), signal_of(signal), wanted)
        return self._call(C.rondo_wait_signal, arguments, stream, None, None)
