// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace rondo::perf {
namespace {

// These numbers are constants of cuBLAS's interface.
constexpr int status_success = 0, transpose_none = 0, type_float32 = 0, type_bfloat16 = 14, compute_float32 = 68,
              algorithm_default = -1;

constexpr std::array<const char *, 2> usual_names{"libcublas.so.13", "libcublas.so.12"};

constexpr uint64_t seed_a = 1, seed_b = 2, seed_samples = 3;
constexpr uint32_t sample_count = 128;
constexpr size_t piece_elements = size_t{1} << 20;

/// The inputs as bfloat16, and as their values.
constexpr std::array<uint16_t, 8> input_bits{0x3f00, 0x3f80, 0x3fc0, 0x4000, 0xbf00, 0xbf80, 0xbfc0, 0xc000};
constexpr std::array<double, 8> input_values{0.5, 1, 1.5, 2, -0.5, -1, -1.5, -2};

/// Hashes with the last step of splitmix64. Each bit of the result depends on all bits of both arguments.
uint64_t hash(uint64_t seed, uint64_t number) {
  uint64_t x = number * 0x9E37'79B9'7F4A'7C15u + seed * 0xD1B5'4A32'D192'ED03u;
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

/// Returns the index of an element among the eight numbers. One hash has enough bits for sixteen elements.
size_t choice(uint64_t seed, uint64_t place) { return (hash(seed, place / 16) >> (place % 16 * 4)) & 7; }

}  // namespace

struct ProductFunctions {
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*get_version)(void *handle, int *version);
  int (*set_stream)(void *handle, void *stream);
  const char *(*status_string)(int status);
  int (*gemm)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha, const void *a,
              int type_a, int lead_a, const void *b, int type_b, int lead_b, const void *beta, void *c, int type_c,
              int lead_c, int compute_type, int algorithm);
};

ProductLibrary::ProductLibrary() = default;
ProductLibrary::~ProductLibrary() = default;

Outcome ProductLibrary::open(const std::string &path) {
  if (!library_.open(path, usual_names))
    return Failure{Exit::usage, "--beside-product needs cuBLAS, which cannot be opened: " + library_.why() +
                                    "; name one with --product-library"};
  functions_ = std::make_unique<ProductFunctions>();
  library_.find(functions_->create, "cublasCreate_v2");
  library_.find(functions_->destroy, "cublasDestroy_v2");
  library_.find(functions_->get_version, "cublasGetVersion_v2");
  library_.find(functions_->set_stream, "cublasSetStream_v2");
  library_.find(functions_->status_string, "cublasGetStatusString");
  library_.find(functions_->gemm, "cublasGemmEx");
  if (library_.missing().empty()) return std::nullopt;
  return Failure{Exit::usage, "--product-library: " + library_.path() +
                                  " does not have the interface of cuBLAS: it lacks " + library_.missing()};
}

std::string ProductLibrary::describe(int status) const {
  const char *const text = functions_->status_string(status);
  return std::string(text != nullptr ? text : "error") + " (" + std::to_string(status) + ")";
}

Product::~Product() {
  if (handle_ != nullptr) (void)library_.functions().destroy(handle_);
}

Outcome Product::check(const char *what, int status) const {
  if (status == status_success) return std::nullopt;
  return Failure{Exit::communication, library_.path() + ": " + what + ": " + library_.describe(status)};
}

Outcome Product::write_inputs(std::byte *to, uint64_t seed) {
  const uint64_t count = uint64_t{size_} * size_;
  std::vector<uint16_t> piece(std::min<uint64_t>(piece_elements, count));
  for (uint64_t first = 0; first < count; first += piece.size()) {
    const uint64_t part = std::min<uint64_t>(piece.size(), count - first);
    for (uint64_t place = 0; place < part; ++place) piece[place] = input_bits[choice(seed, first + place)];
    const auto *const bytes = reinterpret_cast<const std::byte *>(piece.data());
    if (auto failure = device_.copy_in(to + first * sizeof(uint16_t), bytes, part * sizeof(uint16_t))) return failure;
  }
  return std::nullopt;
}

Outcome Product::prepare() {
  const size_t element_count = size_t{size_} * size_;
  if (auto failure = device_.allocate(element_count * sizeof(uint16_t), a_)) return failure;
  if (auto failure = device_.allocate(element_count * sizeof(uint16_t), b_)) return failure;
  if (auto failure = device_.allocate(element_count * sizeof(float), c_)) return failure;
  if (auto failure = write_inputs(a_, seed_a)) return failure;
  if (auto failure = write_inputs(b_, seed_b)) return failure;
  if (auto failure = device_.make_current()) return failure;
  const ProductFunctions &library = library_.functions();
  if (auto failure = check("cublasCreate", library.create(&handle_))) return failure;
  int code = 0;
  if (auto failure = check("cublasGetVersion", library.get_version(handle_, &code))) return failure;
  version_ = std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  if (auto failure = check("cublasSetStream", library.set_stream(handle_, side_.stream()))) return failure;
  if (auto failure = enqueue(1)) return failure;
  return side_.wait();
}

Outcome Product::enqueue(uint32_t product_count) {
  const float one = 1, zero = 0;
  const auto size = static_cast<int>(size_);
  for (uint32_t number = 0; number < product_count; ++number) {
    const int status = library_.functions().gemm(handle_, transpose_none, transpose_none, size, size, size, &one, a_,
                                                 type_bfloat16, size, b_, type_bfloat16, size, &zero, c_, type_float32,
                                                 size, compute_float32, algorithm_default);
    if (auto failure = check("cublasGemmEx", status)) return failure;
  }
  return std::nullopt;
}

uint64_t Product::sample_place(uint32_t sample) const { return hash(seed_samples, sample) % (uint64_t{size_} * size_); }

float Product::expected(uint64_t place) const {
  const uint64_t row = place % size_, column = place / size_;
  double sum = 0;
  for (uint64_t k = 0; k < size_; ++k)
    sum += input_values[choice(seed_a, row + k * size_)] * input_values[choice(seed_b, k + column * size_)];
  return static_cast<float>(sum);
}

Outcome Product::spoil() {
  const float poison = std::numeric_limits<float>::quiet_NaN();
  for (uint32_t sample = 0; sample < sample_count; ++sample)
    if (auto failure = device_.copy_in(c_ + sample_place(sample) * sizeof poison,
                                       reinterpret_cast<const std::byte *>(&poison), sizeof poison))
      return failure;
  return std::nullopt;
}

Outcome Product::count_wrong(uint64_t &wrong) {
  wrong = 0;
  for (uint32_t sample = 0; sample < sample_count; ++sample) {
    const uint64_t place = sample_place(sample);
    float found = 0;
    if (auto failure = device_.copy_out(reinterpret_cast<std::byte *>(&found), c_ + place * sizeof found, sizeof found))
      return failure;
    wrong += found == expected(place) ? 0 : 1;  // NaN counts as wrong
  }
  return std::nullopt;
}

}  // namespace rondo::perf
