// SPDX-License-Identifier: Apache-2.0
// This file runs a large matrix product beside the collectives (--beside-product). A library with the interface of
// cuBLAS computes the product. This file declares only those functions of the interface that it calls.
//
// The product is C = A B. All matrices are N x N; A and B are bfloat16, and C is float32. The inputs are drawn from
// eight numbers whose products are multiples of 1/4, at most 4. So every sum is exact in float32 in any order, and
// elements of C are compared bit for bit with the host's results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/failure.h"
#include "bench/perf/device.h"
#include "src/base/runtime_library.h"

namespace rondo::perf {

inline constexpr uint32_t product_size_min = 16;
inline constexpr uint32_t product_size_max = 32'768;  ///< sums stay exact up to 2^20

struct ProductFunctions;

/// The library. It stays open until the process ends.
class ProductLibrary {
 public:
  ProductLibrary();
  ~ProductLibrary();
  /// Opens the library. Exit::usage: it does not exist, or lacks a function. The message says what to do.
  /// @param path  if empty, the first cuBLAS that the dynamic linker finds
  [[nodiscard]] Outcome open(const std::string &path);
  [[nodiscard]] const ProductFunctions &functions() const { return *functions_; }
  [[nodiscard]] const std::string &path() const { return library_.path(); }
  /// Returns text such as "CUBLAS_STATUS_EXECUTION_FAILED (13)".
  [[nodiscard]] std::string describe(int status) const;

 private:
  RuntimeLibrary library_;
  std::unique_ptr<ProductFunctions> functions_;
};

/// The product on one device, which is repeated. One rank's thread uses it.
class Product {
 public:
  /// Keeps references to its arguments, which must outlive it.
  Product(const ProductLibrary &library, Device &device, SideStream &side, uint32_t size)
      : library_(library), device_(device), side_(side), size_(size) {}
  Product(const Product &) = delete;
  Product &operator=(const Product &) = delete;
  ~Product();

  /// Allocates memory, writes the inputs and makes one product, so that later products load and allocate nothing. It
  /// waits for the device, so no collective may be in flight.
  [[nodiscard]] Outcome prepare();
  [[nodiscard]] Outcome enqueue(uint32_t product_count);
  /// Spoils the elements that count_wrong() checks. Both functions wait.
  [[nodiscard]] Outcome spoil();
  [[nodiscard]] Outcome count_wrong(uint64_t &wrong);
  /// Returns e.g. "13.0.2".
  [[nodiscard]] const std::string &version() const { return version_; }

 private:
  [[nodiscard]] Outcome check(const char *what, int status) const;
  [[nodiscard]] Outcome write_inputs(std::byte *to, uint64_t seed);
  [[nodiscard]] uint64_t sample_place(uint32_t sample) const;
  [[nodiscard]] float expected(uint64_t place) const;

  const ProductLibrary &library_;
  Device &device_;
  SideStream &side_;
  uint32_t size_;
  void *handle_ = nullptr;
  std::string version_;
  std::byte *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;  ///< in device memory; column by column
};

}  // namespace rondo::perf
