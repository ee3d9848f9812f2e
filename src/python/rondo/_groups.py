# SPDX-License-Identifier: Apache-2.0
"""This module has groups of calls."""

from __future__ import annotations

import threading
from typing import Any, List, Optional

from ._errors import Error, InvalidUsage, check, failure
from ._library import C
from ._streams import Work


class State(threading.local):
    """The outermost group of each thread."""

    group: Optional["Group"] = None


state = State()


class Group:
    """A group of calls; rondo.group() makes it."""

    def __init__(self) -> None:
        self._outermost = False
        self.held: List[Any] = []   # buffers that the end of the group reads
        self.works: List[Work] = []
        self.spoilt = False         # an exception left a group inside of this one

    def __enter__(self) -> "Group":
        check(C.rondo_group_begin())
        if state.group is None:
            state.group, self._outermost = self, True
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if not self._outermost:
            if kind is not None and state.group is not None:
                state.group.spoilt = True
            C.rondo_group_end()  # the outermost end reports a refused call
            return
        state.group = None
        if kind is not None or self.spoilt:
            C.rondo_group_cancel(None)
            if kind is None:
                raise InvalidUsage("an exception ended a group inside of this one, so that none of its calls was "
                                   "enqueued. Let the exception leave the outer group, too")
            return
        for work in self.works:
            work._pin()
        error: Optional[BaseException] = None
        try:
            status = C.rondo_group_end()
            error = failure(status) if status else None
        except BaseException as interrupt:  # pylint: disable=broad-except
            error = interrupt
        for work in self.works:  # also after a failure: operations of other communicators may be enqueued
            try:
                work._stream._track(work)
            except Error as failed:
                error = error or failed
        if error is not None:
            raise error


def group() -> Group:
    """Makes a group. It keeps the calls in its `with` block, and the end of the block enqueues all calls.

    If an exception leaves the block, nothing is enqueued. Messages of a group run at the same time, so they cannot wait
    for each other.

    >>> import array, rondo
    >>> x, y = array.array("i", [7]), array.array("i", [0])
    >>> with rondo.init() as comm:
    ...     with rondo.group():
    ...         comm.send(x, peer=0)
    ...         _ = comm.recv(y, peer=0)
    ...     y[0]
    7
    """
    return Group()
