# SPDX-License-Identifier: Apache-2.0
"""This module has the barrier that names the ranks that do not come. It uses the store, not the library.

Programs compare the beginnings of its messages, so these have PyTorch's words."""

from __future__ import annotations

import time
from typing import Any, List

from .._errors import TimeoutError  # pylint: disable=redefined-builtin
from ._store import fetch


class MonitoredBarrier:
    """The barriers of one rank of a process group. Every rank must call the same number of them."""

    def __init__(self, store: Any, rank: int, ranks: List[int]) -> None:
        self._store, self._rank, self._ranks, self._number = store, rank, ranks, 0

    def _key(self, name: Any, number: int = 0) -> str:
        return f"monitored/{number or self._number}/{name}"

    def wait(self, seconds: float, names_all: bool) -> None:
        """Waits until all ranks have come. The first rank names one missing rank, or all with `names_all`."""
        self._number += 1
        if self._rank:
            self._report(seconds)
        else:
            self._collect(seconds, names_all)

    def _collect(self, seconds: float, names_all: bool) -> None:
        """Waits for the other ranks on the first rank, and then publishes the outcome."""
        missing: List[int] = []
        end = time.monotonic() + seconds
        for rank in range(1, len(self._ranks)):
            try:
                fetch(self._store, self._key(rank), end - time.monotonic())
                self._store.delete_key(self._key(rank))
            except TimeoutError:
                missing.append(self._ranks[rank])
                if not names_all:
                    break
        self._store.set(self._key("missing"), ", ".join(map(str, missing)))
        if missing and seconds <= 0:
            raise TimeoutError(f"Rank {self._ranks[0]} timed out in monitoredBarrier: the timeout was {seconds} s")
        if missing:
            raise TimeoutError(f"Rank{'s' if names_all and len(missing) > 1 else ''} {', '.join(map(str, missing))} "
                               f"failed to pass monitoredBarrier in {seconds} s", peer=missing[0])
        if self._number > 1:  # every rank has read it
            self._store.delete_key(self._key("missing", self._number - 1))

    def _report(self, seconds: float) -> None:
        """Publishes that this rank has come, and waits for the outcome."""
        self._store.set(self._key(self._rank), b"here")
        first = self._ranks[0]
        try:
            missing = fetch(self._store, self._key("missing"), seconds).decode()
        except TimeoutError:
            missing = str(first)
        if missing:
            raise TimeoutError(f"Rank {self._ranks[self._rank]} successfully reached monitoredBarrier, but received "
                               f"errors while waiting for send/recv from rank {first}: rank {missing} did not come in "
                               f"{seconds} s", peer=int(missing.split(",")[0]))
