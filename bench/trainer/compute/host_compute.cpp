// SPDX-License-Identifier: Apache-2.0
// This file is the backend on host memory: oneDNN computes matrix products, and host_kernels.h has the other loops. One
// thread computes, because the other cores belong to other ranks.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/compute/host_kernels.h"
#include "bench/trainer/lanes/lane.h"
#include "bench/trainer/figures/memory.h"

// This function is from the OpenMP library that oneDNN uses. With some compilers, no header declares it.
extern "C" void omp_set_num_threads(int count);

namespace rondo::train {
namespace {

/// The number of rows of a causal matrix that are computed together. A column is left out if it is zero in all of these
/// rows.
constexpr size_t attention_rows = 64;

class HostCompute final : public Compute {
 public:
  HostCompute() {
    omp_set_num_threads(1);  // limits oneDNN in calls from this thread
    const size_t before = process_memory_bytes();
    const std::array<float, 64> a{}, b{};
    std::array<float, 64> c{};
    multiply({false, false, 8, 8, 8, a.data(), 8, b.data(), 8, c.data(), 8});  // makes oneDNN generate its code now
    const size_t after = process_memory_bytes();
    own_bytes_ = after - std::min(before, after);
  }

  const char *name() const override { return "host"; }
  size_t own_bytes() const override { return own_bytes_; }

  Buffer allocate(size_t count) override {
    constexpr size_t alignment = 64;
    const size_t bytes = (count * sizeof(float) + alignment - 1) / alignment * alignment;
    auto *const memory = static_cast<float *>(std::aligned_alloc(alignment, std::max(bytes, alignment)));
    if (memory != nullptr) std::memset(memory, 0, bytes);
    return {memory, [](float *end) { std::free(end); }};
  }

  Outcome allocate_shared(size_t count, Buffer &buffer) override { return train::allocate_shared(count, buffer); }
  size_t attention_scratch(const Attention &all) const override { return all.context * all.context; }

  Outcome open_lane(Group &group, std::unique_ptr<Lane> &lane) override { return open_host_lane(group, lane); }
  void leave_room(bool) override {}
  Outcome finish() override { return std::nullopt; }

  bool on_host() const override { return true; }
  void read(const float *from, float *to, size_t count) override { std::copy_n(from, count, to); }
  void write(const float *from, float *to, size_t count) override { std::copy_n(from, count, to); }
  std::pmr::memory_resource *sample_memory() override { return std::pmr::new_delete_resource(); }
  const uint8_t *take_tokens(const uint8_t *tokens, size_t, TokenPlace) override { return tokens; }

  bool narrows() const override { return false; }
  Factors as_factors(const float *x, size_t) override { return x; }
  void take_parameters(const float *, size_t) override {}

  void multiply(const Product &product) override {
    const auto size = [](size_t value) { return static_cast<dnnl_dim_t>(value); };
    const auto *const a = static_cast<const float *>(product.a.first);
    const auto *const b = static_cast<const float *>(product.b.first);
    (void)dnnl_sgemm(product.transpose_a ? 'T' : 'N', product.transpose_b ? 'T' : 'N', size(product.m), size(product.n),
                     size(product.k), product.scale, a, size(product.a_stride), b, size(product.b_stride), product.keep,
                     product.c.floats(), size(product.c_stride));
  }

  void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width) override {
    kernels::add_bias(base, bias, out, rows, width);
  }
  void sum_rows(const float *x, float *sums, size_t rows, size_t width) override {
    kernels::sum_rows(x, sums, rows, width);
  }
  void add(const float *x, float *to, size_t count) override { kernels::add_bias(to, x, to, 1, count); }
  void zero(float *x, size_t count) override { std::memset(x, 0, count * sizeof(float)); }

  void embed(const uint8_t *tokens, const float *token_table, const float *position_table, float *out, size_t rows,
             size_t context, size_t width) override {
    for (size_t row = 0; row < rows; ++row)
      kernels::add_bias(token_table + tokens[row] * width, position_table + row % context * width, out + row * width, 1,
                        width);
  }

  void embed_backward(const uint8_t *tokens, const float *gradients, float *token_gradients, float *position_gradients,
                      size_t rows, size_t context, size_t width) override {
    for (size_t row = 0; row < rows; ++row) {
      const float *const gradient = gradients + row * width;
      add(gradient, token_gradients + tokens[row] * width, width);
      float *const position = position_gradients + row % context * width;
      if (row < context) {
        std::copy_n(gradient, width, position);
      } else {
        add(gradient, position, width);
      }
    }
  }

  void normalize(const float *x, const float *gain, const float *bias, const FactorsOut &out, float *means,
                 float *scales, size_t rows, size_t width) override {
    kernels::normalize(x, gain, bias, out.floats(), means, scales, rows, width);
  }
  void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                          const float *out_gradients, float *x_gradients, float *gain_gradients, float *bias_gradients,
                          size_t rows, size_t width) override {
    kernels::normalize_backward(x, gain, means, scales, out_gradients, x_gradients, gain_gradients, bias_gradients,
                                rows, width);
  }

  void gelu(const float *x, const FactorsOut &out, size_t count) override { kernels::gelu(x, out.floats(), count); }
  void gelu_backward(const float *x, float *gradients, size_t count) override {
    kernels::gelu_backward(x, gradients, count);
  }

  void attend(const Attention &all, const FactorsOut &out) override {
    for (size_t index = 0; index < all.batch * all.heads; ++index) attend_head(all, head_at(all, index), out.floats());
  }
  void attend_backward(const Attention &all, const float *out_gradients, float *qkv_gradients) override {
    for (size_t index = 0; index < all.batch * all.heads; ++index)
      attend_head_backward(all, head_at(all, index), out_gradients, qkv_gradients);
  }

  void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows) override {
    kernels::cross_entropy(logits, targets, losses, rows);
  }
  void cross_entropy_backward(float *probabilities, const uint8_t *targets, float scale, size_t rows) override {
    constexpr size_t columns = 256;
    for (size_t row = 0; row < rows; ++row) probabilities[row * columns + targets[row]] -= 1.0f;
    kernels::scale(probabilities, scale, rows * columns);
  }

  void squared_norm(const float *x, size_t count, double *sum) override { *sum = kernels::squared_norm(x, count); }
  void adam(const AdamUpdate &update) override { kernels::adam(update); }

  void narrow(const float *from, void *to, rondo_type_t type, float scale, size_t count) override {
    auto *const elements = static_cast<uint16_t *>(to);
    if (type == RONDO_BFLOAT16)
      kernels::narrow_bfloat16(from, elements, scale, count);
    else
      kernels::narrow_float16(from, elements, scale, count);
  }
  void widen(const void *from, rondo_type_t type, float *to, float scale, size_t count) override {
    const auto *const elements = static_cast<const uint16_t *>(from);
    if (type == RONDO_BFLOAT16)
      kernels::widen_bfloat16(elements, to, scale, count);
    else
      kernels::widen_float16(elements, to, scale, count);
  }

 private:
  size_t own_bytes_ = 0;

  /// One head of one sample.
  struct Head {
    size_t qkv = 0;      ///< offset of its queries in qkv; its keys are `width` floats later, its values 2 * `width`
    size_t out = 0;      ///< offset of its part in the output
    float *weights = nullptr;
  };

  static Head head_at(const Attention &all, size_t index) {
    const size_t sample = index / all.heads, head = index % all.heads, head_width = all.width / all.heads;
    const size_t first_row = sample * all.context;
    return {first_row * 3 * all.width + head * head_width, first_row * all.width + head * head_width,
            all.weights.floats() + index * all.context * all.context};
  }

  static float score_scale(const Attention &all) {
    return 1.0f / std::sqrt(static_cast<float>(all.width / all.heads));
  }

  void attend_head(const Attention &all, const Head &head, float *out) {
    const size_t context = all.context, width = all.width, head_width = width / all.heads, row_floats = 3 * width;
    const float *const queries = all.qkv + head.qkv, *const keys = queries + width, *const values = keys + width;
    for (size_t first = 0; first < context; first += attention_rows) {
      const size_t rows = std::min(attention_rows, context - first), seen = first + rows;
      float *const weights = head.weights + first * context;
      multiply({false, true, rows, seen, head_width, queries + first * row_floats, row_floats, keys, row_floats,
                weights, context});
      kernels::causal_softmax(weights, first, rows, seen, context, score_scale(all));
      multiply({false, false, rows, head_width, seen, weights, context, values, row_floats,
                out + head.out + first * width, width});
    }
  }

  /// Computes the gradients of one head, beginning with the last rows. Only those rows see all tokens, so their
  /// products write the gradients of all keys and values. The products of other rows add to these gradients.
  void attend_head_backward(const Attention &all, const Head &head, const float *out_gradients, float *qkv_gradients) {
    const size_t context = all.context, width = all.width, head_width = width / all.heads, row_floats = 3 * width;
    const float *const queries = all.qkv + head.qkv, *const keys = queries + width, *const values = keys + width;
    float *const query_gradients = qkv_gradients + head.qkv;
    float *const key_gradients = query_gradients + width, *const value_gradients = key_gradients + width;
    const size_t blocks = (context + attention_rows - 1) / attention_rows;
    for (size_t block = blocks; block-- > 0;) {
      const size_t first = block * attention_rows, rows = std::min(attention_rows, context - first);
      const size_t seen = first + rows;
      const float *const weights = head.weights + first * context;
      const float *const gradients = out_gradients + head.out + first * width;
      const float keep = block + 1 == blocks ? 0.0f : 1.0f;
      multiply({true, false, seen, head_width, rows, weights, context, gradients, width, value_gradients, row_floats,
                1.0f, keep});
      multiply({false, true, rows, seen, head_width, gradients, width, values, row_floats, all.scratch, context});
      kernels::softmax_backward(weights, context, all.scratch, context, rows, seen, score_scale(all));
      multiply({false, false, rows, head_width, seen, all.scratch, context, keys, row_floats,
                query_gradients + first * row_floats, row_floats});
      multiply({true, false, seen, head_width, rows, all.scratch, context, queries + first * row_floats, row_floats,
                key_gradients, row_floats, 1.0f, keep});
    }
  }
};

}  // namespace

std::unique_ptr<Compute> make_host_compute() { return std::make_unique<HostCompute>(); }

}  // namespace rondo::train
