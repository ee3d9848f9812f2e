# SPDX-License-Identifier: Apache-2.0
"""This module has host streams, events, and the handle of one operation on a stream.

While an operation runs, its buffers have an additional reference, which no object of Python owns. So neither the
garbage collector nor the end of the interpreter frees memory that the stream's thread uses."""

from __future__ import annotations

import collections
import ctypes
import sys
import threading
import time
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, Callable, Deque, List, Optional, Tuple

from ._errors import Error, InvalidArgument, InvalidHandle, InvalidUsage, check, failure
from ._interface import Status
from ._library import C

NOT_READY, INVALID_HANDLE = int(Status.NOT_READY), int(Status.INVALID_HANDLE)
POLL_S = 0.001

_python = ctypes.PyDLL(None)
_add_reference, _drop_reference = _python.Py_IncRef, _python.Py_DecRef
_add_reference.argtypes, _add_reference.restype = (ctypes.py_object,), None
_drop_reference.argtypes, _drop_reference.restype = (ctypes.py_object,), None


def new_event() -> int:
    """Makes an event, and returns its handle."""
    handle = c_void_p()
    check(C.rondo_event_create(byref(handle)))
    return handle.value or 0


class Event:
    """A point in a host stream.

    >>> import rondo
    >>> with rondo.Stream() as stream, rondo.Event() as event:
    ...     event.record(stream)
    ...     event.synchronize()
    ...     event.done()
    True
    """

    def __init__(self) -> None:
        self._handle: Optional[int] = new_event()

    def record(self, stream: "Stream") -> None:
        """Marks this point of `stream`."""
        check(C.rondo_event_record(self._handle, stream._live()))

    def synchronize(self) -> None:
        """Waits until the stream has reached the point. If an operation before it has failed, raises its failure."""
        check(C.rondo_event_synchronize(self._handle))

    def done(self) -> bool:
        """Returns whether the stream has reached the point."""
        return ready(C.rondo_event_query(self._handle))

    def timestamp_ns(self) -> int:
        """Returns the time at which the stream passed the point, by CLOCK_MONOTONIC."""
        time_ns = c_uint64()
        check(C.rondo_event_timestamp_ns(self._handle, byref(time_ns)))
        return time_ns.value

    def destroy(self) -> None:
        """Frees the event. A second call has no effect."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(C.rondo_event_destroy(handle))

    def __enter__(self) -> "Event":
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and not sys.is_finalizing():
            C.rondo_event_destroy(self._handle)


def ready(status: int) -> bool:
    """Returns whether the status of a query is RONDO_OK, and raises an exception if the query failed."""
    if status == NOT_READY:
        return False
    check(status)
    return True


class Work:
    """An operation on a host stream. It keeps the operation's buffers alive until the operation is done."""

    def __init__(self, stream: "Stream", comm: Optional[int], result: Any, held: Any) -> None:
        self._stream, self._comm, self._held = stream, comm, held
        self._event: Optional[int] = None  # none while it is in a group, and once it is done
        self._pinned = self._done = False
        self._begun_ns = self._ended_ns = 0
        self._failure: Optional[Error] = None
        self.result = result

    def done(self) -> bool:
        """Returns whether the operation is done. A failed operation is done, too."""
        if not self._done:
            self._stream._retire()
        return self._done

    @property
    def cost(self) -> Optional[float]:
        """Returns the seconds from the call, or from the end of its group, until the stream passed the operation.

        That includes the time in which the operation waited for other ranks or for earlier operations of the stream.
        Returns None until the operation is done."""
        return (self._ended_ns - self._begun_ns) * 1e-9 if self.done() else None

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the operation is done. Returns False if `timeout` seconds have passed first.

        If the operation has failed, the failure of the communicator is raised. If the communicator was destroyed
        before Rondo noticed that the operation had failed, InvalidHandle is raised."""
        if not self._stream._wait(self, timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def _pin(self) -> None:
        """Adds a reference to the buffers, and notes the time of the call."""
        if not self._pinned:
            self._begun_ns = time.monotonic_ns()
            _add_reference(self._held)
            self._pinned = True  # an interrupt before this line costs memory, not a crash

    def _unpin(self) -> None:
        """Drops the reference to the buffers."""
        if self._pinned:
            self._pinned = False
            _drop_reference(self._held)
        self._held = None

    def _finish(self) -> None:
        """Notes how the operation ended, and releases its buffers."""
        if self._done:  # an interrupt has left it in the list
            return
        status, ended_ns = c_int(), c_uint64(time.monotonic_ns())  # the time, unless an event knows it better
        number = 0
        if self._event is None or C.rondo_event_synchronize(self._event):  # this or another communicator has failed
            number = C.rondo_comm_get_async_error(self._comm, byref(status)) or status.value
        if number == INVALID_HANDLE:
            self._failure = InvalidHandle("the communicator was destroyed before the end of this operation was seen, "
                                          "so that nobody knows whether it failed: call wait() before destroy()")
        elif number:
            self._failure = failure(number, self._comm)
        if self._event is not None:
            C.rondo_event_timestamp_ns(self._event, byref(ended_ns))
        self._ended_ns = ended_ns.value
        self._unpin()
        self._done = True
        self._event = None

    def __repr__(self) -> str:
        return f"<rondo.Work: {'done' if self._done else 'enqueued'}>"


class Stream:
    """A queue with a thread that runs operations in order, for communicators on host memory.

    A call with `stream=` returns a Work at once. At the end of a `with` block the stream is synchronized, then
    destroyed. If an exception leaves the block, the communicators of operations that are not done are aborted.

    >>> import array, rondo
    >>> with rondo.init() as comm, rondo.Stream() as stream:
    ...     x = array.array("f", [1, 2])
    ...     work = comm.all_reduce(x, stream=stream)
    ...     work.wait()
    True
    """

    def __init__(self) -> None:
        handle = c_void_p()
        check(C.rondo_stream_create(byref(handle)))
        self._handle: Optional[int] = handle.value
        self._pending: Deque[Work] = collections.deque()  # in the order in which they were enqueued
        self._events: List[int] = []                      # events for later operations
        self._lock = threading.Lock()

    def wait_event(self, event: Event) -> None:
        """Makes later operations wait for the latest record of `event`."""
        check(C.rondo_stream_wait_event(self._live(), event._handle))

    def synchronize(self) -> None:
        """Waits until all operations are done. Raises the first failure since the previous call."""
        status = C.rondo_stream_synchronize(self._handle)
        self._retire()
        check(status)

    def done(self) -> bool:
        """Returns whether all operations are done."""
        return ready(C.rondo_stream_query(self._handle))

    def destroy(self) -> None:
        """Waits until all operations are done, then ends the stream. A second call has no effect."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        status = C.rondo_stream_destroy(handle)
        self._retire()
        with self._lock:
            events, self._events = self._events, []
        for event in events:
            C.rondo_event_destroy(event)
        check(status)

    def _live(self) -> int:
        """Returns the handle. Fails for a destroyed stream: C would take its NULL for a call without a stream."""
        if self._handle is None:
            raise InvalidHandle("the stream was destroyed before")
        return self._handle

    def _enqueue(self, work: Work, function: Callable[..., int], arguments: Tuple[Any, ...]) -> Work:
        """Calls a function of C for `work`. Its buffers are pinned first, as an exception may follow at any time."""
        work._pin()
        try:
            status = function(*arguments)
        except ctypes.ArgumentError:  # there was no call
            work._unpin()
            raise
        except BaseException:  # Ctrl-C, when the operation may be enqueued
            self._track(work)
            raise
        if status:
            work._unpin()
            raise failure(status, work._comm)
        return self._track(work)

    def _track(self, work: Work) -> Work:
        """Records an event after the latest operation, and keeps the work's buffers until the event is done."""
        work._pin()
        self._retire()
        try:
            with self._lock:  # so that events are recorded in the order of the list
                event = self._events.pop() if self._events else new_event()
                check(C.rondo_event_record(event, self._live()))
                work._event = event
                self._pending.append(work)
        except Error:
            C.rondo_stream_synchronize(self._handle)  # nothing else shows when the buffers are free
            work._finish()
            raise
        return work

    def _retire(self) -> None:
        """Releases the buffers of operations that are done."""
        ended = []  # destroyed outside of the lock, because that may run code of the program
        with self._lock:
            while self._pending and C.rondo_event_query(self._pending[0]._event) != NOT_READY:
                event = self._pending[0]._event
                ended.append(self._pending[0]._held)
                self._pending[0]._finish()
                self._pending.popleft()
                if event is not None:
                    self._events.append(event)

    def _wait(self, work: Work, timeout: Optional[float]) -> bool:
        """Waits until `work` is done, or `timeout` seconds have passed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not work.done():
            event = work._event
            if event is None:
                if work._done:  # another thread has just noticed
                    break
                raise InvalidUsage("this operation is in a group that has not ended: wait after the `with` block")
            if end is None:
                C.rondo_event_synchronize(event)  # _finish() asks again whether there was a failure
            elif time.monotonic() >= end:
                return False
            else:
                time.sleep(min(POLL_S, max(0.0, end - time.monotonic())))
        return True

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            try:
                self.synchronize()
            finally:
                self.destroy()
            return
        self._retire()
        with self._lock:
            comms = {work._comm for work in self._pending}
        for comm in comms:
            C.rondo_comm_abort(comm)
        try:
            self.destroy()
        except Error:
            pass  # the exception that leaves the block says more

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and not sys.is_finalizing():
            try:
                self.destroy()
            except Error:
                pass  # the communicator also reports the failure


def handle_of(stream: Any) -> int:
    """Returns the handle of a host stream, or of a CUDA stream: a number, or an object of a framework."""
    if type(stream) is Stream:
        return stream._live()
    if isinstance(stream, int):
        return stream
    described = getattr(stream, "__cuda_stream__", None)
    if described is not None:
        return int((described() if callable(described) else described)[1])
    for name in ("cuda_stream", "ptr"):  # PyTorch and CuPy before they had the protocol
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise InvalidArgument(f"a {type(stream).__name__} is no stream. Pass a rondo.Stream for host memory; on a device, "
                          "an object with __cuda_stream__, or the number of a cudaStream_t")
