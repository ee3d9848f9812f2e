# SPDX-License-Identifier: Apache-2.0
"""This module adds sparse tensors: every rank collects the elements of all ranks, and adds elements with
equal indices."""

from __future__ import annotations

from typing import Any, Callable, List

import torch
from torch._C._distributed_c10d import ReduceOp

from .._errors import UnsupportedError
from ._tensors import blocks, moved, number_of


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
        self.count = torch.tensor([len(self._indices)], device=tensor.device)  # of elements, on this rank

    def body(self, counts: List[int]) -> Callable[[Any, Any], Any]:
        """Returns the calls that collect the elements. Rank r has counts[r] of them."""
        calls, whole = [], []
        for part in (self._indices, self._values):
            row = blocks([part.new_empty((1, *part.shape[1:]))], part)[0]
            whole.append(part.new_empty((sum(counts), *part.shape[1:])))
            calls.append((moved(part), [count * row for count in counts], moved(whole[-1])))
        self._all_indices, self._all_values = whole
        return lambda comm, stream: [comm.all_gather_v(send, each, out=recv, stream=stream)
                                     for send, each, recv in calls][-1]

    def finish(self) -> None:
        """Adds the elements, and writes the sum into the tensor."""
        with torch.no_grad():
            total = torch.sparse_coo_tensor(self._all_indices.t(), self._all_values, self._tensor.shape,
                                            check_invariants=False)
            self._tensor.copy_(total.coalesce())
