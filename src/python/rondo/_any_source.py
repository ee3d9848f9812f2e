# SPDX-License-Identifier: Apache-2.0
"""This module finds messages for receives from any rank. It is for rondo.torch, but needs no PyTorch.

Messages are not announced, so a send has no additional cost. Instead, a thread of the receiver searches for messages
while a receive from any rank waits. Receives with one tag are matched in the order in which they were posted. So a
receive that names its source waits for an earlier receive from any rank, which must get the first message."""

from __future__ import annotations

import collections
import threading
import time
from typing import Callable, Deque, Dict, NamedTuple, Optional, Sequence

from ._errors import AbortedError, RemoteError
from ._errors import TimeoutError  # pylint: disable=redefined-builtin

FIRST_PAUSE_S, LAST_PAUSE_S, LAST_ASK_S = 0.00005, 0.001, 0.01


class Receive(NamedTuple):
    """A receive that was posted and has no message yet."""

    source: Optional[int]              # None for any rank
    take: Callable[[int, bool], bool]  # as in AnySource.post()
    fail: Callable[[BaseException], object]
    seconds: float
    end: float                         # by time.monotonic()


class AnySource:
    """The receives from any rank that wait, and the later receives with the same tags. Each tag has a queue."""

    def __init__(self, rank: int, ranks: Sequence[int]) -> None:
        """`ranks` has the global rank of each rank of the group, and `rank` is this rank's number in it."""
        self._ranks, self._rank = ranks, rank
        self._sources = [source for source in range(len(ranks)) if source != rank]
        self._queues: Dict[int, Deque[Receive]] = {}  # the first of each queue is from any rank
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None
        self._served: Optional[Receive] = None  # the receive of _search(), which has no lock
        self._error: Optional[BaseException] = None

    def post(self, tag: int, source: Optional[int], take: Callable[[int, bool], bool],
             fail: Callable[[BaseException], object], seconds: float) -> None:
        """Posts a receive from `source`, or from any rank if it is None.

        `take(source, asks)` receives a message of rank `source`, or returns False if that rank has sent none. It asks
        the store only if `asks`, and raises an exception if the rank can send no more messages. If the receive names
        its source, the return value does not matter. `fail(error)` ends the receive."""
        if source is not None and tag not in self._queues:
            take(source, True)
            return
        with self._changed:
            queue = self._queues.get(tag)
            if source is not None and queue is None:
                take(source, True)
            elif self._error is not None:
                fail(self._error)
            else:
                if queue is None:
                    queue = self._queues[tag] = collections.deque()
                queue.append(Receive(source, take, fail, seconds, time.monotonic() + seconds))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="rondo any source", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def close(self) -> None:
        """Ends all receives that wait."""
        with self._changed:
            self._error = error = AbortedError("the process group was shut down")
            waiting = [receive for queue in self._queues.values() for receive in queue if receive is not self._served]
            self._queues.clear()
            self._changed.notify()
        for receive in waiting:
            receive.fail(error)

    def _run(self) -> None:
        """Serves the first receive of each queue in turn. It returns when the group is closed."""
        pause = ask_pause = FIRST_PAUSE_S
        ask_at = 0.0
        while True:
            with self._changed:
                while not self._queues and self._error is None:
                    self._changed.wait()
                    pause = ask_pause = FIRST_PAUSE_S
                if self._error is not None:
                    return
                tags = list(self._queues)
            asks = time.monotonic() >= ask_at
            if any([self._serve(tag, asks) for tag in tags]):
                pause, ask_pause, ask_at = FIRST_PAUSE_S, FIRST_PAUSE_S, 0.0
                continue
            if asks:
                ask_at, ask_pause = time.monotonic() + ask_pause, min(2 * ask_pause, LAST_ASK_S)
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_S)

    def _serve(self, tag: int, asks: bool) -> bool:
        """Serves the first receive of a queue. Returns whether that receive has got a message or has failed."""
        with self._changed:
            queue = self._queues.get(tag)
            if queue is None:  # it was closed
                return False
            receive = self._served = queue[0]
        matched, error = False, None
        try:
            matched = self._search(receive, tag, asks)
        except Exception as failed:  # pylint: disable=broad-except
            error = failed
        with self._changed:
            self._served = None
            error = error or self._error
            if matched or error is not None:
                self._advance(tag)
        if error is not None and not matched:
            receive.fail(error)
        return matched or error is not None

    def _advance(self, tag: int) -> None:
        """Removes the first receive of a queue, and posts the later ones up to the next one from any rank."""
        queue = self._queues.get(tag)
        if queue is None:  # it was closed
            return
        queue.popleft()
        while queue and queue[0].source is not None:
            receive = queue.popleft()
            receive.take(receive.source, True)
        if not queue:
            del self._queues[tag]

    def _search(self, receive: Receive, tag: int, asks: bool) -> bool:
        """Takes a message of any rank. Returns False if there is none, and raises an exception if none will come."""
        failed: Dict[int, Exception] = {}
        for source in self._sources:
            try:
                if receive.take(source, asks):
                    self._sources.remove(source)  # the others go first next time
                    self._sources.append(source)
                    return True
            except Exception as error:  # pylint: disable=broad-except
                failed[source] = error
        late = time.monotonic() >= receive.end
        if not late and len(failed) < len(self._sources):
            return False
        what = f"a message with tag {tag} from any rank to rank {self._ranks[self._rank]}"
        causes = "".join(f"; rank {self._ranks[source]} cannot send: {error}" for source, error in failed.items())
        if not late:
            raise RemoteError(f"{what}: no rank is left that could send it{causes}", peer=self._ranks[min(failed)])
        names = ", ".join(str(self._ranks[source]) for source in sorted(self._sources))
        raise TimeoutError(f"{what}: none of the ranks {names} has sent one within {receive.seconds:g} s, the timeout "
                           f"of the process group{causes}. Send one, or raise timeout= of init_process_group() and "
                           "new_group()")
