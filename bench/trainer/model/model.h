// SPDX-License-Identifier: Apache-2.0
// This file declares the model, a decoder-only transformer over bytes. It has embeddings, and layers of attention and
// MLP, each after a layer normalisation (pre-norm). Its output uses the matrix of the token embedding (tied).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/experts.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// Ranks that share a model. Each has a slice of every layer's heads and MLP, and their results are summed.
struct Joint {
  Slice slice;
  std::function<Buffer(size_t count)> allocate;              ///< memory for the results to sum
  std::function<void(float *values, size_t count)> add_up;  ///< sums over the ranks that share the model, on every rank
  ExpertRoads roads = {};                                   ///< communication of the experts, in a model with experts
};

class Model {
 public:
  /// The model calls this in the backward pass when the gradient of tensor `index` is complete.
  using Ready = std::function<void(size_t index)>;

  /// @param batch      samples of one pass.
  /// @param recompute  keeps only the input of each layer, and computes the other activations again in the backward
  ///                   pass. The results have the same bits. This saves memory, but costs a third more computation.
  /// @param joint      with one slice, each rank has the whole model, and nothing is added up.
  /// @param stage      the part of a pipeline; a single stage is the whole model.
  /// @param slots      forward passes that may wait for their backward passes. Each has a slot of activations.
  Model(const Shape &shape, size_t batch, Compute &compute, bool recompute = false, Joint joint = {}, Stage stage = {},
        size_t slots = 1);

  /// Returns false if memory ran out; nothing else may be called then.
  [[nodiscard]] bool allocated() const {
    return narrow_ != nullptr && last_ != nullptr && (experts_ == nullptr || experts_->allocated());
  }
  /// Returns null in a model without experts. If the experts' memory runs out in a pass, allocated() becomes false.
  [[nodiscard]] const Experts *experts() const { return experts_.get(); }
  [[nodiscard]] size_t activation_floats() const;
  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] const Layout &layout() const { return layout_; }

  // These arrays of rows() * width floats pass between stages.
  [[nodiscard]] float *input(size_t slot) const { return layers_[slot * layout_.layers.size()].input; }
  [[nodiscard]] float *output() const { return last_; }
  /// Returns the gradient of the output before backward(), and of the input after it.
  [[nodiscard]] float *flow() const { return flow_; }

  /// Computes the loss of every token. `inputs` and `targets` are batch * context bytes each in host memory, which must
  /// not change until the slot's backward pass. Stages except the first begin with input(slot). Stages except the last
  /// write output(), and return null. @return rows() losses in the backend's memory, valid until the next call.
  const float *forward(const float *parameters, const uint8_t *inputs, const uint8_t *targets, size_t slot = 0);

  /// Writes the gradients of loss_scale * (the sum of the slot's losses), tensor after tensor. All stages except the
  /// last begin with flow(). On return, flow() holds the gradient of input(slot).
  void backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready, size_t slot = 0);

 private:
  /// The results of a layer's forward pass that the backward pass needs. All except `input` may be shared with another
  /// layer.
  struct Activations {
    float *input, *means1, *scales1, *qkv, *middle, *means2, *scales2, *up;
    FactorsOut normed1, weights, attended, normed2, bent;
  };

  void place(float *memory);
  [[nodiscard]] bool shared() const { return joint_.slice.count > 1 && shape_.experts == 0; }
  [[nodiscard]] bool staged() const { return stage_.count > 1; }
  [[nodiscard]] size_t joint_floats() const;
  [[nodiscard]] const Activations &at(size_t slot, size_t layer) const {
    return layers_[slot * layout_.layers.size() + layer];
  }
  /// Writes out = base + bias + x * weight^T, without base if that is null.
  void linear(const Factors &x, const float *weight, const float *bias, const float *base, float *out, size_t in,
              size_t out_width);
  /// Writes the gradients of linear()'s weight and bias, and writes the gradient of x to x_gradients.
  void linear_backward(const Factors &x, const float *weight, const float *out_gradients, float *weight_gradients,
                       float *bias_gradients, float *x_gradients, size_t in, size_t out_width);
  /// Computes linear() if each of the ranks that share the model has some columns of x.
  void linear_joint(const Factors &x, const float *weight, const float *bias, const float *base, float *out, size_t in);
  /// Adds up, in narrow_, the gradients of the input that the ranks sharing the model have in common.
  void join_gradients();
  /// Runs a layer's forward pass up to its last product, which layer_end() computes.
  void layer_forward(const float *parameters, size_t layer, size_t slot);
  void layer_end(const float *parameters, size_t layer, size_t slot, float *out);
  void layer_backward(const float *parameters, size_t layer, size_t slot, float *gradients, const Ready &ready);
  /// Runs the backward pass of a layer's MLP or experts: from flow_ to narrow_.
  void mlp_backward(const float *parameters, size_t layer, const Activations &kept, float *gradients,
                    const Ready &ready);
  template <class Float>
  [[nodiscard]] ExpertFloats<Float> experts_of(Float *all, size_t layer) const;
  /// Computes the gradients of the parameters after the last layer, and in flow_ the gradient of that layer's output.
  void output_backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready);
  [[nodiscard]] Attention attention_of(const Activations &activations) const;

  Shape shape_;
  Joint joint_;
  Stage stage_;
  Layout layout_;
  size_t batch_, rows_;
  size_t own_heads_ = 0, own_width_ = 0;  ///< this rank's heads, and their width together
  Compute &compute_;
  bool recompute_;
  std::unique_ptr<Experts> experts_;
  size_t float_count_ = 0;
  Buffer memory_, joint_memory_;
  std::vector<Activations> layers_;  ///< activations of the stage's layers, slot after slot
  float *last_ = nullptr, *means_ = nullptr, *scales_ = nullptr;  ///< used after the last layer
  FactorsOut normed_;                                             ///< used after the last layer
  float *logits_ = nullptr, *losses_ = nullptr, *attention_scratch_ = nullptr;
  float *flow_ = nullptr, *wide_ = nullptr;  ///< gradients on their way back
  float *narrow_ = nullptr;                  ///< scratch, and sums over the ranks that share the model
  std::vector<const uint8_t *> inputs_;  ///< inputs of each slot
  const uint8_t *targets_ = nullptr;
};

}  // namespace rondo::train
