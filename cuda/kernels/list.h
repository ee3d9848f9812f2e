// SPDX-License-Identifier: Apache-2.0
// This list names the kernels that are not in mean.h, scale.h or transfer.h, for the image and for emulated blocks.
//
//     rondo_run_PROTOCOL_copy        collectives that only move data, of any type
//     rondo_run_PROTOCOL_TYPE        collectives that reduce; the operation is a parameter
//     rondo_run_one_shot_TYPE        an all-reduce by load_store and one_shot; the operation is a parameter
//     rondo_run_load_store_TYPE_OP   any other collective that reduces, by load_store
//     rondo_run_load_store_copy      a collective that only moves data, by load_store
//     rondo_run_joint_TYPE           a reduction for all ranks, in one kernel; the operation is a parameter
//     rondo_run_joint_copy           a collective that only moves data, for all ranks in one kernel
//     rondo_reduce_TYPE              a slice of a reduction, for the copy-engine executor; the operation is a parameter
// TYPE is as in rondo_type_string() and OP as in rondo_op_string(). avg runs as sum.
#pragma once

#include "cuda/kernels/joint.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/kernels/reduce.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/run.h"

#define RONDO_KERNELS_OF_TYPE(X, protocol, Protocol, type, ...) \
  X(rondo_run_##protocol##_##type, Protocol, ::rondo::device::GroupReducer<__VA_ARGS__>)

#ifdef RONDO_SAMPLE_KERNELS
/// These types suffice to check the machine code of every architecture without compiling all kernels.
#define RONDO_FOR_TYPES(EACH, X, protocol, Protocol)              \
  EACH(X, protocol, Protocol, bfloat16, ::rondo::Bfloat16Element) \
  EACH(X, protocol, Protocol, float32, ::rondo::Element<float>)
#else
#define RONDO_FOR_TYPES(EACH, X, protocol, Protocol)                   \
  EACH(X, protocol, Protocol, int8, ::rondo::Element<int8_t>)          \
  EACH(X, protocol, Protocol, uint8, ::rondo::Element<uint8_t>)        \
  EACH(X, protocol, Protocol, int32, ::rondo::Element<int32_t>)        \
  EACH(X, protocol, Protocol, uint32, ::rondo::Element<uint32_t>)      \
  EACH(X, protocol, Protocol, int64, ::rondo::Element<int64_t>)        \
  EACH(X, protocol, Protocol, uint64, ::rondo::Element<uint64_t>)      \
  EACH(X, protocol, Protocol, float16, ::rondo::Float16Element)        \
  EACH(X, protocol, Protocol, bfloat16, ::rondo::Bfloat16Element)      \
  EACH(X, protocol, Protocol, float32, ::rondo::Element<float>)        \
  EACH(X, protocol, Protocol, float64, ::rondo::Element<double>)       \
  EACH(X, protocol, Protocol, float8_e4m3, ::rondo::Float8E4m3Element) \
  EACH(X, protocol, Protocol, float8_e5m2, ::rondo::Float8E5m2Element)
#endif

#define RONDO_KERNELS_OF_PROTOCOL(X, protocol, Protocol)                 \
  X(rondo_run_##protocol##_copy, Protocol, ::rondo::device::GroupCopier) \
  RONDO_FOR_TYPES(RONDO_KERNELS_OF_TYPE, X, protocol, Protocol)

/// Expands X(name, Protocol, Reducer...) for each kernel that runs plans.
#define RONDO_KERNELS(X)                                             \
  RONDO_KERNELS_OF_PROTOCOL(X, simple, ::rondo::device::GroupSimple) \
  RONDO_KERNELS_OF_PROTOCOL(X, ll, ::rondo::device::GroupLl)

#define RONDO_RANK_REDUCTIONS_OF_TYPE(X, stem, unused, type, ...)                            \
  X(rondo_run_##stem##_##type##_sum, ::rondo::device::RankReduction<__VA_ARGS__, ::rondo::SumOp>)   \
  X(rondo_run_##stem##_##type##_prod, ::rondo::device::RankReduction<__VA_ARGS__, ::rondo::ProdOp>) \
  X(rondo_run_##stem##_##type##_min, ::rondo::device::RankReduction<__VA_ARGS__, ::rondo::MinOp>)   \
  X(rondo_run_##stem##_##type##_max, ::rondo::device::RankReduction<__VA_ARGS__, ::rondo::MaxOp>)

#define RONDO_RANK_REDUCER_OF_TYPE(X, stem, unused, type, ...) \
  X(rondo_run_##stem##_##type, ::rondo::device::RankReducer<__VA_ARGS__>)

/// Expands X(name, Reduction...) for each kernel of load_store, except kernels of one_shot.
#define RONDO_LOAD_STORE_KERNELS(X)                          \
  X(rondo_run_load_store_copy, ::rondo::device::RankCopy) \
  RONDO_FOR_TYPES(RONDO_RANK_REDUCTIONS_OF_TYPE, X, load_store, void)

/// Expands X(name, Reducer...) for each kernel of load_store by one_shot.
#define RONDO_ONE_SHOT_KERNELS(X) RONDO_FOR_TYPES(RONDO_RANK_REDUCER_OF_TYPE, X, one_shot, void)

/// Expands X(name, Reducer...) for each joint kernel.
#define RONDO_JOINT_KERNELS(X)                       \
  X(rondo_run_joint_copy, ::rondo::device::RankCopy) \
  RONDO_FOR_TYPES(RONDO_RANK_REDUCER_OF_TYPE, X, joint, void)

#define RONDO_REDUCE_OF_TYPE(X, protocol, Protocol, type, ...) \
  X(rondo_reduce_##type, ::rondo::device::GroupReducer<__VA_ARGS__>)

/// Expands X(name, Reducer...) for each kernel that reduces a slice.
#define RONDO_REDUCE_KERNELS(X) RONDO_FOR_TYPES(RONDO_REDUCE_OF_TYPE, X, reduce, void)
