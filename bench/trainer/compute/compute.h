// SPDX-License-Identifier: Apache-2.0
// This file declares the interface of a backend, which does the computation. The model and the optimizer use only
// these functions, so another kind of device needs one more class.
//
// Arrays are row-major floats in the backend's memory, and all row lengths are multiples of 16. Without a queue, a
// backend completes an operation before the function returns. With a queue, it only orders the operation before
// later ones; finish() waits for the queue, and reports failures. Equal operations on equal inputs give equal
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>

#include "bench/failure.h"
#include "rondo/rondo.h"

namespace rondo::train {

class Group;
class Lane;

/// An array that products read. Its elements are floats, or bfloat16 if the backend multiplies these
/// (Compute::narrows()).
struct Factors {
  Factors() = default;
  Factors(const float *floats) : first(floats) {}  // NOLINT: arrays of floats are factors as they are
  Factors(const void *elements, bool are_narrow) : first(elements), narrow(are_narrow) {}

  const void *first = nullptr;
  bool narrow = false;
};

/// Factors that an operation writes.
struct FactorsOut {
  FactorsOut() = default;
  FactorsOut(float *floats) : first(floats) {}  // NOLINT: as above
  FactorsOut(void *elements, bool are_narrow) : first(elements), narrow(are_narrow) {}
  operator Factors() const { return {first, narrow}; }  // NOLINT: what was written can be read
  [[nodiscard]] float *floats() const { return narrow ? nullptr : static_cast<float *>(first); }

  void *first = nullptr;
  bool narrow = false;
};

/// The product c = scale * op(a) * op(b) + keep * c, where c has m rows of n, and op(a) has m rows of k. A stride is
/// the distance between two rows in memory.
struct Product {
  bool transpose_a = false, transpose_b = false;
  size_t m = 0, n = 0, k = 0;
  Factors a = {};
  size_t a_stride = 0;
  Factors b = {};
  size_t b_stride = 0;
  FactorsOut c = {};
  size_t c_stride = 0;
  float scale = 1.0f, keep = 0.0f;
};

/// Causal self-attention over `batch` samples of `context` tokens. A row of qkv has the queries, keys and values of one
/// token, each of `width` floats, head after head.
struct Attention {
  size_t batch = 0, context = 0, width = 0, heads = 0;
  const float *qkv = nullptr;
  FactorsOut weights = {};   ///< batch * heads square matrices: the weight of each earlier token for each token
  float *scratch = nullptr;  ///< attention_scratch() floats, which may be used for other purposes between calls
};

/// The update of one tensor by AdamW. `step` counts from 1.
struct AdamUpdate {
  float *parameters = nullptr, *first_moment = nullptr, *second_moment = nullptr;
  const float *gradients = nullptr;
  size_t count = 0;
  float gradient_scale = 1.0f;  ///< factor that limits the gradients' norm
  float learning_rate = 0.0f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0.0f;
  uint64_t step = 1;
};

/// The two arrays of tokens that a model uses at the same time.
enum class TokenPlace : size_t { inputs, targets };

/// Memory of a backend.
using Buffer = std::unique_ptr<float, std::function<void(float *)>>;

class Compute {
 public:
  virtual ~Compute() = default;

  [[nodiscard]] virtual const char *name() const = 0;
  /// Returns how many bytes the backend uses for itself, for instance for code that it generated.
  [[nodiscard]] virtual size_t own_bytes() const = 0;

  /// Allocates zeroed memory. Returns null if no memory is left.
  [[nodiscard]] virtual Buffer allocate(size_t count) = 0;
  /// Allocates memory that collectives read and write.
  [[nodiscard]] virtual Outcome allocate_shared(size_t count, Buffer &buffer) = 0;
  /// Returns the number of floats that Attention::scratch must have, from the four sizes of `attention`.
  [[nodiscard]] virtual size_t attention_scratch(const Attention &attention) const = 0;

  /// Opens a lane, which runs collectives beside the backend's operations. All ranks of the group call it together.
  [[nodiscard]] virtual Outcome open_lane(Group &group, std::unique_ptr<Lane> &lane) = 0;
  /// Says whether collectives run beside the next operations. Products are then planned for the multiprocessors that
  /// the collectives' blocks leave.
  virtual void leave_room(bool beside) = 0;
  /// Waits until all operations are complete.
  /// @return the first failure since the previous finish()
  [[nodiscard]] virtual Outcome finish() = 0;

  // The next functions move data between host memory and the backend's memory. host_view.h helps to use them.
  [[nodiscard]] virtual bool on_host() const = 0;  ///< whether the backend's memory is host memory
  /// Copies, and returns when the copy is complete. If an earlier operation failed, read() gives zeros, and finish()
  /// reports the failure.
  virtual void read(const float *from, float *to, size_t count) = 0;
  virtual void write(const float *from, float *to, size_t count) = 0;
  /// Returns the allocator of host memory for samples, from which take_tokens() is quick.
  [[nodiscard]] virtual std::pmr::memory_resource *sample_memory() = 0;
  /// Makes tokens in host memory available to operations, and returns the address that operations must use. The address
  /// and the tokens must stay valid until the next call with the same `place`.
  [[nodiscard]] virtual const uint8_t *take_tokens(const uint8_t *tokens, size_t count, TokenPlace place) = 0;

  /// Says whether factors are narrow, so that they take half of the memory.
  [[nodiscard]] virtual bool narrows() const = 0;
  /// Returns the number of floats that take as much memory as `count` factors.
  [[nodiscard]] size_t factor_floats(size_t count) const { return narrows() ? (count + 1) / 2 : count; }
  /// Returns `x` as factors, which are valid until the next call.
  [[nodiscard]] virtual Factors as_factors(const float *x, size_t count) = 0;
  /// Makes narrow copies of parameters, from which products read until the next call. Call it after each change.
  virtual void take_parameters(const float *parameters, size_t count) = 0;

  virtual void multiply(const Product &product) = 0;

  /// Writes out[r] = base[r] + bias for each row, or only the bias if base is null. base may be equal to out.
  virtual void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width) = 0;
  /// Writes sums[j] = the sum of x[r][j] over all rows r, which is the gradient of a bias.
  virtual void sum_rows(const float *x, float *sums, size_t rows, size_t width) = 0;
  virtual void add(const float *x, float *to, size_t count) = 0;
  virtual void zero(float *x, size_t count) = 0;

  /// Writes out[r] = token_table[tokens[r]] + position_table[r % context].
  virtual void embed(const uint8_t *tokens, const float *token_table, const float *position_table, float *out,
                     size_t rows, size_t context, size_t width) = 0;
  /// Writes position_gradients, and adds to token_gradients.
  virtual void embed_backward(const uint8_t *tokens, const float *gradients, float *token_gradients,
                              float *position_gradients, size_t rows, size_t context, size_t width) = 0;

  /// Computes the layer normalisation of each row. It stores means and scales (1 / deviation) for the backward pass.
  virtual void normalize(const float *x, const float *gain, const float *bias, const FactorsOut &out, float *means,
                         float *scales, size_t rows, size_t width) = 0;
  /// Adds to x_gradients, and writes gain_gradients and bias_gradients.
  virtual void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                                  const float *out_gradients, float *x_gradients, float *gain_gradients,
                                  float *bias_gradients, size_t rows, size_t width) = 0;

  /// Computes the tanh form of GELU.
  virtual void gelu(const float *x, const FactorsOut &out, size_t count) = 0;
  /// Replaces gradients of the output by gradients of the input.
  virtual void gelu_backward(const float *x, float *gradients, size_t count) = 0;

  virtual void attend(const Attention &attention, const FactorsOut &out) = 0;
  /// Writes qkv_gradients from out_gradients and the weights that attend() left.
  virtual void attend_backward(const Attention &attention, const float *out_gradients, float *qkv_gradients) = 0;

  /// Writes losses[r] = -log of the probability of targets[r] in softmax(logits[r]). It replaces logits by
  /// probabilities.
  virtual void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows) = 0;
  /// Replaces probabilities by scale * the gradients of the losses with respect to the logits.
  virtual void cross_entropy_backward(float *probabilities, const uint8_t *targets, float scale, size_t rows) = 0;

  /// Sets *sum to the sum of the squares of x. The sum is valid once finish() has returned. It is not finite if an
  /// element is not finite.
  virtual void squared_norm(const float *x, size_t count, double *sum) = 0;
  virtual void adam(const AdamUpdate &update) = 0;

  /// Converts for the wire: to[i] = scale * from[i], rounded to nearest, as RONDO_BFLOAT16 or RONDO_FLOAT16.
  virtual void narrow(const float *from, void *to, rondo_type_t type, float scale, size_t count) = 0;
  /// Converts back: to[i] = scale * from[i].
  virtual void widen(const void *from, rondo_type_t type, float *to, float scale, size_t count) = 0;
};

/// Makes the backend on host memory. oneDNN computes matrix products on one thread; other loops are vectorised here.
[[nodiscard]] std::unique_ptr<Compute> make_host_compute();

}  // namespace rondo::train
