// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/cuda/cuda_compute.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/trainer/cuda/cuda_lane.h"
#include "bench/trainer/cuda/heads.h"
#include "bench/trainer/cuda/pinned.h"
#include "bench/trainer/model/shape.h"

#define RONDO_TRAIN_FUNCTION
#include "bench/trainer/cuda/kernels/list.h"

namespace rondo::train {
namespace {

using namespace cuda;

template <class Kernel>
constexpr const char *symbol_of = nullptr;
#define RONDO_TRAIN_SYMBOL(symbol, ...) \
  template <>                           \
  constexpr const char *symbol_of<__VA_ARGS__> = #symbol;
RONDO_TRAIN_KERNELS(RONDO_TRAIN_SYMBOL)

constexpr uint64_t blocks_a_multiprocessor = 8;
constexpr uint64_t thread_elements = 4;  ///< elements of a flat array for one thread
constexpr uint64_t squares_blocks = 256;
constexpr uint64_t slice_rows = 64, slices_max = 64;

class CudaCompute final : public Compute {
 public:
  CudaCompute(std::unique_ptr<Device> device, const rondo_config_t &config)
      : device_(std::move(device)), config_(config), pinned_(*device_) {}
  ~CudaCompute() override {
    (void)device_->wait_for_stream(stream_);
    for (const Scratch *const scratch : scratches())
      if (scratch->memory != nullptr) device_->release(scratch->memory);
  }
  CudaCompute(const CudaCompute &) = delete;
  CudaCompute &operator=(const CudaCompute &) = delete;

  Outcome open(const CudaSettings &settings) {
    narrows_ = settings.precision == Precision::bfloat16;
    if (auto failure = device_->make_stream(stream_)) return failure;
#define RONDO_TRAIN_FIND(symbol, ...) \
  if (auto failure = device_->find_kernel(#symbol, kernels_[#symbol])) return failure;
    RONDO_TRAIN_KERNELS(RONDO_TRAIN_FIND)
#undef RONDO_TRAIN_FIND
    const uint32_t all = device_->facts().multiprocessors, taken = settings.collective_blocks;
    if (taken > 0 && taken < all) left_multiprocessors_ = all - taken;
    return products_.open(settings.product_library, settings.precision, *device_);
  }

  const char *name() const override { return "cuda"; }
  size_t own_bytes() const override {
    size_t bytes = products_.own_bytes();
    for (const Scratch *const scratch : scratches()) bytes += scratch->bytes;
    return bytes;
  }

  Buffer allocate(size_t count) override {
    Buffer buffer;
    if (auto failure = allocate_shared(count, buffer)) buffer = nullptr;
    return buffer;
  }

  Outcome allocate_shared(size_t count, Buffer &buffer) override {
    void *memory = nullptr;
    const size_t bytes = std::max<size_t>(count, 1) * sizeof(float);
    if (auto failure = device_->allocate(bytes, memory)) return failure;
    buffer = {static_cast<float *>(memory), [this](float *end) { device_->release(end); }};
    return device_->zero(memory, bytes, stream_);
  }

  size_t attention_scratch(const Attention &all) const override {
    const size_t rows = all.batch * all.context;
    return 4 * factor_floats(rows * all.width) + 3 * rows * all.width + factor_floats(rows * all.heads * all.context);
  }

  Outcome open_lane(Group &group, std::unique_ptr<Lane> &lane) override {
    return open_cuda_lane(*device_, stream_, group, config_, lane);
  }

  void leave_room(bool beside) override { products_.set_multiprocessors(beside ? left_multiprocessors_ : 0); }

  Outcome finish() override {
    std::vector<double> values(sums_.size());
    if (!sums_.empty() && !failure_)
      note(device_->copy(values.data(), totals(), values.size() * sizeof(double), stream_));
    note(device_->wait_for_stream(stream_));
    for (size_t at = 0; at < sums_.size(); ++at) *sums_[at] = values[at];
    sums_.clear();
    return std::exchange(failure_, std::nullopt);
  }

  bool on_host() const override { return false; }
  void read(const float *from, float *to, size_t count) override {
    std::fill_n(to, count, 0.0f);
    if (failure_) return;
    note(device_->copy(to, from, count * sizeof(float), stream_));
    note(device_->wait_for_stream(stream_));
  }
  void write(const float *from, float *to, size_t count) override {
    note(device_->copy(to, from, count * sizeof(float), stream_));
    note(device_->wait_for_stream(stream_));
  }
  std::pmr::memory_resource *sample_memory() override { return &pinned_; }
  const uint8_t *take_tokens(const uint8_t *tokens, size_t count, TokenPlace place) override {
    Scratch &scratch = tokens_[static_cast<size_t>(place)];
    if (!grow(scratch, count)) return nullptr;
    note(device_->copy(scratch.memory, tokens, count, stream_));
    return static_cast<const uint8_t *>(scratch.memory);
  }

  bool narrows() const override { return narrows_; }
  Factors as_factors(const float *x, size_t count) override {
    return narrows_ ? narrow_into(factors_[2], x, count) : Factors(x);
  }
  void take_parameters(const float *parameters, size_t count) override {
    if (!narrows_) return;
    parameters_ = parameters;
    parameter_count_ = count;
    (void)narrow_into(copies_, parameters, count);
  }

  void multiply(const Product &product) override {
    ProductBatch batch{product};
    Product &one = batch.first;
    if (narrows_) {
      const size_t a_rows = one.transpose_a ? one.k : one.m, b_rows = one.transpose_b ? one.n : one.k;
      one.a = narrowed(one.a, (a_rows - 1) * one.a_stride + one.m * one.k / a_rows, factors_[0]);
      one.b = narrowed(one.b, (b_rows - 1) * one.b_stride + one.n * one.k / b_rows, factors_[1]);
    }
    multiply(batch);
  }

  void add_bias(const float *base, const float *bias, float *out, size_t rows, size_t width) override {
    launch_flat(AddBias{base, bias, out, rows * width, width}, rows * width);
  }
  void sum_rows(const float *x, float *sums, size_t rows, size_t width) override {
    const uint64_t slices = slices_of(rows);
    if (slices == 1) return launch_flat(SumColumns{x, sums, rows, width, 1}, thread_elements * width);
    if (!grow(partials_, slices * width * sizeof(float))) return;
    launch_flat(SumColumns{x, partials(), rows, width, slices}, thread_elements * slices * width);
    launch_flat(SumColumns{partials(), sums, slices, width, 1}, thread_elements * width);
  }
  void add(const float *x, float *to, size_t count) override { launch_flat(Add{x, to, count}, count); }
  void zero(float *x, size_t count) override { note(device_->zero(x, count * sizeof(float), stream_)); }

  void embed(const uint8_t *tokens, const float *token_table, const float *position_table, float *out, size_t rows,
             size_t context, size_t width) override {
    launch_flat(Embed{tokens, token_table, position_table, out, rows, context, width}, rows * width);
  }
  void embed_backward(const uint8_t *tokens, const float *gradients, float *token_gradients, float *position_gradients,
                      size_t rows, size_t context, size_t width) override {
    launch_rows(EmbedTokensBackward{tokens, gradients, token_gradients, rows, width, vocabulary}, vocabulary);
    launch_flat(EmbedPositionsBackward{gradients, position_gradients, rows, context, width},
                thread_elements * context * width);
  }

  void normalize(const float *x, const float *gain, const float *bias, const FactorsOut &out, float *means,
                 float *scales, size_t rows, size_t width) override {
    with_format(out, [&](auto format, auto *elements) {
      launch_rows(Normalize<decltype(format)>{x, gain, bias, elements, means, scales, rows, width}, rows);
    });
  }
  void normalize_backward(const float *x, const float *gain, const float *means, const float *scales,
                          const float *out_gradients, float *x_gradients, float *gain_gradients, float *bias_gradients,
                          size_t rows, size_t width) override {
    launch_rows(NormalizeBackward{x, gain, means, scales, out_gradients, x_gradients, rows, width}, rows);
    const uint64_t slices = slices_of(rows);
    if (!grow(partials_, 2 * slices * width * sizeof(float))) return;
    float *const biases = partials() + slices * width;
    launch_flat(NormalizeColumns{x, means, scales, out_gradients, partials(), biases, rows, width, slices},
                thread_elements * slices * width);
    launch_flat(SumColumns{partials(), gain_gradients, slices, width, 1}, thread_elements * width);
    launch_flat(SumColumns{biases, bias_gradients, slices, width, 1}, thread_elements * width);
  }

  void gelu(const float *x, const FactorsOut &out, size_t count) override {
    with_format(out, [&](auto format, auto *elements) {
      launch_flat(Gelu<decltype(format)>{x, elements, count}, count);
    });
  }
  void gelu_backward(const float *x, float *gradients, size_t count) override {
    launch_flat(GeluBackward{x, gradients, count}, count);
  }

  void attend(const Attention &all, const FactorsOut &out) override {
    const Heads heads(all, *this);
    const uint64_t rows = heads.count * all.context;
    pack(heads, 3, all.qkv, heads.queries);
    multiply(heads.product({false, true, all.context, all.context, heads.width}, heads.queries, heads.keys,
                           all.weights));
    with_format(all.weights, [&](auto format, auto *scores) {
      launch_rows(CausalSoftmax<decltype(format)>{scores, rows, all.context, heads.scale}, rows);
    });
    multiply(heads.product({false, false, all.context, heads.width, all.context}, all.weights, heads.values,
                           heads.output));
    unpack(heads, 1, heads.output, out);
  }

  void attend_backward(const Attention &all, const float *out_gradients, float *qkv_gradients) override {
    const Heads heads(all, *this);
    const size_t context = all.context, width = heads.width;
    const uint64_t rows = heads.count * context;
    pack(heads, 3, all.qkv, heads.queries);
    pack(heads, 1, out_gradients, heads.given);
    multiply(heads.product({true, false, context, width, context}, all.weights, heads.given, heads.value_gradients));
    multiply(heads.product({false, true, context, context, width}, heads.given, heads.values, heads.scores));
    with_format(heads.scores, [&](auto format, auto *scores) {
      const auto *const weights = static_cast<decltype(scores)>(all.weights.first);
      launch_rows(SoftmaxBackward<decltype(format)>{weights, scores, rows, context, heads.scale}, rows);
    });
    multiply(heads.product({false, false, context, width, context}, heads.scores, heads.keys, heads.query_gradients));
    multiply(heads.product({true, false, context, width, context}, heads.scores, heads.queries, heads.key_gradients));
    unpack(heads, 3, heads.query_gradients, qkv_gradients);
  }

  void cross_entropy(float *logits, const uint8_t *targets, float *losses, size_t rows) override {
    launch_rows(CrossEntropy{logits, targets, losses, rows}, rows);
  }
  void cross_entropy_backward(float *probabilities, const uint8_t *targets, float scale, size_t rows) override {
    launch_flat(CrossEntropyBackward{probabilities, targets, rows, scale}, rows * vocabulary);
  }

  void squared_norm(const float *x, size_t count, double *sum) override {
    if (sums_.size() == sums_max) note(finish());
    if (!grow(squares_, (squares_blocks + sums_max) * sizeof(double))) return;
    auto *const partial = static_cast<double *>(squares_.memory);
    const uint64_t blocks = std::min(squares_blocks, blocks_for(count, block_threads * thread_elements));
    launch(Squares{x, partial, count}, blocks);
    launch(ReductionSquares{partial, totals() + sums_.size(), blocks}, 1);
    sums_.push_back(sum);
  }

  void adam(const AdamUpdate &update) override {
    const auto steps = static_cast<double>(update.step), rate = static_cast<double>(update.learning_rate);
    const double left1 = 1.0 - std::pow(static_cast<double>(update.beta1), steps);
    const double left2 = 1.0 - std::pow(static_cast<double>(update.beta2), steps);
    launch_flat(Adam{update.parameters, update.first_moment, update.second_moment, update.gradients, update.count,
                     update.beta1, update.beta2, update.epsilon, update.gradient_scale,
                     static_cast<float>(1.0 - rate * static_cast<double>(update.decay)),
                     static_cast<float>(rate / left1), static_cast<float>(1.0 / std::sqrt(left2))},
                update.count);
  }

  void narrow(const float *from, void *to, rondo_type_t type, float scale, size_t count) override {
    auto *const elements = static_cast<uint16_t *>(to);
    if (type == RONDO_BFLOAT16) return launch_flat(Narrow<Bfloat16>{from, elements, count, scale}, count);
    launch_flat(Narrow<Float16>{from, elements, count, scale}, count);
  }
  void widen(const void *from, rondo_type_t type, float *to, float scale, size_t count) override {
    const auto *const elements = static_cast<const uint16_t *>(from);
    if (type == RONDO_BFLOAT16) return launch_flat(Widen<Bfloat16>{elements, to, count, scale}, count);
    launch_flat(Widen<Float16>{elements, to, count, scale}, count);
  }

 private:
  /// Memory that is enlarged when an operation needs more. Usually that happens only in the first step.
  struct Scratch {
    void *memory = nullptr;
    size_t bytes = 0;
  };
  static constexpr size_t sums_max = 1024;

  static HeadLayout layout_of(const Heads &heads, uint32_t parts) {
    return {heads.rows(), heads.context, parts, static_cast<uint32_t>(heads.heads), static_cast<uint32_t>(heads.width)};
  }
  void pack(const Heads &heads, uint32_t parts, const float *from, const FactorsOut &packed) {
    with_format(packed, [&](auto format, auto *elements) {
      launch_rows(PackHeads<decltype(format)>{from, elements, layout_of(heads, parts)}, heads.rows());
    });
  }
  void unpack(const Heads &heads, uint32_t parts, const float *packed, const FactorsOut &to) {
    with_format(to, [&](auto format, auto *elements) {
      launch_rows(UnpackHeads<decltype(format)>{packed, elements, layout_of(heads, parts)}, heads.rows());
    });
  }

  /// Calls visit(format, elements) with the format and the elements of `out`.
  template <class Visit>
  static void with_format(const FactorsOut &out, const Visit &visit) {
    if (out.narrow) return visit(Bfloat16{}, static_cast<Bfloat16::Element *>(out.first));
    visit(Float32{}, static_cast<Float32::Element *>(out.first));
  }

  Factors narrow_into(Scratch &scratch, const float *x, size_t count) {
    if (!grow(scratch, count * sizeof(Bfloat16::Element))) return {nullptr, true};
    narrow(x, scratch.memory, RONDO_BFLOAT16, 1.0f, count);
    return {scratch.memory, true};
  }
  /// Returns narrow factors: `factors` if they are narrow, the copies of parameters, or `count` copies in `scratch`.
  Factors narrowed(const Factors &factors, size_t count, Scratch &scratch) {
    if (factors.narrow) return factors;
    const auto *const x = static_cast<const float *>(factors.first);
    const std::less<> before;
    if (parameter_count_ == 0 || before(x, parameters_) || !before(x, parameters_ + parameter_count_))
      return narrow_into(scratch, x, count);
    return {static_cast<const Bfloat16::Element *>(copies_.memory) + (x - parameters_), true};
  }

  void note(Outcome outcome) {
    if (outcome && !failure_) failure_ = std::move(outcome);
  }
  [[nodiscard]] std::array<const Scratch *, 8> scratches() const {
    return {&partials_, &squares_, &tokens_[0], &tokens_[1], &factors_[0], &factors_[1], &factors_[2], &copies_};
  }
  float *partials() const { return static_cast<float *>(partials_.memory); }
  double *totals() const { return static_cast<double *>(squares_.memory) + squares_blocks; }

  bool grow(Scratch &scratch, size_t bytes) {
    if (scratch.bytes >= bytes) return true;
    note(device_->wait_for_stream(stream_));
    if (scratch.memory != nullptr) device_->release(scratch.memory);
    scratch = {};
    if (auto failure = device_->allocate(bytes, scratch.memory)) {
      note(std::move(failure));
      return false;
    }
    scratch.bytes = bytes;
    return true;
  }

  static uint64_t slices_of(uint64_t rows) { return std::clamp<uint64_t>(rows / slice_rows, 1, slices_max); }
  uint64_t blocks_for(uint64_t tasks, uint64_t tasks_a_block) const {
    const uint64_t most = device_->facts().multiprocessors * blocks_a_multiprocessor;
    return std::clamp<uint64_t>((tasks + tasks_a_block - 1) / tasks_a_block, 1, most);
  }

  template <class Kernel>
  void launch(const Kernel &kernel, uint64_t blocks) {
    if (failure_) return;
    const Grid grid{static_cast<uint32_t>(blocks), block_threads, shared_bytes};
    note(device_->launch(kernels_[symbol_of<Kernel>], grid, &kernel, stream_));
  }
  /// Launches a kernel in which any thread may process any element.
  template <class Kernel>
  void launch_flat(const Kernel &kernel, uint64_t elements) {
    launch(kernel, blocks_for(elements, block_threads * thread_elements));
  }
  /// Launches a kernel in which a block processes a row.
  template <class Kernel>
  void launch_rows(const Kernel &kernel, uint64_t rows) {
    launch(kernel, blocks_for(rows, 1));
  }
  void multiply(const ProductBatch &batch) {
    if (!failure_) note(products_.enqueue(batch, stream_));
  }

  std::unique_ptr<Device> device_;
  const rondo_config_t config_;
  PinnedMemory pinned_;
  void *stream_ = nullptr;
  std::unordered_map<std::string_view, void *> kernels_;
  Products products_;
  uint32_t left_multiprocessors_ = 0;  ///< multiprocessors for products beside collectives, or 0 for all
  Scratch partials_, squares_, tokens_[2];
  bool narrows_ = false;
  Scratch factors_[3];  ///< narrow copies of floats: two of factors of a product, and that of as_factors()
  Scratch copies_;      ///< narrow copies of parameter_count_ parameters
  const float *parameters_ = nullptr;
  size_t parameter_count_ = 0;
  std::vector<double *> sums_;  ///< destinations of sums that the device has not delivered yet
  Outcome failure_;             ///< the first failure since finish()
};

}  // namespace

Outcome make_cuda_compute(std::unique_ptr<Device> device, const CudaSettings &settings,
                          std::unique_ptr<Compute> &compute) {
  auto made = std::make_unique<CudaCompute>(std::move(device), settings.config);
  if (auto failure = made->open(settings)) return failure;
  compute = std::move(made);
  return std::nullopt;
}

}  // namespace rondo::train
