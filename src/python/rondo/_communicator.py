# SPDX-License-Identifier: Apache-2.0
"""This module has communicators, and the functions that make them."""

from __future__ import annotations

import ctypes
import sys
import time
from ctypes import byref, c_int, c_uint64, c_void_p, sizeof
from typing import Any, Dict, List, Optional, Sequence, Union

from ._buffers import SIZES, Scope, describe, type_of
from ._calls import Calls, number_of
from ._config import configuration, enumerator
from ._errors import Error, InvalidArgument, check, failure
from ._interface import (DEVICE_HOST, NO_COLOR, REGISTER_MOVE_PAGES, SHRINK_ABORT, SUSPEND_MEMORY, UNIQUE_ID_BYTES,
                         Algorithm, Collective, DeviceExecutor, Kernel, Protocol, Status, rondo_comm_properties_t,
                         rondo_config_t, rondo_plan_info_t, rondo_statistics_t, rondo_unique_id_t)
from ._library import C
from ._properties import DeviceMemory, Memory, OperationStatistics, Plan, Properties, Statistics
from ._windows import Window, Windows

POLL_S = 0.001
NOT_READY = int(Status.NOT_READY)


class UniqueId(bytes):
    """The name of a future communicator. It contains a secret, so give the name only to the members."""

    def free(self) -> None:
        """Discards an id that this process made and did not use."""
        check(C.rondo_unique_id_free(byref(rondo_unique_id_t.from_buffer_copy(self))))

    def __repr__(self) -> str:
        return "<rondo.UniqueId>"

    __str__ = __repr__


def unique_id(network_interface: Optional[str] = None) -> UniqueId:
    """Makes an id, and starts to listen for the group in this process.

    >>> import pickle, rondo
    >>> name = rondo.unique_id()
    >>> pickle.loads(pickle.dumps(name)) == name
    True
    >>> name.free()
    """
    made = rondo_unique_id_t()
    check(C.rondo_get_unique_id(byref(made), byref(configuration(network_interface=network_interface))))
    return UniqueId(bytes(made))


class Registration(Scope):
    """A registered buffer, which stays alive while it is registered. The registration ends at the end of its `with`
    block, by deregister(), or when the communicator ends."""

    def __init__(self, comm: "Communicator", handle: int, held: Any) -> None:
        self._comm, self._handle, self._held = comm, handle, held

    def deregister(self) -> None:
        """Ends the registration. No operation may still use the buffer. A second call has no effect."""
        if self._comm._registrations.get(self._handle) is self:
            check(C.rondo_comm_deregister(self._comm._handle, self._handle), self._comm._handle)
            del self._comm._registrations[self._handle]
            self._held = None


class Communicator(Calls, Windows):
    """One rank of a communicator.

    The end of a `with` block finalizes and destroys the communicator. If an exception leaves the block, the
    communicator is aborted and destroyed, so that the other ranks do not wait for this rank.

    >>> import rondo
    >>> with rondo.Communicator(rondo.unique_id(), rank=0, size=1, timeout=30) as comm:
    ...     comm
    <rondo.Communicator: rank 0 of 1>
    """

    def __init__(self, unique_id: Union[bytes, bytearray, Sequence[UniqueId]], rank: int, size: int,
                 device: Optional[int] = None, timeout: Optional[float] = None, **options: Any) -> None:
        """Makes the communicator of `unique_id`: rank `rank` of `size`.

        Instead of one id, all ranks may pass the same list of ids. The first makes the communicator, and the others are
        discarded.

        `device` is the ordinal of a CUDA device; without it buffers are host memory. `timeout` and `init_timeout` are
        in seconds. The other options are the fields of rondo_config_t."""
        self._reset()
        ids: Any = unique_id if isinstance(unique_id, (list, tuple)) else [unique_id]
        for each in ids:
            if len(each) != UNIQUE_ID_BYTES:
                raise InvalidArgument(f"a unique id has {UNIQUE_ID_BYTES} bytes, not {len(each)}: pass the result of "
                                      "rondo.unique_id()")
        rank, size = number_of(rank, "rank"), number_of(size, "size")
        handle = c_void_p()
        check(C.rondo_comm_init_ids(byref(handle), (rondo_unique_id_t * len(ids)).from_buffer_copy(b"".join(ids)),
                                    len(ids), rank, size,
                                    byref(configuration(device=device, timeout=timeout, **options))))
        self._handle, self._place = handle.value, (rank, size)

    def _reset(self) -> None:
        self._handle: Optional[int] = None
        self._registrations: Dict[int, Registration] = {}
        self._windows: Dict[int, Window] = {}
        self._reused: Dict[Any, Any] = {}
        self._finalized = False
        self._place = None

    @classmethod
    def _of(cls, handle: Optional[int], check_it: bool = True) -> "Communicator":
        """Takes ownership of a handle that the library made. With `check_it`, raises an error if it has failed."""
        made = cls.__new__(cls)
        made._reset()
        made._handle = handle
        if check_it:
            made.ready()
        return made

    def ready(self) -> bool:
        """Returns whether the communicator is made, and neither being suspended nor resumed.

        It returns False only for a nonblocking communicator.
        """
        status = c_int()
        check(C.rondo_comm_get_async_error(self._handle, byref(status)), self._handle)
        if status.value == NOT_READY:
            return False
        check(status.value, self._handle)
        self._complete()
        return True

    def wait_ready(self) -> None:
        """Waits until a nonblocking communicator is made, suspended or resumed, or has failed."""
        while not self.ready():  # the timeout of that work ends it
            time.sleep(POLL_S)

    def split(self, color: Optional[int], key: int = 0, **options: Any) -> Optional["Communicator"]:
        """Makes a communicator of the ranks that give an equal color, ordered by their keys, then by their ranks.

        Every rank calls split(). With a color of None or -1, this rank gets None. Without options, the parts have the
        configuration of this communicator. With options, they have its device, and other options that are not given
        have their defaults.

        >>> import rondo
        >>> with rondo.init() as comm, comm.split(color=comm.rank % 2) as half:
        ...     half
        <rondo.Communicator: rank 0 of 1>
        """
        handle = c_void_p()
        if options and options.get("device") is None:
            options["device"] = self.properties().device
        check(C.rondo_comm_split(self._handle, NO_COLOR if color is None else number_of(color, "color"),
                                 number_of(key, "key"), byref(configuration(**options)) if options else None,
                                 byref(handle)), self._handle)
        return None if handle.value is None else Communicator._of(handle.value)

    def shrink(self, exclude: Sequence[int] = (), abort: bool = False, **options: Any) -> "Communicator":
        """Makes a communicator of the ranks that are not in `exclude`, in their order.

        The remaining ranks call shrink() with equal lists, and excluded ranks do not. The communicator may have failed
        or may be revoked. With `abort`, the call first ends the operations of this communicator on all ranks. If
        another rank ends during the call, RemoteError names it. Then call again, and exclude that rank, too. Options
        are as in split().

        >>> import rondo
        >>> with rondo.init() as comm:
        ...     comm.revoke()
        ...     with comm.shrink() as rest:
        ...         print(rest)
        ...     comm.destroy()
        <rondo.Communicator: rank 0 of 1>
        """
        handle = c_void_p()
        if options and options.get("device") is None:
            options["device"] = self.properties().device
        ranks = [number_of(rank, "exclude") for rank in exclude]
        check(C.rondo_comm_shrink(self._handle, (c_int * len(ranks))(*ranks), len(ranks), SHRINK_ABORT if abort else 0,
                                  byref(configuration(**options)) if options else None, byref(handle)))
        return Communicator._of(handle.value)

    def grow_id(self) -> UniqueId:
        """Makes the id by which new ranks join in the next grow(). One rank calls it."""
        made = rondo_unique_id_t()
        check(C.rondo_comm_grow_id(self._handle, byref(made)), self._handle)
        return UniqueId(bytes(made))

    def grow(self, size: int, **options: Any) -> "Communicator":
        """Makes a communicator of `size` ranks: all ranks of this communicator, with their numbers, and new ranks.

        All ranks of this communicator call grow(). One of them calls grow_id() before. A new rank calls
        Communicator(id, rank, size) with this id. The number of the first new rank is the size of this communicator.
        Options are as in split().

        >>> import rondo, threading
        >>> with rondo.init() as comm:
        ...     new = threading.Thread(target=rondo.Communicator, args=(comm.grow_id(), 1, 2))
        ...     new.start()
        ...     grown = comm.grow(2)
        ...     new.join()
        ...     print(grown)
        ...     grown.destroy()
        <rondo.Communicator: rank 0 of 2>
        """
        handle = c_void_p()
        if options and options.get("device") is None:
            options["device"] = self.properties().device
        check(C.rondo_comm_grow(self._handle, None, -1, number_of(size, "size"),
                                byref(configuration(**options)) if options else None, byref(handle)))
        return Communicator._of(handle.value)

    def revoke(self) -> None:
        """Ends all operations of the communicator, on all ranks, with RevokedError. Call shrink() afterwards."""
        check(C.rondo_comm_revoke(self._handle), self._handle)

    def flush(self) -> None:
        """Waits until this rank's operations are complete. The communicator stays usable."""
        check(C.rondo_comm_flush(self._handle), self._handle)

    def register(self, data: Any, move_pages: bool = False) -> Registration:
        """Registers an array, so that peers read it in place.

        >>> import array, rondo
        >>> x = array.array("f", [0.0] * 1024)
        >>> with rondo.init() as comm, comm.register(x):
        ...     _ = comm.all_reduce(x)
        """
        address, count, type_, _, _ = held = describe(data)
        handle = c_void_p()
        check(C.rondo_comm_register(self._handle, address, count * SIZES[type_],
                                    REGISTER_MOVE_PAGES if move_pages else 0, byref(handle)), self._handle)
        made = Registration(self, handle.value or 0, held)
        self._registrations[made._handle] = made
        return made

    def properties(self) -> Properties:
        """Returns the properties of the communicator. `device` is None for host memory."""
        found = rondo_comm_properties_t(size=sizeof(rondo_comm_properties_t))
        check(C.rondo_comm_get_properties(self._handle, byref(found)), self._handle)
        return Properties(found.rank, found.rank_count, None if found.device == DEVICE_HOST else found.device,
                          found.local_rank_count, found.core_count, bool(found.oversubscribed),
                          bool(found.mapped_buffers), bool(found.cross_memory), found.shared_bytes,
                          DeviceExecutor(found.device_executor), found.group_hash)

    def memory(self) -> Memory:
        """Returns the memory of the communicator on this host."""
        reserved, used = c_uint64(), c_uint64()
        check(C.rondo_comm_memory(self._handle, byref(reserved), byref(used)), self._handle)
        return Memory(reserved.value, used.value)

    def device_memory(self) -> DeviceMemory:
        """Returns the memory of the communicator on this rank's device, and how much suspend() gives back."""
        suspendable, persistent, suspended = c_uint64(), c_uint64(), c_int()
        check(C.rondo_comm_device_memory(self._handle, byref(suspendable), byref(persistent), byref(suspended)),
              self._handle)
        return DeviceMemory(suspendable.value, persistent.value, bool(suspended.value))

    def suspend(self) -> None:
        """Gives back the device memory of the communicator until resume(). Every rank must call suspend().

        Until resume(), calls that communicate or register raise InvalidUsage. Do not replay graphs until resume().
        If the communicator is nonblocking, suspend() and resume() return at once, and wait_ready() waits for the end of
        their work. Before that, such calls raise NotReadyError.

        >>> import rondo
        >>> with rondo.init() as comm:
        ...     comm.suspend()
        ...     comm.device_memory().suspended
        ...     comm.resume()
        True
        """
        check(C.rondo_comm_suspend(self._handle, SUSPEND_MEMORY), self._handle)

    def resume(self) -> None:
        """Makes the memory again that suspend() has given back. Every rank must call resume().

        If the communicator is nonblocking, wait_ready() waits for the end of the work.
        """
        check(C.rondo_comm_resume(self._handle), self._handle)

    def statistics(self) -> Statistics:
        """Returns the statistics of this rank's operations since the communicator was made.

        >>> import array, rondo
        >>> with rondo.init() as comm:
        ...     _ = comm.all_reduce(array.array("d", [1]))
        ...     comm.statistics().collectives["all_reduce"].bytes
        8
        """
        found = rondo_statistics_t(size=sizeof(rondo_statistics_t))
        check(C.rondo_comm_statistics(self._handle, byref(found)), self._handle)

        def sums(each: Any) -> OperationStatistics:
            return OperationStatistics(each.operations, each.bytes, each.in_flight_ns, each.exposed_ns)
        return Statistics(sums(found.total), {kind.name.lower(): sums(found.collectives[kind]) for kind in Collective
                                              if found.collectives[kind].operations}, bool(found.waits_seen))

    def query_plan(self, collective: Any, count: int, dtype: Any = "float32") -> Plan:
        """Returns the plan that the tuner would choose for an operation."""
        found = rondo_plan_info_t(size=sizeof(rondo_plan_info_t))
        check(C.rondo_comm_query_plan(self._handle, enumerator(Collective, collective), count, type_of(dtype),
                                      byref(found)), self._handle)
        return Plan(Algorithm(found.algorithm), Protocol(found.protocol), found.channels, Kernel(found.kernel),
                    found.chunk_bytes)

    def async_error(self) -> Optional[Error]:
        """Returns the failure of the communicator as an exception, or None. It checks the peers, but does not wait."""
        status = c_int()
        check(C.rondo_comm_get_async_error(self._handle, byref(status)), self._handle)
        if status.value == 0:
            self._complete()
        return None if status.value in (0, NOT_READY) else failure(status.value, self._handle)

    def abort(self) -> None:
        """Ends the operations of all ranks, or if this rank has none, those that need it. Any thread may call this."""
        check(C.rondo_comm_abort(self._handle), self._handle)

    def finalize(self) -> None:
        """Waits until this rank's operations are complete and every rank has called this method."""
        check(C.rondo_comm_finalize(self._handle), self._handle)
        self._finalized = True

    def destroy(self) -> None:
        """Waits for this rank's operations, then frees all resources. A second call has no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(C.rondo_comm_destroy(handle))
            self._registrations.clear()
            self._windows.clear()
            self._reused.clear()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if self._handle is not None:
                if kind is not None:
                    C.rondo_comm_abort(self._handle)
                elif not self._finalized:
                    self.finalize()
        finally:
            try:
                self.destroy()
            except Error:
                if kind is None:
                    raise

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and not sys.is_finalizing():
            C.rondo_comm_destroy(self._handle)

    def __repr__(self) -> str:
        if self._handle is None:
            return "<rondo.Communicator: destroyed>"
        if self._place is None:
            return "<rondo.Communicator: not ready>"
        return "<rondo.Communicator: rank {} of {}>".format(*self._place)


def init(device: Optional[int] = None, timeout: Optional[float] = None, **options: Any) -> Communicator:
    """Makes a communicator of all ranks of the job that the environment describes.

    It knows the environments of `rondo run`, torchrun, Open MPI, MPICH and Slurm. Without a launcher, this process is
    the only rank. The options are the same as in Communicator().

    >>> import rondo
    >>> with rondo.init(algorithm="ring") as comm:
    ...     print(comm.rank, comm.size)
    0 1
    """
    handle = c_void_p()
    check(C.rondo_comm_init_env(byref(handle), byref(configuration(device=device, timeout=timeout, **options))))
    return Communicator._of(handle.value)


def init_all(size: int, devices: Optional[Sequence[int]] = None, timeout: Optional[float] = None,
             **options: Any) -> List[Communicator]:
    """Makes a communicator whose ranks are all in this process, and returns one Communicator for each rank.

    Call each rank from its own thread, or use streams. `devices` has the ordinal of each rank's CUDA device.

    >>> import array, rondo
    >>> comms, streams = rondo.init_all(2), [rondo.Stream(), rondo.Stream()]
    >>> xs = [array.array("i", [rank + 1]) for rank in range(2)]
    >>> works = [comm.all_reduce(x, stream=stream) for comm, x, stream in zip(comms, xs, streams)]
    >>> all(work.wait() for work in works), xs[0][0], xs[1][0]
    (True, 3, 3)
    """
    if size < 1 or devices is not None and len(devices) != size:
        raise InvalidArgument(f"{size} ranks with {devices!r}: there is at least one rank, and one device for each")
    configs = (rondo_config_t * size)(*[configuration(device=device, timeout=timeout, **options)
                                        for device in devices or [None] * size])
    handles = (c_void_p * size)()
    check(C.rondo_comm_init_all(ctypes.cast(handles, ctypes.POINTER(c_void_p)), size, configs))
    comms = [Communicator._of(handle, check_it=False) for handle in handles]
    for comm in comms:
        comm.ready()
    return comms
