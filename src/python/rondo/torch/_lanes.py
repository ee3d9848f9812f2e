# SPDX-License-Identifier: Apache-2.0
"""This module runs the collectives of a process group, on host memory or on a CUDA device.

A body is a function of a communicator and a stream, which makes one or more calls."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from typing import Any, Callable, Deque, Optional, Sequence

import torch

from .._communicator import Communicator
from .._errors import (AbortedError, CommFailedError, Error, MismatchError, RemoteError, RevokedError,
                       UnsupportedError)
from .._errors import TimeoutError  # pylint: disable=redefined-builtin
from .._streams import POLL_S, Stream
from ._failures import Names
from ._tensors import Finish
from ._work import Completer, Work

Body = Callable[[Communicator, Any], Any]
# The communicator has failed.
FATAL = (RemoteError, TimeoutError, MismatchError, AbortedError, RevokedError, CommFailedError)


def check_device(device: torch.device, configuration: Optional[str]) -> None:
    """Refuses tensors of a device that the group is not for. The configuration names the backend of each device."""
    if device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"the backend rondo has CPU and CUDA tensors, not {device}")
    if device.type == "cuda" and configuration is not None and "cuda:rondo" not in configuration.split(","):
        raise UnsupportedError(f'the group was made as "{configuration}", so rondo does not take its CUDA tensors. '
                               "PyTorch gives a group with rondo no other backend: make another group for them")


class Recorded:
    """A communicator whose calls appear in PyTorch's profiler. A call on a stream ends when it is enqueued."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._comm, name)

        def recorded(*args: Any, **how: Any) -> Any:
            with torch.autograd.profiler.record_function(f"rondo:{name}"):
                return call(*args, **how)
        return recorded


def shown(comm: Communicator) -> Any:
    """Returns the communicator, or while a profiler runs, one whose calls the profiler shows."""
    return Recorded(comm) if torch.autograd._profiler_enabled() else comm


class HostLane:
    """The collectives on host memory. They run in the caller's thread, or on a stream if the caller does not wait."""

    def __init__(self, comm: Communicator, names: Names) -> None:
        self.comm, self._names = comm, names
        self._stream: Optional[Stream] = None
        self._completer = Completer()
        self._lock = threading.Lock()  # a communicator takes one call at a time

    def run(self, body: Body, waits: bool, result: Sequence[torch.Tensor], finish: Finish,
            holds_host: bool = True) -> Work:  # pylint: disable=unused-argument  # every wait blocks the host
        """Makes the calls of `body`. With `waits`, they are complete when this method returns."""
        work = Work(self._names, result, self._completer, finish)
        try:
            with self._lock:
                if waits:
                    body(shown(self.comm), None)
                    return work._start(None)
                if self._stream is None:
                    self._stream = Stream()
                return work._start(body(shown(self.comm), self._stream))
        except Error as error:
            explained = self._names.explained(error)
            if not waits and isinstance(error, FATAL):
                return work._fail(explained)
            if explained is error:
                raise
            raise explained from error

    def close(self, abort: bool) -> None:
        """Ends the communicator: after its operations, or at once."""
        if abort:
            self.comm.abort()
        if self._stream is not None:
            try:
                self._stream.destroy()
            except Error:
                pass  # each Work has its failure
        self.comm.destroy()


class DeviceWork(Work):
    """A collective on a CUDA device. Waiting makes the current stream wait. The host waits for barriers, or if there is
    a time limit."""

    def __init__(self, lane: "DeviceLane", result: Sequence[torch.Tensor], holds_host: bool) -> None:
        super().__init__(lane.names, result, lane.completer)
        self._lane, self._holds_host, self.event = lane, holds_host, torch.cuda.Event()
        self.kept: Any = None  # keeps the buffers of a captured operation alive
        self.event.record(lane.stream)
        self._enqueued.set()

    def _await(self, seconds: Optional[float]) -> bool:
        end = None if seconds is None else time.monotonic() + seconds
        while end is not None and not self.event.query():
            if time.monotonic() >= end:
                return False
            time.sleep(POLL_S)
        current = torch.cuda.current_stream(self._lane.device)
        self.event.wait(current)
        self.kept = None
        if self._holds_host:
            current.synchronize()
        failed = self._lane.comm.async_error()
        if failed is not None:
            self._end(self._names.explained(failed))
        return True

    def get_future(self) -> "torch.futures.Future[Any]":
        """Returns a future that is already done. Its value is valid in the order of the device's stream."""
        future: "torch.futures.Future[Any]" = torch.futures.Future(devices=[self._lane.device])
        with torch.cuda.stream(self._lane.stream):
            future.set_result(list(self._result))
        return future

    def is_completed(self) -> bool:
        return bool(self.event.query())


class DeviceLane:
    """The collectives on a CUDA device. They run on a separate stream, after the work of the caller's stream."""

    def __init__(self, comm: Communicator, names: Names, device: torch.device) -> None:
        self.comm, self.names, self.device = comm, names, device
        self.stream = torch.cuda.Stream(device)
        self.completer = Completer()
        self._lock = threading.Lock()
        self._running: Deque[Any] = collections.deque()  # objects that keep the buffers of operations alive

    def run(self, body: Body, waits: bool, result: Sequence[torch.Tensor], finish: Finish,
            holds_host: bool = False) -> Work:
        """Enqueues the calls of `body`. With `holds_host`, a wait for the work also blocks the host."""
        current = torch.cuda.current_stream(self.device)
        with self._lock, torch.cuda.stream(self.stream):
            self.stream.wait_stream(current)
            try:
                body(shown(self.comm), self.stream.cuda_stream)
            except Error as error:
                with contextlib.suppress(RuntimeError):  # by PyTorch, if the device is lost
                    event = torch.cuda.Event()
                    event.record(self.stream)
                    self._keep(event, body, finish)  # earlier calls of the body may run
                raise self.names.explained(error) from error
            if finish is not None:
                finish()
            work = DeviceWork(self, result, holds_host)
            if not self._keep(work.event, body, finish):
                work.kept = body, finish
        if waits:
            work.wait()
        return work

    def _keep(self, event: "torch.cuda.Event", *kept: Any) -> bool:
        """Keeps the buffers of an operation alive until its event. Returns False during a capture."""
        if torch.cuda.is_current_stream_capturing():  # which forbids queries of events
            return False
        self._running.append((event, *kept))
        while self._running[0][0].query() and len(self._running) > 1:
            self._running.popleft()
        return True

    def close(self, abort: bool) -> None:
        """Ends the communicator: after its operations, or at once."""
        if abort:
            self.comm.abort()
        self.comm.destroy()
        self._running.clear()
