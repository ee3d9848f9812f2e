# SPDX-License-Identifier: Apache-2.0
"""This module names the ranks of an exception as the whole job numbers them."""

from __future__ import annotations

from typing import Optional, Sequence

from .._errors import Error


class Names:
    """The global rank of each rank of a communicator, and what the communicator is for."""

    def __init__(self, ranks: Sequence[int], purpose: str = "") -> None:
        self._ranks, self._purpose = list(ranks), purpose
        self._same = not purpose and self._ranks == list(range(len(self._ranks)))

    def _global(self, rank: Optional[int]) -> Optional[int]:
        """Returns the global rank, or None if there is none."""
        return None if rank is None or rank >= len(self._ranks) else self._ranks[rank]

    def explained(self, error: BaseException) -> BaseException:
        """Returns the exception with global ranks in its message and its attributes."""
        if self._same or not isinstance(error, Error):
            return error
        peer = self._global(error.peer)
        text = f"{self._purpose}: {error}" if self._purpose else str(error)
        if peer is not None:
            text += f" (rank {error.peer} of this communicator is global rank {peer})"
        made = type(error)(text, error.status, self._global(error.rank), peer, error.operation)
        made.__cause__ = error
        return made
