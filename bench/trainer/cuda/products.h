// SPDX-License-Identifier: Apache-2.0
// This file computes matrix products on a CUDA device by cuBLASLt. That library is opened at run time, so nothing of it
// is linked, and the few declarations of its interface are our own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/base/runtime_library.h"
#include "bench/trainer/compute/compute.h"
#include "bench/trainer/cuda/device.h"

namespace rondo::train {

/// The precision in which the factors of a product are multiplied. With bfloat16, factors are narrow. Sums are always
/// floats.
enum class Precision { float32, tf32, bfloat16 };

/// A batch of `count` products. a_step, b_step and c_step are the distances between matrices, in elements.
struct ProductBatch {
  Product first;
  size_t count = 1;
  size_t a_step = 0, b_step = 0, c_step = 0;
};

struct ProductFunctions;

class Products {
 public:
  Products();
  ~Products();
  Products(const Products &) = delete;
  Products &operator=(const Products &) = delete;

  /// @param library  a path, or empty for the usual names
  /// @param device   must outlive this object
  [[nodiscard]] Outcome open(const std::string &library, Precision precision, Device &device);

  [[nodiscard]] size_t own_bytes() const { return workspace_bytes_; }
  /// Sets the number of multiprocessors for which the library chooses methods of later products, or 0 for all.
  void set_multiprocessors(uint32_t count) { multiprocessors_ = count; }
  /// Enqueues products in the order of the stream.
  [[nodiscard]] Outcome enqueue(const ProductBatch &batch, void *stream);

 private:
  /// The library's description of products of one kind, and the method that the library chose for them.
  struct Plan;
  struct PlanOwner {
    const ProductFunctions *functions = nullptr;
    void operator()(Plan *plan) const;
  };
  using PlanHandle = std::unique_ptr<Plan, PlanOwner>;

  [[nodiscard]] Outcome find_functions();
  [[nodiscard]] Outcome check(const char *what, int status) const;
  [[nodiscard]] Outcome make_plan(const ProductBatch &batch, PlanHandle &plan);
  [[nodiscard]] Outcome choose_way(const ProductBatch &batch, Plan &plan);

  RuntimeLibrary library_;
  std::unique_ptr<ProductFunctions> functions_;
  Precision precision_ = Precision::float32;
  Device *device_ = nullptr;
  void *handle_ = nullptr;
  void *workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  uint32_t multiprocessors_ = 0;
  std::map<std::string, PlanHandle> plans_;
};

}  // namespace rondo::train
