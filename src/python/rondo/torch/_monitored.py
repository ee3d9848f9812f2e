# SPDX-License-Identifier: Apache-2.0
"""This module has the barrier that names the ranks that do not come. It uses the store, not the library.

Programs compare how its error messages begin, so the messages begin with PyTorch's words."""

from __future__ import annotations

import secrets
import time
from typing import Any, List

from .._errors import TimeoutError  # pylint: disable=redefined-builtin
from ._store import fetch


class MonitoredBarrier:
    """The barriers of one rank of a process group. Every rank must call equally many of them.

    Each rank publishes a random name, and the first rank answers under that name. So if a former group with the same
    prefix has left a key, that key is no answer."""

    def __init__(self, store: Any, rank: int, ranks: List[int]) -> None:
        self._store, self._rank, self._ranks, self._number = store, rank, ranks, 0
        self._failed: List[str] = []  # keys of the barriers that have failed, on the first rank

    def _key(self, name: Any) -> str:
        return f"monitored/{self._number}/{name}"

    def wait(self, seconds: float, names_all: bool) -> None:
        """Waits until all ranks have come. The first rank names one missing rank, or with `names_all` all of them."""
        self._number += 1
        if self._rank:
            self._report(seconds)
        else:
            self._collect(seconds, names_all)

    def close(self) -> None:
        """Deletes the keys that the first rank has published about failures. If the store has ended, does nothing."""
        try:
            while self._failed:
                self._store.delete_key(self._failed.pop())
        except RuntimeError:  # of the store
            self._failed.clear()

    def _collect(self, seconds: float, names_all: bool) -> None:
        """Waits for the other ranks on the first rank, and then publishes the outcome."""
        missing: List[int] = []
        names: List[str] = []
        end = time.monotonic() + seconds
        for rank in range(1, len(self._ranks)):
            try:
                names.append(fetch(self._store, [self._key(rank)], end - time.monotonic()).decode())
                self._store.delete_key(self._key(rank))
            except TimeoutError:
                missing.append(self._ranks[rank])
                if not names_all:
                    break
        if not missing:
            self.close()  # every rank has read about earlier failures
            for name in names:
                self._store.set(self._key(name), "passed")
            return
        self._failed.append(self._key("missing"))
        self._store.set(self._failed[-1], ", ".join(map(str, missing)))  # late ranks also read this key
        if seconds <= 0:
            raise TimeoutError(f"Rank {self._ranks[0]} timed out in monitoredBarrier: the timeout was {seconds} s")
        raise TimeoutError(f"Rank{'s' if names_all and len(missing) > 1 else ''} {', '.join(map(str, missing))} "
                           f"failed to pass monitoredBarrier in {seconds} s", peer=missing[0])

    def _report(self, seconds: float) -> None:
        """Publishes that this rank has come, and waits for the outcome."""
        name, first = secrets.token_hex(8), self._ranks[0]
        here, passed = self._key(self._rank), self._key(name)
        self._store.set(here, name)
        try:
            missing = fetch(self._store, [passed, self._key("missing")], seconds).decode()
        except TimeoutError:
            missing = str(first)
        if missing == "passed":
            self._store.delete_key(passed)
            return
        self._store.delete_key(here)  # the first rank may not have read it
        raise TimeoutError(f"Rank {self._ranks[self._rank]} successfully reached monitoredBarrier, but received "
                           f"errors while waiting for send/recv from rank {first}: rank {missing} did not come in "
                           f"{seconds} s", peer=int(missing.split(",")[0]))
