// SPDX-License-Identifier: Apache-2.0
// This file declares the model's shape, and the offset of each of its parameters.
//
// All parameters are one array of floats. Their gradients are another one, with the same layout. Tensors follow each
// other in the order in which the backward pass completes their gradients. So gradients are complete range by range, as
// buckets need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/failure.h"

namespace rondo::train {

inline constexpr size_t vocabulary = 256;  ///< a token is a byte

struct Shape {
  std::string name = "nano";
  size_t width = 64;
  size_t layers = 4;
  size_t heads = 4;
  size_t context = 128;  ///< tokens of a sample
  size_t experts = 0;    ///< MLPs of a layer, with a router that chooses one for each token; 0 for one MLP alone

  [[nodiscard]] size_t head_width() const { return width / heads; }
};

/// Returns the shape with that name: nano, tiny, small or gpt2.
[[nodiscard]] std::optional<Shape> find_shape(std::string_view name);
[[nodiscard]] std::string known_shapes();

/// Counts the floating-point operations of a step over one sample. A token takes 6 operations for each parameter of the
/// matrices that multiply it. For attention, it takes 12 * layers * width * context more. The formula is that of
/// appendix B of "PaLM" by Chowdhery et al., 2022. Results that are computed again (--recompute) count once.
[[nodiscard]] double sample_operations(const Shape &shape);

/// Returns what is wrong with a shape that options have made.
[[nodiscard]] Outcome check_shape(const Shape &shape);

/// One rank's part of a model that `count` ranks share: an equal part of each layer's heads and MLP. In a model with
/// experts, the ranks divide only the experts.
struct Slice {
  size_t index = 0, count = 1;
};

/// Returns what is wrong with sharing a model among `count` ranks.
[[nodiscard]] Outcome check_slices(const Shape &shape, size_t count);

/// A stage of a pipeline of `count` ranks: some neighbouring layers. The first stage also embeds tokens, and the last
/// one finds the loss. Both need the matrix of the token embedding and have a copy; the first stage updates it.
struct Stage {
  size_t index = 0, count = 1;

  [[nodiscard]] bool first() const { return index == 0; }
  [[nodiscard]] bool last() const { return index + 1 == count; }
};

/// Says what is wrong with a pipeline of `count` stages.
[[nodiscard]] Outcome check_stages(const Shape &shape, size_t count);

/// The values with which a tensor begins.
enum class Start { zeros, ones, normal };

/// A tensor, or a slice of it. The whole tensor consists of `blocks` blocks of `stride` floats. This rank has the
/// floats [begin, begin + length()) of each block, one block after another.
struct Tensor {
  std::string name;
  size_t offset = 0;   ///< in floats
  size_t count = 0;    ///< number of floats
  size_t columns = 1;  ///< columns of a matrix; 1 for a vector
  Start start = Start::zeros;
  bool of_experts = false;
  size_t blocks = 1, stride = 0, begin = 0;
  size_t number = 0;  ///< index in the whole model's layout

  [[nodiscard]] bool decays() const { return start == Start::normal; }  ///< only matrices have weight decay
  [[nodiscard]] size_t length() const { return count / blocks; }
  [[nodiscard]] size_t whole_count() const { return blocks * stride; }
  [[nodiscard]] bool split() const { return count != whole_count(); }
};

/// The indices of one layer's tensors in Layout::tensors.
struct LayerTensors {
  size_t down_weight, down_bias, up_weight, up_bias, norm2_gain, norm2_bias;
  size_t router;  ///< only with experts; each of the first four tensors then holds all own experts in turn
  size_t out_weight, out_bias, qkv_weight, qkv_bias, norm1_gain, norm1_bias;
};

inline constexpr size_t no_tensor = SIZE_MAX;  ///< index of a tensor that the stage does not have

struct Layout {
  std::vector<Tensor> tensors;      ///< in the order of the backward pass
  std::vector<LayerTensors> layers; ///< the stage's layers, from the model's input to its output
  size_t norm_gain = 0, norm_bias = 0, position = 0, token = 0;
  size_t count = 0;                 ///< number of all floats
  /// The number of floats that the stage updates; these floats come first. After them, the last stage of a pipeline has
  /// a copy of the token embedding, which the first stage sends.
  size_t trained = 0;

  [[nodiscard]] const float *in(const float *all, size_t tensor) const { return all + tensors[tensor].offset; }
  [[nodiscard]] float *in(float *all, size_t tensor) const { return all + tensors[tensor].offset; }
};

[[nodiscard]] Layout make_layout(const Shape &shape, const Slice &slice = {}, const Stage &stage = {});

/// Sets the layout.count floats of `parameters`. Matrices are drawn from a normal distribution with standard deviation
/// 0.02, gains are 1, biases 0. With the same mathematical library, the same seed gives the same numbers, and a slice
/// has its part of the whole model's numbers. Ranks receive rank 0's parameters later.
void initialise(const Layout &layout, uint64_t seed, float *parameters);

}  // namespace rondo::train
