# SPDX-License-Identifier: Apache-2.0
"""This module makes communicators whose ranks find each other through a store of torch.distributed."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Mapping, Optional, Sequence

from .._communicator import Communicator, UniqueId, unique_id
from .._config import LONGEST_S
from .._errors import Error, TimeoutError  # pylint: disable=redefined-builtin

FIRST_PAUSE_S, LAST_PAUSE_S = 0.0002, 0.01


def limit_of(timeout: timedelta) -> float:
    """Returns the seconds of a timeout. Programs pass years for no limit, so a longer time is the longest limit."""
    return min(timeout.total_seconds(), LONGEST_S)


def fetch(store: Any, keys: Sequence[str], seconds: float) -> bytes:
    """Waits until the store has a value for one of the keys, and returns the value.

    It polls, because a waiting call would block all other threads that use the store's connection."""
    end, pause = time.monotonic() + seconds, FIRST_PAUSE_S
    while True:
        for key in keys:
            if store.check([key]):
                return bytes(store.get(key))
        if time.monotonic() >= end:
            raise TimeoutError("rank 0 of the communicator did not publish its id: it has ended, or has not made the "
                               "same call")
        time.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE_S)


def forget(store: Any, key: str) -> None:
    """Deletes a key, unless the store cannot, or has ended."""
    try:
        store.delete_key(key)
    except RuntimeError:  # NotImplementedError is one
        pass


def rendezvous(store: Any, key: str, rank: int, size: int, seconds: float, device: Optional[int],
               options: Mapping[str, Any]) -> Communicator:
    """Makes a communicator. Rank 0 publishes the id, which contains a secret, under `key`."""
    try:
        return joined(store, key, rank, size, seconds, device, options)
    except TimeoutError as error:
        raise TimeoutError(f"the timeout ({seconds:g} s, timeout= of init_process_group(), new_group() or barrier()) "
                           f"is over, and not all ranks have come: {error}", error.status, error.rank,
                           error.peer) from error


def joined(store: Any, key: str, rank: int, size: int, seconds: float, device: Optional[int],
           options: Mapping[str, Any]) -> Communicator:
    """Joins the communicator by its id."""
    chosen = {"timeout": seconds, "init_timeout": seconds, **options}
    if size == 1:
        return Communicator(unique_id(), 0, 1, device=device, **chosen)
    if rank:
        return Communicator(fetch(store, [key], seconds), rank, size, device=device, **chosen)
    name: UniqueId = unique_id(options.get("network_interface"))
    try:
        store.set(key, name)
        made = Communicator(name, 0, size, device=device, **chosen)
        made.wait_ready()  # every rank has read the id
    except BaseException:
        forget(store, key)  # a later attempt has another id
        try:
            name.free()
        except Error:
            pass  # the failed call has used the id
        raise
    forget(store, key)  # a later group with the same prefix has another id
    return made
