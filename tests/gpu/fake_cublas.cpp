// SPDX-License-Identifier: Apache-2.0
// This library has the few functions of cuBLAS's interface that `rondo perf --beside-product` calls, for the CUDA
// driver in software. It computes real products on the host, in the order of the given stream. FAKE_CUBLAS=wrong leaves
// C unchanged. FAKE_CUBLAS=fails refuses products. FAKE_CUBLAS=once refuses all except the first, which precedes any
// collective.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int success = 0, invalid_value = 7, execution_failed = 13, not_supported = 15;
constexpr int type_float32 = 0, type_bfloat16 = 14, compute_float32 = 68;

using HostFunction = void (*)(void *user_data);
using LaunchHostFunction = int (*)(void *stream, HostFunction function, void *user_data);

struct Handle {
  void *stream = nullptr;
  LaunchHostFunction launch = nullptr;
  uint64_t product_count = 0;
};

/// Device memory of the driver in software is also host memory.
struct Work {
  const uint16_t *a, *b;
  float *c;
  int m, n, k, lead_a, lead_b, lead_c;
};

float widen(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void multiply(void *user_data) {
  const Work &work = *static_cast<Work *>(user_data);
  for (int column = 0; column < work.n; ++column) {
    for (int row = 0; row < work.m; ++row) {
      float sum = 0;
      for (int k = 0; k < work.k; ++k)
        sum += widen(work.a[row + int64_t{k} * work.lead_a]) * widen(work.b[k + int64_t{column} * work.lead_b]);
      work.c[row + int64_t{column} * work.lead_c] = sum;
    }
  }
  delete static_cast<Work *>(user_data);
}

void leave(void *user_data) { delete static_cast<Work *>(user_data); }

std::string mode() {
  const char *const text = std::getenv("FAKE_CUBLAS");
  return text != nullptr ? text : "";
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cublasCreate_v2(Handle **handle) {
  const char *const driver = std::getenv("RONDO_CUDA_LIBRARY");
  void *const library = driver == nullptr ? nullptr : ::dlopen(driver, RTLD_NOW);
  void *const launch = library == nullptr ? nullptr : ::dlsym(library, "cuLaunchHostFunc");
  if (launch == nullptr) return not_supported;
  *handle = new Handle{nullptr, reinterpret_cast<LaunchHostFunction>(launch), 0};
  return success;
}
EXPORT int cublasDestroy_v2(Handle *handle) {
  delete handle;
  return success;
}
EXPORT int cublasGetVersion_v2(Handle *, int *version) {
  *version = 130'002;
  return success;
}
EXPORT int cublasSetStream_v2(Handle *handle, void *stream) {
  handle->stream = stream;
  return success;
}
EXPORT const char *cublasGetStatusString(int status) {
  return status == success ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_EXECUTION_FAILED";
}
EXPORT int cublasGemmEx(Handle *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                        const void *a, int type_a, int lead_a, const void *b, int type_b, int lead_b, const void *beta,
                        void *c, int type_c, int lead_c, int compute_type, int) {
  if (transpose_a != 0 || transpose_b != 0 || type_a != type_bfloat16 || type_b != type_bfloat16 ||
      type_c != type_float32 || compute_type != compute_float32 || *static_cast<const float *>(alpha) != 1 ||
      *static_cast<const float *>(beta) != 0)
    return invalid_value;
  if (mode() == "fails" || (mode() == "once" && handle->product_count != 0)) return execution_failed;
  ++handle->product_count;
  auto *const work = new Work{static_cast<const uint16_t *>(a),
                              static_cast<const uint16_t *>(b),
                              static_cast<float *>(c),
                              m,
                              n,
                              k,
                              lead_a,
                              lead_b,
                              lead_c};
  const int status = handle->launch(handle->stream, mode() == "wrong" ? leave : multiply, work);
  if (status != success) delete work;
  return status == success ? success : execution_failed;
}
