// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/model/model.h"

#include <utility>

namespace rondo::train {
namespace {

/// Divides memory among arrays. Without memory it only counts floats, so the same calls also find the size to allocate.
class Dealer {
 public:
  explicit Dealer(float *memory) : memory_(memory) {}

  float *take(size_t count) {
    constexpr size_t line_floats = 16;
    float *const taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + line_floats - 1) / line_floats * line_floats;
    return taken;
  }
  [[nodiscard]] size_t used() const { return used_; }

 private:
  float *memory_;
  size_t used_ = 0;
};

}  // namespace

Model::Model(const Shape &shape, size_t batch, Compute &compute, bool recompute, Joint joint, Stage stage,
             size_t slots)
    : shape_(shape), joint_(std::move(joint)), stage_(stage), layout_(make_layout(shape, joint_.slice, stage)),
      batch_(batch), rows_(batch * shape.context), compute_(compute), recompute_(recompute), inputs_(slots) {
  own_width_ = shared() ? shape.width / joint_.slice.count : shape.width;
  own_heads_ = shared() ? shape.heads / joint_.slice.count : shape.heads;
  if (shape.experts > 0) experts_ = std::make_unique<Experts>(shape, rows_, compute, joint_.roads);
  layers_.resize(layout_.layers.size() * slots);
  place(nullptr);
  memory_ = compute.allocate(float_count_);
  if (memory_ == nullptr) return;
  place(memory_.get());
  if (joint_floats() == 0) return;
  joint_memory_ = joint_.allocate(joint_floats());
  float *const joint_memory = joint_memory_.get();
  if (shared()) narrow_ = joint_memory;
  if (!staged() || joint_memory == nullptr) return;
  last_ = joint_memory;
  flow_ = joint_memory + rows_ * shape.width;
}

void Model::place(float *memory) {
  Dealer deal(memory);
  const auto factors = [&](size_t count) {
    return FactorsOut{deal.take(compute_.factor_floats(count)), compute_.narrows()};
  };
  const size_t row_floats = rows_ * shape_.width, own_floats = rows_ * own_width_;
  for (size_t index = 0; index < layers_.size(); ++index) {
    Activations &layer = layers_[index];
    if (recompute_ && index > 0) layer = layers_[0];
    layer.input = deal.take(row_floats);
    if (recompute_ && index > 0) continue;
    layer.normed1 = factors(row_floats);
    layer.means1 = deal.take(rows_);
    layer.scales1 = deal.take(rows_);
    layer.qkv = deal.take(3 * own_floats);
    layer.weights = factors(batch_ * own_heads_ * shape_.context * shape_.context);
    layer.attended = factors(own_floats);
    layer.middle = deal.take(row_floats);
    layer.normed2 = factors(row_floats);
    layer.means2 = deal.take(rows_);
    layer.scales2 = deal.take(rows_);
    if (shape_.experts > 0) continue;  // the experts keep what they need
    layer.up = deal.take(4 * own_floats);
    layer.bent = factors(4 * own_floats);
  }
  if (!staged()) {  // otherwise peers read and write these arrays
    last_ = deal.take(row_floats);
    flow_ = deal.take(row_floats);
  }
  if (stage_.last()) {
    normed_ = factors(row_floats);
    means_ = deal.take(rows_);
    scales_ = deal.take(rows_);
    logits_ = deal.take(rows_ * vocabulary);
    losses_ = deal.take(rows_);
  }
  attention_scratch_ = deal.take(compute_.attention_scratch(attention_of({})));
  wide_ = deal.take(4 * own_floats);
  if (!shared()) narrow_ = deal.take(row_floats);
  float_count_ = deal.used();
}

size_t Model::joint_floats() const {
  if (staged()) return 2 * rows_ * shape_.width;
  return shared() ? rows_ * shape_.width : 0;
}

size_t Model::activation_floats() const {
  return float_count_ + joint_floats() + (experts_ == nullptr ? 0 : experts_->float_count());
}

void Model::linear(const Factors &x, const float *weight, const float *bias, const float *base, float *out, size_t in,
                   size_t out_width) {
  compute_.add_bias(base, bias, out, rows_, out_width);
  compute_.multiply({false, true, rows_, out_width, in, x, in, weight, in, out, out_width, 1.0f, 1.0f});
}

void Model::linear_backward(const Factors &x, const float *weight, const float *out_gradients, float *weight_gradients,
                            float *bias_gradients, float *x_gradients, size_t in, size_t out_width) {
  const Factors given = compute_.as_factors(out_gradients, rows_ * out_width);
  compute_.multiply({true, false, out_width, in, rows_, given, out_width, x, in, weight_gradients, in});
  compute_.sum_rows(out_gradients, bias_gradients, rows_, out_width);
  compute_.multiply({false, false, rows_, in, out_width, given, out_width, weight, in, x_gradients, in});
}

void Model::linear_joint(const Factors &x, const float *weight, const float *bias, const float *base, float *out,
                         size_t in) {
  const size_t width = shape_.width;
  if (!shared()) return linear(x, weight, bias, base, out, in, width);
  compute_.multiply({false, true, rows_, width, in, x, in, weight, in, narrow_, width});
  joint_.add_up(narrow_, rows_ * width);
  compute_.add_bias(base, bias, out, rows_, width);
  compute_.add(narrow_, out, rows_ * width);
}

void Model::join_gradients() {
  if (shared()) joint_.add_up(narrow_, rows_ * shape_.width);
}

Attention Model::attention_of(const Activations &activations) const {
  return {batch_, shape_.context, own_width_, own_heads_, activations.qkv, activations.weights,
          attention_scratch_};
}

template <class Float>
ExpertFloats<Float> Model::experts_of(Float *all, size_t layer) const {
  const LayerTensors &tensors = layout_.layers[layer];
  return {layout_.in(all, tensors.router), layout_.in(all, tensors.up_weight), layout_.in(all, tensors.up_bias),
          layout_.in(all, tensors.down_weight), layout_.in(all, tensors.down_bias)};
}

void Model::layer_forward(const float *parameters, size_t layer, size_t slot) {
  const auto parameter = [&](size_t tensor) { return layout_.in(parameters, tensor); };
  const LayerTensors &tensors = layout_.layers[layer];
  const Activations &kept = at(slot, layer);
  const size_t width = shape_.width, own = own_width_;
  compute_.normalize(kept.input, parameter(tensors.norm1_gain), parameter(tensors.norm1_bias), kept.normed1,
                     kept.means1, kept.scales1, rows_, width);
  linear(kept.normed1, parameter(tensors.qkv_weight), parameter(tensors.qkv_bias), nullptr, kept.qkv, width, 3 * own);
  compute_.attend(attention_of(kept), kept.attended);
  linear_joint(kept.attended, parameter(tensors.out_weight), parameter(tensors.out_bias), kept.input, kept.middle, own);
  compute_.normalize(kept.middle, parameter(tensors.norm2_gain), parameter(tensors.norm2_bias), kept.normed2,
                     kept.means2, kept.scales2, rows_, width);
  if (experts_ != nullptr) return;
  linear(kept.normed2, parameter(tensors.up_weight), parameter(tensors.up_bias), nullptr, kept.up, width, 4 * own);
  compute_.gelu(kept.up, kept.bent, rows_ * 4 * own);
}

void Model::layer_end(const float *parameters, size_t layer, size_t slot, float *out) {
  const LayerTensors &tensors = layout_.layers[layer];
  const Activations &kept = at(slot, layer);
  if (experts_ != nullptr)
    return experts_->forward(layer, experts_of(parameters, layer), kept.normed2.floats(), kept.middle, out);
  linear_joint(kept.bent, layout_.in(parameters, tensors.down_weight), layout_.in(parameters, tensors.down_bias),
               kept.middle, out, 4 * own_width_);
}

const float *Model::forward(const float *parameters, const uint8_t *inputs, const uint8_t *targets, size_t slot) {
  const auto parameter = [&](size_t tensor) { return layout_.in(parameters, tensor); };
  const size_t layers = layout_.layers.size();
  if (stage_.first()) {
    inputs_[slot] = compute_.take_tokens(inputs, rows_, TokenPlace::inputs);
    compute_.embed(inputs_[slot], parameter(layout_.token), parameter(layout_.position), input(slot), rows_,
                   shape_.context, shape_.width);
  }
  if (stage_.last()) targets_ = compute_.take_tokens(targets, rows_, TokenPlace::targets);
  for (size_t layer = 0; layer < layers; ++layer) {
    layer_forward(parameters, layer, slot);
    layer_end(parameters, layer, slot, layer + 1 < layers ? at(slot, layer + 1).input : last_);
  }
  if (!stage_.last()) return nullptr;
  compute_.normalize(last_, parameter(layout_.norm_gain), parameter(layout_.norm_bias), normed_, means_, scales_, rows_,
                     shape_.width);
  compute_.multiply({false, true, rows_, vocabulary, shape_.width, normed_, shape_.width, parameter(layout_.token),
                     shape_.width, logits_, vocabulary});
  compute_.cross_entropy(logits_, targets_, losses_, rows_);
  return losses_;
}

void Model::mlp_backward(const float *parameters, size_t layer, const Activations &kept, float *gradients,
                         const Ready &ready) {
  const auto parameter = [&](size_t tensor) { return layout_.in(parameters, tensor); };
  const auto gradient = [&](size_t tensor) { return layout_.in(gradients, tensor); };
  const LayerTensors &tensors = layout_.layers[layer];
  const size_t width = shape_.width, own = own_width_;
  if (experts_ != nullptr) {
    experts_->backward(layer, experts_of(parameters, layer), kept.normed2.floats(), flow_,
                       experts_of(gradients, layer), narrow_);
    for (const size_t tensor :
         {tensors.down_weight, tensors.down_bias, tensors.up_weight, tensors.up_bias, tensors.router})
      ready(tensor);
    return;
  }
  linear_backward(kept.bent, parameter(tensors.down_weight), flow_, gradient(tensors.down_weight),
                  gradient(tensors.down_bias), wide_, 4 * own, width);
  ready(tensors.down_weight);
  ready(tensors.down_bias);
  compute_.gelu_backward(kept.up, wide_, rows_ * 4 * own);
  linear_backward(kept.normed2, parameter(tensors.up_weight), wide_, gradient(tensors.up_weight),
                  gradient(tensors.up_bias), narrow_, width, 4 * own);
  join_gradients();
  ready(tensors.up_weight);
  ready(tensors.up_bias);
}

/// Runs a layer's backward pass. flow_ holds the gradient of the layer's output on entry, and of its input on return.
/// Both residual connections pass flow_ on unchanged, so the gradients of the branches are added to it.
void Model::layer_backward(const float *parameters, size_t layer, size_t slot, float *gradients,
                           const Ready &ready) {
  const auto parameter = [&](size_t tensor) { return layout_.in(parameters, tensor); };
  const auto gradient = [&](size_t tensor) { return layout_.in(gradients, tensor); };
  const auto done = [&](size_t first, size_t second) {
    ready(first);
    ready(second);
  };
  const LayerTensors &tensors = layout_.layers[layer];
  const Activations &kept = at(slot, layer);
  const size_t width = shape_.width, own = own_width_;
  mlp_backward(parameters, layer, kept, gradients, ready);
  compute_.normalize_backward(kept.middle, parameter(tensors.norm2_gain), kept.means2, kept.scales2, narrow_, flow_,
                              gradient(tensors.norm2_gain), gradient(tensors.norm2_bias), rows_, width);
  done(tensors.norm2_gain, tensors.norm2_bias);
  linear_backward(kept.attended, parameter(tensors.out_weight), flow_, gradient(tensors.out_weight),
                  gradient(tensors.out_bias), narrow_, own, width);
  done(tensors.out_weight, tensors.out_bias);
  compute_.attend_backward(attention_of(kept), narrow_, wide_);
  linear_backward(kept.normed1, parameter(tensors.qkv_weight), wide_, gradient(tensors.qkv_weight),
                  gradient(tensors.qkv_bias), narrow_, width, 3 * own);
  join_gradients();
  done(tensors.qkv_weight, tensors.qkv_bias);
  compute_.normalize_backward(kept.input, parameter(tensors.norm1_gain), kept.means1, kept.scales1, narrow_, flow_,
                              gradient(tensors.norm1_gain), gradient(tensors.norm1_bias), rows_, width);
  done(tensors.norm1_gain, tensors.norm1_bias);
}

void Model::output_backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready) {
  const size_t width = shape_.width;
  const float *const tokens = layout_.in(parameters, layout_.token);
  float *const token_gradients = layout_.in(gradients, layout_.token);
  compute_.cross_entropy_backward(logits_, targets_, loss_scale, rows_);
  const Factors given = compute_.as_factors(logits_, rows_ * vocabulary);
  compute_.multiply({true, false, vocabulary, width, rows_, given, vocabulary, normed_, width, token_gradients,
                     width});
  compute_.multiply({false, false, rows_, width, vocabulary, given, vocabulary, tokens, width, narrow_, width});
  compute_.zero(flow_, rows_ * width);
  compute_.normalize_backward(last_, layout_.in(parameters, layout_.norm_gain), means_, scales_, narrow_, flow_,
                              layout_.in(gradients, layout_.norm_gain), layout_.in(gradients, layout_.norm_bias), rows_,
                              width);
  ready(layout_.norm_gain);
  ready(layout_.norm_bias);
}

void Model::backward(const float *parameters, float loss_scale, float *gradients, const Ready &ready, size_t slot) {
  const size_t width = shape_.width, layers = layout_.layers.size(), slots = inputs_.size();
  if (stage_.last()) output_backward(parameters, loss_scale, gradients, ready);
  for (size_t layer = layers; layer-- > 0;) {
    const bool there = slots == 1 && layer + 1 == layers;  // its activations were not overwritten
    if (recompute_ && !there) layer_forward(parameters, layer, slot);
    layer_backward(parameters, layer, slot, gradients, ready);
  }
  if (stage_.first()) {
    float *const token_gradients = layout_.in(gradients, layout_.token);
    if (!stage_.last()) compute_.zero(token_gradients, vocabulary * width);
    compute_.embed_backward(inputs_[slot], flow_, token_gradients, layout_.in(gradients, layout_.position), rows_,
                            shape_.context, width);
    ready(layout_.position);
  }
  if (stage_.first() || stage_.last()) ready(layout_.token);
}

}  // namespace rondo::train
