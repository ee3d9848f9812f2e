// SPDX-License-Identifier: Apache-2.0
// The library uses column-major order, so it computes the transposed product: c^T = op(b)^T * op(a)^T. A row-major
// matrix is its own transpose in column-major order.
#include "bench/trainer/cuda/products.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rondo::train {
namespace {

// These numbers are enumerators of cuBLASLt's interface.
constexpr int status_success = 0, type_float32 = 0, type_bfloat16 = 14;
constexpr int compute_float32 = 68, compute_fast_tf32 = 77;
constexpr int description_transpose_a = 3, description_transpose_b = 4, description_multiprocessors = 15;
constexpr int layout_batch_count = 5, layout_batch_step = 6;
constexpr int preference_workspace_bytes = 1, preference_alignment_a = 5;  // the numbers of b, c and d follow

constexpr std::array<const char *, 2> usual_names{"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr size_t workspace_bytes = size_t{32} << 20;  ///< as the library's documentation recommends for Hopper
constexpr uint32_t alignment_max = 256;

int type_of(bool narrow) { return narrow ? type_bfloat16 : type_float32; }

/// The library's method for a product; opaque.
struct Way {
  uint64_t words[8];
};
struct Found {
  Way way;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Found) == 96 && offsetof(Found, status) == 72);

/// Returns the alignment that the first matrix and all later matrices of a batch have.
uint32_t alignment_of(const Factors &factors, size_t step) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(factors.first);
  const size_t step_bytes = step * (factors.narrow ? sizeof(uint16_t) : sizeof(float));
  uint32_t alignment = alignment_max;
  while (address % alignment != 0 || step_bytes % alignment != 0) alignment /= 2;
  return alignment;
}

/// Returns a text that is equal for two products if the same method computes both.
std::string kind_of(const ProductBatch &batch, uint32_t multiprocessors) {
  const Product &first = batch.first;
  std::string kind;
  for (const size_t number :
       {size_t{first.transpose_a}, size_t{first.transpose_b}, first.m, first.n, first.k, first.a_stride, first.b_stride,
        first.c_stride, batch.count, batch.a_step, batch.b_step, batch.c_step,
        size_t{alignment_of(first.a, batch.a_step)}, size_t{alignment_of(first.b, batch.b_step)},
        size_t{alignment_of(first.c, batch.c_step)}, size_t{first.a.narrow}, size_t{first.b.narrow},
        size_t{first.c.narrow}, size_t{multiprocessors}})
    kind += std::to_string(number) + " ";
  return kind;
}

}  // namespace

struct ProductFunctions {
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  const char *(*status_string)(int status);
  int (*description_create)(void **description, int compute_type, int scale_type);
  int (*description_destroy)(void *description);
  int (*description_set)(void *description, int attribute, const void *value, size_t bytes);
  int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t lead);
  int (*layout_destroy)(void *layout);
  int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
  int (*preference_create)(void **preference);
  int (*preference_destroy)(void *preference);
  int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
  int (*choose)(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int wanted,
                Found *found, int *found_count);
  int (*multiply)(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                  void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                  const Way *way, void *workspace, size_t workspace_bytes, void *stream);
};

struct Products::Plan {
  void *description = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  Way way{};
};

void Products::PlanOwner::operator()(Plan *plan) const {
  for (void *const layout : {plan->a, plan->b, plan->c})
    if (layout != nullptr) (void)functions->layout_destroy(layout);
  if (plan->description != nullptr) (void)functions->description_destroy(plan->description);
  delete plan;
}

Products::Products() = default;

Products::~Products() {
  plans_.clear();
  if (handle_ != nullptr) (void)functions_->destroy(handle_);
  if (workspace_ != nullptr) device_->release(workspace_);
}

Outcome Products::open(const std::string &library, Precision precision, Device &device) {
  if (!library_.open(library, usual_names))
    return Failure{Exit::usage, "--device cuda needs cuBLASLt for matrix products, which cannot be opened: " +
                                    library_.why() +
                                    "; install it with the CUDA toolkit, or name it with --product-library"};
  if (auto failure = find_functions()) return failure;
  precision_ = precision;
  device_ = &device;
  if (auto failure = device.allocate(workspace_bytes, workspace_)) return failure;
  workspace_bytes_ = workspace_bytes;
  return check("cublasLtCreate", functions_->create(&handle_));
}

Outcome Products::find_functions() {
  functions_ = std::make_unique<ProductFunctions>();
  library_.find(functions_->create, "cublasLtCreate");
  library_.find(functions_->destroy, "cublasLtDestroy");
  library_.find(functions_->status_string, "cublasLtGetStatusString");
  library_.find(functions_->description_create, "cublasLtMatmulDescCreate");
  library_.find(functions_->description_destroy, "cublasLtMatmulDescDestroy");
  library_.find(functions_->description_set, "cublasLtMatmulDescSetAttribute");
  library_.find(functions_->layout_create, "cublasLtMatrixLayoutCreate");
  library_.find(functions_->layout_destroy, "cublasLtMatrixLayoutDestroy");
  library_.find(functions_->layout_set, "cublasLtMatrixLayoutSetAttribute");
  library_.find(functions_->preference_create, "cublasLtMatmulPreferenceCreate");
  library_.find(functions_->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library_.find(functions_->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library_.find(functions_->choose, "cublasLtMatmulAlgoGetHeuristic");
  library_.find(functions_->multiply, "cublasLtMatmul");
  if (library_.missing().empty()) return std::nullopt;
  return Failure{Exit::usage, "--product-library: " + library_.path() +
                                  " does not have the interface of cuBLASLt: it lacks " + library_.missing()};
}

Outcome Products::check(const char *what, int status) const {
  if (status == status_success) return std::nullopt;
  const char *const text = functions_->status_string(status);
  return Failure{Exit::communication, library_.path() + ": " + what + ": " + (text != nullptr ? text : "error") + " (" +
                                          std::to_string(status) + ")"};
}

Outcome Products::make_plan(const ProductBatch &batch, PlanHandle &plan) {
  plan = PlanHandle(new Plan, {functions_.get()});
  const Product &first = batch.first;
  const int compute_type = precision_ == Precision::tf32 ? compute_fast_tf32 : compute_float32;
  if (auto failure = check("cublasLtMatmulDescCreate",
                           functions_->description_create(&plan->description, compute_type, type_float32)))
    return failure;
  const int32_t transpose_a = first.transpose_b ? 1 : 0, transpose_b = first.transpose_a ? 1 : 0;
  for (const auto &[attribute, value] :
       {std::pair(description_transpose_a, transpose_a), std::pair(description_transpose_b, transpose_b),
        std::pair(description_multiprocessors, static_cast<int32_t>(multiprocessors_))})
    if (auto failure = check("cublasLtMatmulDescSetAttribute",
                             functions_->description_set(plan->description, attribute, &value, sizeof value)))
      return failure;
  const auto lay_out = [&](void *&layout, const Factors &factors, size_t rows, size_t columns, size_t lead,
                           size_t step) -> Outcome {
    const auto count = static_cast<int32_t>(batch.count);
    const auto apart = static_cast<int64_t>(step);
    const int status =
        functions_->layout_create(&layout, type_of(factors.narrow), rows, columns, static_cast<int64_t>(lead));
    if (auto failure = check("cublasLtMatrixLayoutCreate", status)) return failure;
    if (auto failure = check("cublasLtMatrixLayoutSetAttribute",
                             functions_->layout_set(layout, layout_batch_count, &count, sizeof count)))
      return failure;
    return check("cublasLtMatrixLayoutSetAttribute",
                 functions_->layout_set(layout, layout_batch_step, &apart, sizeof apart));
  };
  const size_t b_rows = first.transpose_b ? first.k : first.n, b_columns = first.transpose_b ? first.n : first.k;
  const size_t a_rows = first.transpose_a ? first.m : first.k, a_columns = first.transpose_a ? first.k : first.m;
  if (auto failure = lay_out(plan->a, first.b, b_rows, b_columns, first.b_stride, batch.b_step)) return failure;
  if (auto failure = lay_out(plan->b, first.a, a_rows, a_columns, first.a_stride, batch.a_step)) return failure;
  if (auto failure = lay_out(plan->c, first.c, first.n, first.m, first.c_stride, batch.c_step)) return failure;
  return choose_way(batch, *plan);
}

Outcome Products::choose_way(const ProductBatch &batch, Plan &plan) {
  const Product &first = batch.first;
  void *made = nullptr;
  if (auto failure = check("cublasLtMatmulPreferenceCreate", functions_->preference_create(&made))) return failure;
  const std::unique_ptr<void, int (*)(void *)> preference(made, functions_->preference_destroy);
  const uint64_t most = workspace_bytes_;
  if (auto failure = check("cublasLtMatmulPreferenceSetAttribute",
                           functions_->preference_set(made, preference_workspace_bytes, &most, sizeof most)))
    return failure;
  const uint32_t alignments[] = {alignment_of(first.b, batch.b_step), alignment_of(first.a, batch.a_step),
                                 alignment_of(first.c, batch.c_step), alignment_of(first.c, batch.c_step)};
  for (int at = 0; at < 4; ++at)
    if (auto failure = check("cublasLtMatmulPreferenceSetAttribute",
                             functions_->preference_set(made, preference_alignment_a + at, &alignments[at],
                                                        sizeof alignments[at])))
      return failure;
  Found found{};
  int found_count = 0;
  if (auto failure = check("cublasLtMatmulAlgoGetHeuristic",
                           functions_->choose(handle_, plan.description, plan.a, plan.b, plan.c, plan.c, made, 1,
                                              &found, &found_count)))
    return failure;
  if (found_count < 1) return check("cublasLtMatmulAlgoGetHeuristic found no algorithm", found.status);
  plan.way = found.way;
  return std::nullopt;
}

Outcome Products::enqueue(const ProductBatch &batch, void *stream) {
  PlanHandle &plan = plans_[kind_of(batch, multiprocessors_)];
  if (plan == nullptr)
    if (auto failure = make_plan(batch, plan)) {
      plan = nullptr;
      return failure;
    }
  const Product &first = batch.first;
  void *const c = first.c.first;
  const int status = functions_->multiply(handle_, plan->description, &first.scale, first.b.first, plan->a,
                                          first.a.first, plan->b, &first.keep, c, plan->c, c, plan->c, &plan->way,
                                          workspace_, workspace_bytes_, stream);
  return check("cublasLtMatmul", status);
}

}  // namespace rondo::train
