# SPDX-License-Identifier: Apache-2.0
"""This module adds sparse tensors: every rank collects the elements of all ranks, and adds elements with
equal indices."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import torch
from torch._C._distributed_c10d import ReduceOp

from .._errors import MismatchError, UnsupportedError
from ._tensors import blocks, moved, number_of

SIZES_MAX = 16  # sizes for which every description has room; with more sizes, it gets longer


class SparseSum:
    """The sum of a tensor with the layout torch.sparse_coo over all ranks."""

    def __init__(self, tensor: torch.Tensor, reduction: Any) -> None:
        if number_of(reduction) != ReduceOp.SUM:
            raise UnsupportedError(f"the reduction {number_of(reduction)} of sparse tensors is not available: convert "
                                   "them by to_dense()")
        with torch.no_grad():
            part = tensor.detach().coalesce()
            self._tensor, self._values = tensor, part.values().contiguous()
            self._indices = part.indices().t().contiguous()  # a row for each element
        shape = list(tensor.shape)
        # The count of elements on this rank, then the numbers that must be equal on all ranks.
        self.description = torch.tensor([len(self._indices), part.sparse_dim(), len(shape), *shape,
                                         *[0] * (SIZES_MAX - len(shape))], device=tensor.device)

    def body(self, descriptions: List[List[int]], ranks: Sequence[int]) -> Callable[[Any, Any], Any]:
        """Returns the calls that collect the elements. `ranks` has the global rank of each description. Each rank
        compares all descriptions, so all ranks refuse tensors of different shapes."""
        first, counts = descriptions[0], [each[0] for each in descriptions]
        for rank, each in zip(ranks, descriptions):
            if each[1:] != first[1:]:
                raise MismatchError(f"rank {ranks[0]} adds a sparse tensor of {shape_of(first)}, and rank {rank} one "
                                    f"of {shape_of(each)}: pass tensors of the same shape on all ranks", peer=rank)
        calls, whole = [], []
        for part in (self._indices, self._values):
            row = blocks([part.new_empty((1, *part.shape[1:]))], part)[0]
            whole.append(part.new_zeros((sum(counts), *part.shape[1:])))  # valid indices, even if nothing arrives
            calls.append((moved(part), [count * row for count in counts], moved(whole[-1])))
        self._all_indices, self._all_values = whole
        return lambda comm, stream: [comm.all_gather_v(send, each, out=recv, stream=stream)
                                     for send, each, recv in calls][-1]

    def finish(self) -> None:
        """Adds the elements, and writes the sum into the tensor."""
        with torch.no_grad():
            total = torch.sparse_coo_tensor(self._all_indices.t(), self._all_values, self._tensor.shape,
                                            check_invariants=True)
            self._tensor.copy_(total.coalesce())


def shape_of(description: List[int]) -> str:
    """Returns the shape in a rank's description, for a message."""
    return f"the shape {description[3:3 + description[2]]} with {description[1]} sparse dimensions"
