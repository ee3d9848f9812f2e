// SPDX-License-Identifier: Apache-2.0
// The model: a decoder-only transformer over bytes. Embeddings, layers of attention and MLP with layer normalisation
// before each (pre-norm), and an output that shares the token embedding's matrix (tied).
#pragma once

#include <functional>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// Ranks that share a model: each has a slice of every layer's heads and MLP, and what they compute is a sum over them.
struct Joint {
  Slice slice;
  std::function<Buffer(size_t count)> allocate;              ///< memory for such sums
  std::function<void(float *values, size_t count)> add_up;  ///< over the ranks that share the model, on all of them
};

class Model {
 public:
  /// The model calls this during the backward pass when tensor `index` of the layout has its gradient.
  using Ready = std::function<void(size_t index)>;

  /// @param batch      samples of one pass.
  /// @param recompute  of each layer's activations keep the input alone, and compute the others again in the backward
  ///                   pass: the same bits, with the memory of one layer, for a third more computation.
  /// @param joint      one slice: the whole model, and nothing is added up.
  Model(const Shape &shape, size_t batch, Compute &compute, bool recompute = false, Joint joint = {});

  /// Returns false if memory ran out; nothing else may be called then.
  [[nodiscard]] bool allocated() const { return narrow_ != nullptr; }
  [[nodiscard]] size_t activation_floats() const;
  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] const Layout &layout() const { return layout_; }

  /// Computes the loss of every token of `inputs` and `targets`, which are batch * context bytes of the host. @return
  /// rows() losses in the backend's memory; valid until the next call.
  const float *forward(const float *parameters, const uint8_t *inputs, const uint8_t *targets);

  /// Writes the gradients of loss_scale * (the sum of the last forward()'s losses), tensor after tensor.
  void backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready);

 private:
  /// The backward pass needs these of a layer's forward pass. All except `input` may be shared with another layer.
  struct Activations {
    float *input, *normed1, *means1, *scales1, *qkv, *weights, *attended, *middle;
    float *normed2, *means2, *scales2, *up, *bent;
  };

  void place(float *memory);
  [[nodiscard]] bool shared() const { return joint_.slice.count > 1; }
  /// Writes out = base + bias + x * weight^T, without base if that is null.
  void linear(const float *x, const float *weight, const float *bias, const float *base, float *out, size_t in,
              size_t out_width);
  /// Writes the gradients of linear()'s weight and bias, and the gradient of x into x_gradients.
  void linear_backward(const float *x, const float *weight, const float *out_gradients, float *weight_gradients,
                       float *bias_gradients, float *x_gradients, size_t in, size_t out_width);
  /// Computes linear(), where each of the ranks that share the model has some of x's columns.
  void linear_joint(const float *x, const float *weight, const float *bias, const float *base, float *out, size_t in);
  /// Joins the gradient of what all ranks that share the model began with: in narrow_, the sum of what each of them
  /// found.
  void join_gradients();
  /// Runs all of a layer but its end, which is the last product.
  void layer_forward(const float *parameters, size_t layer);
  void layer_end(const float *parameters, size_t layer, float *out);
  void layer_backward(const float *parameters, size_t layer, float *gradients, const Ready &ready);
  [[nodiscard]] Attention attention_of(const Activations &activations) const;

  Shape shape_;
  Joint joint_;
  Layout layout_;
  size_t batch_, rows_;
  size_t own_width_;  ///< of the heads that this rank has, together
  Compute &compute_;
  bool recompute_;
  size_t float_count_ = 0;
  Buffer memory_, joint_memory_;
  std::vector<Activations> layers_;
  float *last_ = nullptr, *normed_ = nullptr, *means_ = nullptr, *scales_ = nullptr;  ///< after the last layer
  float *logits_ = nullptr, *losses_ = nullptr, *attention_scratch_ = nullptr;
  float *flow_ = nullptr, *wide_ = nullptr;  ///< gradients on their way back
  float *narrow_ = nullptr;                  ///< likewise, and what ranks that share the model add up
  const uint8_t *inputs_ = nullptr, *targets_ = nullptr;
};

}  // namespace rondo::train
