// SPDX-License-Identifier: Apache-2.0
// This file names the methods that make gradients smaller for the wire.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rondo::train {

enum class Method {
  none,      ///< floats, all-reduced
  bfloat16,  ///< rounded to 16 bits, all-reduced
  float16,   ///< rounded to 16 bits and scaled, all-reduced
  int8,      ///< rounded to 8 bits with a scale for each block; every rank gathers the values of all ranks
  top_k,     ///< the largest values with their indices; every rank gathers the values of all ranks
  power      ///< matrices as products of two thin matrices, all-reduced (PowerSGD)
};

struct Compression {
  Method method = Method::none;
  double share = 0;      ///< top_k: which share of a bucket's gradients is sent
  size_t thin_rank = 0;  ///< power: number of columns of the thin matrices

  /// Says whether the values that a step leaves out are added to the next step's gradients (error feedback).
  [[nodiscard]] bool feeds_back() const { return method >= Method::int8; }
};

/// Reads "none", "bfloat16", "float16", "int8", "topk:SHARE", "powersgd:RANK"; also "bf16" and "fp16".
[[nodiscard]] std::optional<Compression> find_compression(std::string_view text);
[[nodiscard]] std::string known_compressions();
/// Returns the name that find_compression() reads.
[[nodiscard]] std::string name_of(const Compression &compression);

}  // namespace rondo::train
