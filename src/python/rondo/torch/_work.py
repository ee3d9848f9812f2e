# SPDX-License-Identifier: Apache-2.0
"""This module has the handle that a collective or a message returns to torch.distributed."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work as C10dWork

from .._errors import TimeoutError  # pylint: disable=redefined-builtin
from ._failures import Names

IDLE_S = 5.0  # how long a thread waits for the next request


class Completer:
    """Threads that set futures. They wait for the operations one after another, in the order of the requests.

    A callback may wait for other futures. So another thread starts while all threads are in callbacks. A thread ends
    after a while without requests."""

    def __init__(self) -> None:
        self._works: "queue.SimpleQueue[Work]" = queue.SimpleQueue()
        self._turn = threading.Lock()  # held by the thread that waits
        self._lock = threading.Lock()
        self._free = 0  # number of threads that are not in a callback

    def add(self, work: "Work") -> None:
        """Completes the future of `work` once the work is done."""
        self._works.put(work)
        self._attend()

    def _attend(self) -> None:
        """Starts a thread if no thread is free."""
        with self._lock:
            if self._free:
                return
            self._free = 1
        threading.Thread(target=self._run, name="rondo futures", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._turn:
                try:
                    work = self._works.get(timeout=IDLE_S)
                except queue.Empty:
                    with self._lock:
                        if self._works.empty():
                            self._free -= 1
                            return
                    continue
                work._await(None)
            with self._lock:
                self._free -= 1
            if not self._works.empty():
                self._attend()
            work._complete_future()
            del work  # its tensors are not needed while this thread waits
            with self._lock:
                self._free += 1


class Separate(Completer):
    """Completes each future in a separate thread, and so in any order."""

    def add(self, work: "Work") -> None:
        threading.Thread(target=work._complete_future, name="rondo future", daemon=True).start()


class Work(C10dWork):
    """An operation of a process group.

    `wait()` raises the exception of a failed operation. The buffers stay alive until the operation is done."""

    def __init__(self, names: Names, result: Sequence[torch.Tensor], completer: Completer,
                 finish: Optional[Callable[[], None]] = None, source: int = -1) -> None:
        super().__init__()
        self._names, self._result, self._completer, self._finish = names, result, completer, finish
        self._source = source
        self._inner: Any = None              # the rondo.Work, once the operation is enqueued
        self._enqueued = threading.Event()
        self._lock = threading.Lock()
        self._done = False
        self._error: Optional[BaseException] = None
        self._ended: Optional[torch.futures.Future[Any]] = None   # its value is not used
        self._future: Optional[torch.futures.Future[Any]] = None  # the future for callers, which follows from _ended

    def _start(self, inner: Any) -> "Work":
        """Takes the operation of the library, or None if it is complete."""
        self._inner = inner
        if inner is None:
            self._end(None)
        self._enqueued.set()
        return self

    def _match(self, source: int, names: Names) -> None:
        """Sets the source of a receive from any rank, before the operation is enqueued."""
        self._source, self._names = source, names

    def _fail(self, error: BaseException) -> "Work":
        """Ends an operation that was never enqueued."""
        self._end(error)
        self._enqueued.set()
        return self

    def _end(self, error: Optional[BaseException]) -> None:
        """Copies results to their tensors, and notes the end. Later calls have no effect."""
        with self._lock:
            if self._done:
                return
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except Exception as failed:  # pylint: disable=broad-except
                    error = failed
            self._error, self._done = error, True
            self._finish = self._inner = None  # last, because other threads take this for the end

    def _await(self, seconds: Optional[float]) -> bool:
        """Waits until the operation is done. Returns False if the time is over before."""
        if not self._enqueued.wait(seconds):
            return False
        inner = self._inner
        if inner is None:  # it is done
            return True
        try:
            if not inner.wait(seconds):
                return False
        except BaseException as error:  # pylint: disable=broad-except
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self._end(self._names.explained(error))
            return True
        self._end(None)
        return True

    def _complete_future(self) -> None:
        """Waits for the operation, then sets the future."""
        self._await(None)
        assert self._ended is not None
        self._ended.set_result(None)

    def _value(self, _: Any) -> Any:
        """Returns the value of the future. C++ sees an exception only if it leaves a callback."""
        if self._error is not None:
            raise self._error
        return list(self._result)

    # The methods of torch.distributed.Work:

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Waits until the operation is done. Raises its exception if it failed, or if `timeout` is over."""
        seconds = timeout.total_seconds() if timeout else 0.0  # 0 and -1 ms stand for no limit
        if not self._done and not self._await(seconds if seconds > 0 else None):
            raise TimeoutError(f"the operation was not done within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def get_future(self) -> "torch.futures.Future[Any]":
        """Returns the future of the operation. Its value is the list of output tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._ended = torch.futures.Future()
            self._future = self._ended.then(self._value)
        if self._done:
            self._complete_future()
        else:
            self._completer.add(self)
        return self._future

    def is_completed(self) -> bool:
        """Returns whether the operation is done. A failed operation is done, too."""
        if not self._done and self._enqueued.is_set():
            inner = self._inner
            if inner is not None and inner.done():
                self._await(None)
        return self._done

    def is_success(self) -> bool:
        """Returns whether the operation is done and has not failed."""
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        """Returns the exception of a failed operation."""
        return self._error

    def result(self) -> Any:
        """Returns the output tensors."""
        self.wait()
        return list(self._result)

    def source_rank(self) -> int:
        """Returns the rank that sent a received message."""
        return self._source

    _source_rank = source_rank


class Window(threading.local):
    """The operations of a thread since it began to collect them. If it does not collect any, there is no list."""

    works: Optional[List[Work]] = None


class Joined(Work):
    """Several operations as one."""

    def __init__(self, works: Sequence[Work], names: Names, completer: Completer) -> None:
        super().__init__(names, [tensor for work in works for tensor in work._result], completer)
        self._works = works
        self._enqueued.set()

    def _await(self, seconds: Optional[float]) -> bool:
        if not all(work._await(seconds) for work in self._works):
            return False
        error = next((work._error for work in self._works if work._error is not None), None)
        if error is not None:
            self._end(error)
        return True  # not noted as the end: on a device, each wait makes the current stream wait

    def get_future(self) -> "torch.futures.Future[Any]":
        """Returns a future whose value is the list of all output tensors."""
        parts = torch.futures.collect_all([work.get_future() for work in self._works])
        return parts.then(lambda done: [tensor for part in done.value() for tensor in part.value()])

    def is_completed(self) -> bool:
        """Returns whether all of the operations are done."""
        return self._done or all(work.is_completed() for work in self._works) and self._await(None)
