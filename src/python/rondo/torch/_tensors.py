# SPDX-License-Identifier: Apache-2.0
"""This module describes tensors to the library: their memory, their type, and the reduction of their elements."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch._C._distributed_c10d import ReduceOp

from .._buffers import Buffer
from .._errors import InvalidArgument, UnsupportedError
from .._interface import Op, Type
from .._ops import PremulSum

TYPES = {torch.int8: Type.INT8, torch.uint8: Type.UINT8, torch.int32: Type.INT32, torch.int64: Type.INT64,
         torch.uint32: Type.UINT32, torch.uint64: Type.UINT64, torch.float16: Type.FLOAT16,
         torch.bfloat16: Type.BFLOAT16, torch.float32: Type.FLOAT32, torch.float64: Type.FLOAT64,
         torch.float8_e4m3fn: Type.FLOAT8_E4M3, torch.float8_e5m2: Type.FLOAT8_E5M2}
OPS = {ReduceOp.SUM: Op.SUM, ReduceOp.PRODUCT: Op.PROD, ReduceOp.MIN: Op.MIN, ReduceOp.MAX: Op.MAX,
       ReduceOp.AVG: Op.AVG}
BITWISE = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}
LOGICAL = {ReduceOp.SUM: Op.MAX, ReduceOp.MAX: Op.MAX, ReduceOp.BOR: Op.MAX, ReduceOp.PRODUCT: Op.MIN,
           ReduceOp.MIN: Op.MIN, ReduceOp.BAND: Op.MIN}  # reductions of booleans
Finish = Optional[Callable[[], None]]


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Refuses a tensor that is sparse."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"a tensor of the layout {tensor.layout} cannot be passed: convert it by to_dense()")
    return tensor


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a contiguous copy. Ranks may have different strides, so memory in another order is not
    passed as it is."""
    if strided(tensor).is_contiguous():
        return tensor
    return tensor.detach().contiguous()


def writable(tensor: torch.Tensor) -> torch.Tensor:
    """Refuses a result that is sparse, or whose elements share memory."""
    if any(stride == 0 and size > 1 for stride, size in zip(strided(tensor).stride(), tensor.shape)):
        raise InvalidArgument(f"the result has the shape {list(tensor.shape)} and the strides "
                              f"{list(tensor.stride())}, so its elements share memory: pass tensor.clone()")
    return tensor


def write(tensor: torch.Tensor, content: torch.Tensor) -> None:
    """Copies `content` to a tensor. The mode in which tensors for inference may be written belongs to a thread."""
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.copy_(content)


def packed_all(tensors: Sequence[torch.Tensor]) -> Tuple[Sequence[torch.Tensor], Finish]:
    """Returns contiguous tensors for an operation that writes, and a function that copies what it wrote back."""
    if all(strided(tensor).is_contiguous() for tensor in tensors):
        return tensors, None
    packed = [dense(tensor) for tensor in tensors]
    written = [(tensor, copy) for tensor, copy in zip(tensors, packed) if copy is not tensor]
    for tensor, _ in written:
        writable(tensor)

    def finish() -> None:
        for tensor, copy in written:
            write(tensor, copy)
    return packed, finish


def check(tensor: torch.Tensor) -> torch.Tensor:
    """Refuses a tensor that is not contiguous."""
    if not strided(tensor).is_contiguous():
        raise InvalidArgument("Tensors must be contiguous: pass tensor.contiguous(), and copy a result back")
    return tensor


def moved(tensor: torch.Tensor) -> Buffer:
    """Describes a tensor that is copied. If Rondo does not have its type, it is copied as bytes."""
    check(tensor)
    type_ = TYPES.get(tensor.dtype)
    if type_ is None:
        return Buffer.from_address(tensor.data_ptr(), tensor.numel() * tensor.element_size(), Type.UINT8, tensor)
    return Buffer.from_address(tensor.data_ptr(), tensor.numel(), type_, tensor)


def number_of(reduction: Any) -> Any:
    """Returns the plain operation of a ReduceOp."""
    return getattr(reduction, "op", reduction)


def bitwise(tensor: torch.Tensor, reduction: Any) -> Any:
    """Returns the function of PyTorch for a reduction that the library does not have, or None."""
    operation = number_of(reduction)
    if tensor.dtype is torch.bool:
        return torch.bitwise_xor if operation == ReduceOp.BXOR else None
    function = BITWISE.get(operation)
    if function is not None and (tensor.is_floating_point() or tensor.is_complex()):
        raise UnsupportedError(f"the reduction {operation} needs integers, not {tensor.dtype}")
    return function


def premul_sum(reduction: Any) -> PremulSum:
    """Returns the sum for a ReduceOp of _make_nccl_premul_sum(), whose factor is in its pickled state."""
    state = reduction.__getstate__() if hasattr(reduction, "op") else ()
    if len(state) != 2 or state[1] is None:
        raise InvalidArgument("PREMUL_SUM has no factor: pass torch.distributed._make_nccl_premul_sum(factor)")
    return PremulSum(moved(state[1]) if isinstance(state[1], torch.Tensor) else state[1])


def reduced(tensor: torch.Tensor, reduction: Any) -> Tuple[Buffer, Any]:
    """Describes a tensor whose elements are reduced, and the reduction."""
    operation = number_of(reduction)
    op: Any
    if operation == ReduceOp.PREMUL_SUM and tensor.dtype is not torch.bool:
        op = premul_sum(reduction)
    elif tensor.dtype is torch.bool:
        tensor, op = check(tensor).view(torch.uint8), LOGICAL.get(operation)
    else:
        op = OPS.get(operation)
    if tensor.is_complex() and operation in (ReduceOp.SUM, ReduceOp.AVG):
        tensor = torch.view_as_real(tensor)
    type_ = TYPES.get(tensor.dtype)
    if op is None or type_ is None:
        raise UnsupportedError(f"the reduction {operation} of elements of {tensor.dtype} is not available: convert "
                               "the tensor, for example to torch.int32 or torch.float32")
    return Buffer.from_address(check(tensor).data_ptr(), tensor.numel(), type_, tensor), op


def in_a_row(tensors: Sequence[torch.Tensor]) -> bool:
    """Returns whether the tensors are consecutive parts of one storage."""
    end, storage = tensors[0].data_ptr(), tensors[0].untyped_storage().data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != end or tensor.untyped_storage().data_ptr() != storage:
            return False
        end += tensor.numel() * tensor.element_size()
    return all(tensor.numel() and tensor.is_contiguous() and tensor.dtype is tensors[0].dtype for tensor in tensors)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the memory of consecutive tensors as one tensor."""
    first = tensors[0].detach()
    return first.as_strided((sum(tensor.numel() for tensor in tensors),), (1,), first.storage_offset())


def flat_output(tensors: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, Finish]:
    """Returns one tensor for the blocks of `tensors`, and a function that copies blocks to tensors elsewhere."""
    for tensor in tensors:
        writable(tensor)
    sizes = [tensor.numel() for tensor in tensors]
    if in_a_row(tensors):
        return joined(tensors), None
    whole = tensors[0].new_empty(sum(sizes))

    def copy() -> None:
        for tensor, block in zip(tensors, whole.split(sizes)):
            write(tensor, block.view_as(tensor))
    return whole, copy


def flat_input(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns one tensor with the elements of several tensors. If they are consecutive, nothing is copied."""
    for tensor in tensors:
        strided(tensor)
    if in_a_row(tensors):
        return joined(tensors)
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def blocks(tensors: Sequence[torch.Tensor], like: torch.Tensor) -> List[int]:
    """Returns the count of each block, in elements of the buffer of moved()."""
    factor = 1 if like.dtype in TYPES else like.element_size()
    return [tensor.numel() * factor for tensor in tensors]


def rows(tensor: torch.Tensor, splits: Sequence[int], size: int) -> List[int]:
    """Returns the count of each rank's block of a tensor that is split along its first dimension."""
    length = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if length % size:
            raise InvalidArgument(f"Tensor's dim 0 does not divide equally across group size: {length} rows are no "
                                  f"{size} equal parts. Pass split sizes")
        splits = [length // size] * size
    if len(splits) != size or sum(splits) != length:
        raise InvalidArgument(f"Split sizes doesn't match total dim 0 size: {list(splits)} are not {size} parts of "
                              f"{length} rows")
    row = tensor.numel() // length if length else 0
    factor = 1 if tensor.dtype in TYPES else tensor.element_size()
    return [split * row * factor for split in splits]
