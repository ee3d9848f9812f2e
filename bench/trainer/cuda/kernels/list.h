// SPDX-License-Identifier: Apache-2.0
// This list has every kernel of the trainer once. The image for devices, the library for emulated blocks and the names
// for the backend are made from it. Each kernel takes its struct by value.
#pragma once

#include "bench/trainer/cuda/kernels/columns.h"
#include "bench/trainer/cuda/kernels/flat.h"
#include "bench/trainer/cuda/kernels/rows.h"
#include "bench/trainer/cuda/kernels/wire.h"

/// Expands X(symbol, Kernel) for each kernel.
#define RONDO_TRAIN_KERNELS(X)                                                         \
  X(rondo_train_add_bias, ::rondo::train::cuda::AddBias)                               \
  X(rondo_train_add, ::rondo::train::cuda::Add)                                        \
  X(rondo_train_embed, ::rondo::train::cuda::Embed)                                    \
  X(rondo_train_embed_tokens_backward, ::rondo::train::cuda::EmbedTokensBackward)      \
  X(rondo_train_embed_positions_backward, ::rondo::train::cuda::EmbedPositionsBackward) \
  X(rondo_train_gelu, ::rondo::train::cuda::Gelu<::rondo::train::cuda::Float32>)       \
  X(rondo_train_gelu_bfloat16, ::rondo::train::cuda::Gelu<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_gelu_backward, ::rondo::train::cuda::GeluBackward)                     \
  X(rondo_train_adam, ::rondo::train::cuda::Adam)                                      \
  X(rondo_train_squares, ::rondo::train::cuda::Squares)                                \
  X(rondo_train_reduce_squares, ::rondo::train::cuda::ReductionSquares)                       \
  X(rondo_train_normalize, ::rondo::train::cuda::Normalize<::rondo::train::cuda::Float32>) \
  X(rondo_train_normalize_bfloat16, ::rondo::train::cuda::Normalize<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_normalize_backward, ::rondo::train::cuda::NormalizeBackward)           \
  X(rondo_train_normalize_columns, ::rondo::train::cuda::NormalizeColumns)             \
  X(rondo_train_sum_columns, ::rondo::train::cuda::SumColumns)                         \
  X(rondo_train_pack_heads, ::rondo::train::cuda::PackHeads<::rondo::train::cuda::Float32>) \
  X(rondo_train_pack_heads_bfloat16, ::rondo::train::cuda::PackHeads<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_unpack_heads, ::rondo::train::cuda::UnpackHeads<::rondo::train::cuda::Float32>) \
  X(rondo_train_unpack_heads_bfloat16, ::rondo::train::cuda::UnpackHeads<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_causal_softmax, ::rondo::train::cuda::CausalSoftmax<::rondo::train::cuda::Float32>) \
  X(rondo_train_causal_softmax_bfloat16, ::rondo::train::cuda::CausalSoftmax<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_softmax_backward, ::rondo::train::cuda::SoftmaxBackward<::rondo::train::cuda::Float32>) \
  X(rondo_train_softmax_backward_bfloat16, ::rondo::train::cuda::SoftmaxBackward<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_cross_entropy, ::rondo::train::cuda::CrossEntropy)                     \
  X(rondo_train_cross_entropy_backward, ::rondo::train::cuda::CrossEntropyBackward)    \
  X(rondo_train_narrow_bfloat16, ::rondo::train::cuda::Narrow<::rondo::train::cuda::Bfloat16>) \
  X(rondo_train_widen_bfloat16, ::rondo::train::cuda::Widen<::rondo::train::cuda::Bfloat16>)   \
  X(rondo_train_narrow_float16, ::rondo::train::cuda::Narrow<::rondo::train::cuda::Float16>)   \
  X(rondo_train_widen_float16, ::rondo::train::cuda::Widen<::rondo::train::cuda::Float16>)
