// SPDX-License-Identifier: Apache-2.0
// This file declares the model, a decoder-only transformer over bytes. It has embeddings, and layers of attention and
// MLP, each after a layer normalisation (pre-norm). Its output uses the matrix of the token embedding (tied).
#pragma once

#include <functional>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// Ranks that share a model. Each has a slice of every layer's heads and MLP, and their results are summed.
struct Joint {
  Slice slice;
  std::function<Buffer(size_t count)> allocate;              ///< memory for such sums
  std::function<void(float *values, size_t count)> add_up;  ///< over the ranks that share the model, on all of them
};

class Model {
 public:
  /// The model calls this in the backward pass when the gradient of tensor `index` is complete.
  using Ready = std::function<void(size_t index)>;

  /// @param batch      samples of one pass
  /// @param recompute  keep only the input of each layer, and compute other activations again in the backward pass. The
  /// bits are the same. It needs the memory of one layer, and a third more computation.
  /// @param joint      with one slice, the model is whole and nothing is summed
  Model(const Shape &shape, size_t batch, Compute &compute, bool recompute = false, Joint joint = {});

  /// Returns false if memory ran out. Then no other function may be called.
  [[nodiscard]] bool allocated() const { return narrow_ != nullptr; }
  [[nodiscard]] size_t activation_floats() const;
  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] const Layout &layout() const { return layout_; }

  /// Computes the loss of every token. `inputs` and `targets` are batch * context bytes in host memory.
  /// @return rows() losses in the backend's memory, valid until the next call
  const float *forward(const float *parameters, const uint8_t *inputs, const uint8_t *targets);

  /// Writes the gradients of loss_scale * (the sum of the last forward()'s losses), one tensor after another.
  void backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready);

 private:
  /// The results of a layer's forward pass that the backward pass needs. All except `input` may be shared with another
  /// layer.
  struct Activations {
    float *input, *normed1, *means1, *scales1, *qkv, *weights, *attended, *middle;
    float *normed2, *means2, *scales2, *up, *bent;
  };

  void place(float *memory);
  [[nodiscard]] bool shared() const { return joint_.slice.count > 1; }
  /// Writes out = base + bias + x * weight^T. A null base counts as zero.
  void linear(const float *x, const float *weight, const float *bias, const float *base, float *out, size_t in,
              size_t out_width);
  /// Writes the gradients of linear()'s weight and bias, and writes the gradient of x to x_gradients.
  void linear_backward(const float *x, const float *weight, const float *out_gradients, float *weight_gradients,
                       float *bias_gradients, float *x_gradients, size_t in, size_t out_width);
  /// Computes linear() if each of the ranks that share the model has some columns of x.
  void linear_joint(const float *x, const float *weight, const float *bias, const float *base, float *out, size_t in);
  /// Sums, in narrow_, the gradients that the ranks sharing the model have found for their common input.
  void join_gradients();
  /// Computes a layer except its last product.
  void layer_forward(const float *parameters, size_t layer);
  void layer_end(const float *parameters, size_t layer, float *out);
  void layer_backward(const float *parameters, size_t layer, float *gradients, const Ready &ready);
  [[nodiscard]] Attention attention_of(const Activations &activations) const;

  Shape shape_;
  Joint joint_;
  Layout layout_;
  size_t batch_, rows_;
  size_t own_width_;  ///< width of all heads of this rank together
  Compute &compute_;
  bool recompute_;
  size_t float_count_ = 0;
  Buffer memory_, joint_memory_;
  std::vector<Activations> layers_;
  float *last_ = nullptr, *normed_ = nullptr, *means_ = nullptr, *scales_ = nullptr;  ///< after the last layer
  float *logits_ = nullptr, *losses_ = nullptr, *attention_scratch_ = nullptr;
  float *flow_ = nullptr, *wide_ = nullptr;  ///< gradients in the backward pass
  float *narrow_ = nullptr;                  ///< gradients, and sums over ranks that share the model
  const uint8_t *inputs_ = nullptr, *targets_ = nullptr;
};

}  // namespace rondo::train
