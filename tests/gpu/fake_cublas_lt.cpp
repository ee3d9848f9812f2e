// SPDX-License-Identifier: Apache-2.0
// This library has the few functions of cuBLASLt's interface that `rondo train --device cuda` calls, for the CUDA
// driver in software. It computes real products on the host, in the order of the stream. It refuses options that the
// trainer does not use, and pointers that break a promised alignment. FAKE_CUBLAS_LT=fails refuses products.
// FAKE_CUBLAS_LT_LOG names a file to which each batch of products adds a line. The line has the number of products, the
// multiprocessors that they may use (0 for all), and the types of factors and results.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr int success = 0, invalid_value = 7, execution_failed = 13, not_supported = 15;
constexpr int compute_float32 = 68, compute_fast_tf32 = 77;
constexpr int type_float32 = 0, type_bfloat16 = 14;
constexpr int transpose_a_attribute = 3, transpose_b_attribute = 4, multiprocessors_attribute = 15;
constexpr int batch_count_attribute = 5, batch_step_attribute = 6;
constexpr int workspace_attribute = 1, alignment_attribute = 5;

using LaunchHostFunction = int (*)(void *stream, void (*function)(void *), void *user_data);

struct Handle {
  LaunchHostFunction launch = nullptr;
};
struct Description {
  int compute_type = 0;
  int32_t transpose_a = 0, transpose_b = 0, multiprocessors = 0;
};
struct Layout {
  int type = type_float32;
  int64_t rows = 0, columns = 0, lead = 0;
  int32_t count = 1;
  int64_t step = 0;
};
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of a, b, c and d; the documented defaults
};
/// The opaque words of an algorithm, as this library uses them.
struct Way {
  uint64_t mark;
  uint32_t alignments[4];
  uint64_t rest[5];
};
static_assert(sizeof(Way) == 64);
constexpr uint64_t way_mark = 0x52'4f'4e'44'4f;
struct Found {
  Way way;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

struct Work {
  Description description;
  Layout a_layout, b_layout, c_layout;
  const std::byte *a, *b;
  std::byte *c;
  float alpha, beta;
};

int64_t size_of(const Layout &layout) { return layout.type == type_bfloat16 ? 2 : 4; }

/// Rounds a float to nearest, ties to even, so that its last `dropped` bits are 0.
float rounded(float value, int dropped) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1u);
  bits &= ~0u << dropped;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// Reads an element. A bfloat16 is a float's upper half.
float load(const std::byte *matrix, const Layout &layout, int64_t at) {
  float value = 0;
  auto *const bytes = reinterpret_cast<std::byte *>(&value) + sizeof value - static_cast<size_t>(size_of(layout));
  std::memcpy(bytes, matrix + at * size_of(layout), static_cast<size_t>(size_of(layout)));
  return value;
}

void store(std::byte *matrix, const Layout &layout, int64_t at, float value) {
  if (layout.type == type_bfloat16) value = rounded(value, 16);
  const auto *const bytes = reinterpret_cast<const std::byte *>(&value) + sizeof value -
                            static_cast<size_t>(size_of(layout));
  std::memcpy(matrix + at * size_of(layout), bytes, static_cast<size_t>(size_of(layout)));
}

/// Returns op(x), column after column, of `rows` rows.
std::vector<float> operand(const std::byte *x, const Layout &layout, bool transpose, int compute_type) {
  const int64_t rows = transpose ? layout.columns : layout.rows, columns = transpose ? layout.rows : layout.columns;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) {
      const float value = load(x, layout, transpose ? column + row * layout.lead : row + column * layout.lead);
      values[static_cast<size_t>(column * rows + row)] =
          compute_type == compute_fast_tf32 ? rounded(value, 13) : value;
    }
  return values;
}

void multiply_one(const Work &work, int64_t number) {
  const bool transpose_a = work.description.transpose_a != 0, transpose_b = work.description.transpose_b != 0;
  const auto matrix = [number](auto *first, const Layout &layout) {
    return first + number * layout.step * size_of(layout);
  };
  const auto a = operand(matrix(work.a, work.a_layout), work.a_layout, transpose_a, work.description.compute_type);
  const auto b = operand(matrix(work.b, work.b_layout), work.b_layout, transpose_b, work.description.compute_type);
  const int64_t m = work.c_layout.rows, n = work.c_layout.columns, k = static_cast<int64_t>(a.size()) / m;
  std::byte *const c = matrix(work.c, work.c_layout);
  std::vector<float> sums(static_cast<size_t>(m));
  for (int64_t column = 0; column < n; ++column) {
    sums.assign(static_cast<size_t>(m), 0.0f);
    for (int64_t inner = 0; inner < k; ++inner) {
      const float factor = b[static_cast<size_t>(column * k + inner)];
      const float *const from = a.data() + inner * m;
      for (size_t row = 0; row < static_cast<size_t>(m); ++row) sums[row] += factor * from[row];
    }
    for (int64_t row = 0; row < m; ++row) {
      const int64_t at = column * work.c_layout.lead + row;
      const float kept = work.beta == 0 ? 0.0f : work.beta * load(c, work.c_layout, at);
      store(c, work.c_layout, at, work.alpha * sums[static_cast<size_t>(row)] + kept);
    }
  }
}

/// The work that streams still have to do. The work of a failed stream stays here.
struct Pending {
  std::mutex mutex;
  std::unordered_map<void *, std::unique_ptr<Work>> works;

  std::unique_ptr<Work> take(void *work) {
    const std::lock_guard lock(mutex);
    return std::move(works.extract(work).mapped());
  }
};

Pending &pending() {
  static Pending *const all = new Pending;  // never destroyed: streams may outlive static objects
  return *all;
}

void multiply(void *user_data) {
  const std::unique_ptr<Work> work = pending().take(user_data);
  for (int64_t number = 0; number < work->c_layout.count; ++number) multiply_one(*work, number);
}

/// Adds a line about the batch to the log, if there is one.
void log_batch(const Description &description, const Layout &a, const Layout &c) {
  const char *const path = std::getenv("FAKE_CUBLAS_LT_LOG");
  if (path == nullptr) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "a"), std::fclose);
  if (file != nullptr) {
    const auto name = [](const Layout &layout) { return layout.type == type_bfloat16 ? "bfloat16" : "float32"; };
    std::fprintf(file.get(), "%d %d %s %s\n", c.count, description.multiprocessors, name(a), name(c));
  }
}

bool aligned(const std::byte *pointer, const Layout &layout, uint32_t alignment) {
  const auto at = reinterpret_cast<uintptr_t>(pointer);
  const auto step_bytes = static_cast<uint64_t>(layout.step * size_of(layout));
  return at % alignment == 0 && (layout.count == 1 || step_bytes % alignment == 0);
}

bool fits(const Description &description, const Layout &a, const Layout &b, const Layout &c) {
  const int64_t m = description.transpose_a != 0 ? a.columns : a.rows;
  const int64_t k = description.transpose_a != 0 ? a.rows : a.columns;
  const int64_t n = description.transpose_b != 0 ? b.rows : b.columns;
  const int64_t other = description.transpose_b != 0 ? b.columns : b.rows;
  // Both factors have the same type. Results of float32 factors are float32.
  if (a.type != b.type || (a.type == type_float32 && c.type != type_float32)) return false;
  if (a.type == type_bfloat16 && description.compute_type != compute_float32) return false;
  return m == c.rows && n == c.columns && k == other && a.lead >= a.rows && b.lead >= b.rows && c.lead >= c.rows &&
         a.count == c.count && b.count == c.count;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cublasLtCreate(Handle **handle) {
  const char *const driver = std::getenv("RONDO_CUDA_LIBRARY");
  void *const library = driver == nullptr ? nullptr : ::dlopen(driver, RTLD_NOW);
  void *const launch = library == nullptr ? nullptr : ::dlsym(library, "cuLaunchHostFunc");
  if (launch == nullptr) return not_supported;
  *handle = new Handle{reinterpret_cast<LaunchHostFunction>(launch)};
  return success;
}
EXPORT int cublasLtDestroy(Handle *handle) {
  delete handle;
  return success;
}
EXPORT const char *cublasLtGetStatusString(int status) {
  return status == success ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_EXECUTION_FAILED";
}
EXPORT int cublasLtMatmulDescCreate(Description **description, int compute_type, int scale_type) {
  const bool known = compute_type == compute_float32 || compute_type == compute_fast_tf32;
  if (!known || scale_type != 0) return not_supported;
  *description = new Description{compute_type};
  return success;
}
EXPORT int cublasLtMatmulDescDestroy(Description *description) {
  delete description;
  return success;
}
EXPORT int cublasLtMatmulDescSetAttribute(Description *description, int attribute, const void *value, size_t bytes) {
  if (bytes != sizeof(int32_t)) return invalid_value;
  int32_t *const target = attribute == transpose_a_attribute       ? &description->transpose_a
                          : attribute == transpose_b_attribute     ? &description->transpose_b
                          : attribute == multiprocessors_attribute ? &description->multiprocessors
                                                                   : nullptr;
  if (target == nullptr) return not_supported;
  std::memcpy(target, value, bytes);
  return *target < 0 ? invalid_value : success;
}
EXPORT int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns, int64_t lead) {
  if (type != type_float32 && type != type_bfloat16) return not_supported;
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), lead};
  return success;
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout *layout) {
  delete layout;
  return success;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes) {
  const bool is_count = attribute == batch_count_attribute;
  if (!is_count && attribute != batch_step_attribute) return not_supported;
  if (bytes != (is_count ? sizeof layout->count : sizeof layout->step)) return invalid_value;
  std::memcpy(is_count ? static_cast<void *>(&layout->count) : &layout->step, value, bytes);
  return success;
}
EXPORT int cublasLtMatmulPreferenceCreate(Preference **preference) {
  *preference = new Preference;
  return success;
}
EXPORT int cublasLtMatmulPreferenceDestroy(Preference *preference) {
  delete preference;
  return success;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value,
                                                size_t bytes) {
  if (attribute == workspace_attribute && bytes == sizeof preference->workspace_bytes) {
    std::memcpy(&preference->workspace_bytes, value, bytes);
    return success;
  }
  const int place = attribute - alignment_attribute;
  if (place < 0 || place > 3 || bytes != sizeof preference->alignments[0]) return invalid_value;
  std::memcpy(&preference->alignments[place], value, bytes);
  return success;
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(Handle *, const Description *description, const Layout *a, const Layout *b,
                                          const Layout *c, const Layout *, const Preference *preference, int wanted,
                                          Found *found, int *found_count) {
  if (!fits(*description, *a, *b, *c) || wanted < 1) return invalid_value;
  *found = {};
  found->way.mark = way_mark;
  std::memcpy(found->way.alignments, preference->alignments, sizeof found->way.alignments);
  *found_count = 1;
  return success;
}
EXPORT int cublasLtMatmul(Handle *handle, const Description *description, const float *alpha, const std::byte *a,
                          const Layout *a_layout, const std::byte *b, const Layout *b_layout, const float *beta,
                          const std::byte *c, const Layout *c_layout, std::byte *d, const Layout *, const Way *way,
                          void *, size_t, void *stream) {
  const char *const mode = std::getenv("FAKE_CUBLAS_LT");
  if (mode != nullptr && std::string(mode) == "fails") return execution_failed;
  if (way == nullptr || way->mark != way_mark || c != d) return invalid_value;
  if (!aligned(a, *a_layout, way->alignments[0]) || !aligned(b, *b_layout, way->alignments[1]) ||
      !aligned(d, *c_layout, way->alignments[2]))
    return invalid_value;
  log_batch(*description, *a_layout, *c_layout);
  auto made = std::make_unique<Work>(Work{*description, *a_layout, *b_layout, *c_layout, a, b, d, *alpha, *beta});
  Work *const work = made.get();
  {
    const std::lock_guard lock(pending().mutex);
    pending().works.emplace(work, std::move(made));
  }
  const int status = handle->launch(stream, multiply, work);
  if (status != success) pending().take(work);
  return status == success ? success : execution_failed;
}
