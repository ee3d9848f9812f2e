// SPDX-License-Identifier: Apache-2.0
// These tests check the products of the trainer's CUDA backend: their number, their types, and the multiprocessors that
// they may use. The fake cuBLASLt logs each batch.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/trainer/compute/host_view.h"
#include "bench/trainer/model/model.h"
#include "tests/gpu/train_cuda.h"

namespace {

using namespace rondo::train_cuda;

/// A batch of products, as the fake cuBLASLt logs it.
struct LoggedBatch {
  size_t count = 0;
  uint32_t multiprocessors = 0;  ///< multiprocessors that it may use, or 0 for all
  std::string factors, results;  ///< names of types
};

/// The log of the fake cuBLASLt, from construction to destruction.
class Log {
 public:
  Log() {
    std::filesystem::remove(path_);
    REQUIRE(::setenv("FAKE_CUBLAS_LT_LOG", path_.c_str(), 1) == 0);
  }
  ~Log() {
    (void)::unsetenv("FAKE_CUBLAS_LT_LOG");
    std::filesystem::remove(path_);
  }
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;

  /// Returns the batches since the last call.
  [[nodiscard]] std::vector<LoggedBatch> take() const {
    std::ifstream file(path_);
    std::vector<LoggedBatch> batches;
    for (LoggedBatch one; file >> one.count >> one.multiprocessors >> one.factors >> one.results;)
      batches.push_back(one);
    std::filesystem::remove(path_);
    return batches;
  }

 private:
  const std::string path_ = std::filesystem::temp_directory_path() / ("cublas_lt." + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("cuda trainer: a pass has a fixed number of batches of products, for any batch and heads", "[train]") {
  const Log log;
  for (const auto &[batch, heads] : {std::pair<size_t, size_t>{1, 1}, {3, 4}, {5, 2}}) {
    const Shape shape{"test", 32, 2, heads, 16};
    const auto tokens = random_tokens(batch * shape.context, 1);
    const auto compute = make_cuda();
    Model model(shape, batch, *compute);
    Floats values(model.layout().count);
    initialise(model.layout(), 3, values.data());
    const Array parameters(*compute, values), gradients(*compute, Floats(values.size()));
    (void)model.forward(parameters, tokens.data(), tokens.data());
    model.backward(parameters, 0.01f, gradients, [](size_t) {});
    REQUIRE_FALSE(compute->finish().has_value());
    const std::vector<LoggedBatch> batches = log.take();
    CHECK(batches.size() == shape.layers * (4 + 8 + 2 + 4) + 3);  // linear layers, attention, the output
    size_t product_count = 0;
    for (const LoggedBatch &one : batches) product_count += one.count;
    CHECK(product_count == shape.layers * (4 + 8 + (2 + 4) * batch * heads) + 3);
  }
}

TEST_CASE("cuda trainer: products beside collectives leave as many multiprocessors as a collective has blocks",
          "[train]") {
  const Log log;
  for (const uint32_t blocks : {0u, 1u, 2u, 9u}) {  // the driver in software has 2 multiprocessors
    const auto compute = make_cuda(Precision::float32, blocks);
    const Array x(*compute, random_floats(256, 1)), y(*compute, random_floats(256, 2)), c(*compute, Floats(256));
    for (const bool beside : {false, true, false}) {
      compute->leave_room(beside);
      compute->multiply({false, false, 16, 16, 16, x, 16, y, 16, c, 16});
    }
    REQUIRE_FALSE(compute->finish().has_value());
    const std::vector<LoggedBatch> batches = log.take();
    REQUIRE(batches.size() == 3);
    CHECK(batches[0].multiprocessors == 0);
    CHECK(batches[1].multiprocessors == (blocks == 1 ? 1 : 0));
    CHECK(batches[2].multiprocessors == 0);
  }
}

TEST_CASE("cuda trainer: a product's precision is what was asked for", "[train]") {
  const Floats a = random_floats(16 * 16, 1), b = random_floats(16 * 16, 2);
  std::vector<Floats> found;
  for (const Precision precision : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    const auto compute = make_cuda(precision);
    const Array x(*compute, a), y(*compute, b), c(*compute, Floats(16 * 16));
    compute->multiply({false, false, 16, 16, 16, x, 16, y, 16, c, 16});
    found.push_back(c.values());
  }
  CHECK((distance(found[1], found[0]) > 1e-5 && distance(found[1], found[0]) < 1e-3));
  CHECK((distance(found[2], found[0]) > 1e-3 && distance(found[2], found[0]) < 1e-2));
}

TEST_CASE("cuda trainer: products of bfloat16 factors are exact products of rounded floats", "[train]") {
  const auto rounded = [](Floats values) {
    const auto host = make_host_compute();
    std::vector<uint16_t> elements(values.size());
    host->narrow(values.data(), elements.data(), RONDO_BFLOAT16, 1.0f, values.size());
    host->widen(elements.data(), RONDO_BFLOAT16, values.data(), 1.0f, values.size());
    return values;
  };
  const Floats a = random_floats(9 * 16, 1), b = random_floats(9 * 16, 2), c = random_floats(5 * 8, 3);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      std::vector<Floats> found;
      for (const bool on_device : {false, true}) {
        const auto compute = on_device ? make_cuda(Precision::bfloat16) : make_host_compute();
        const Array x(*compute, on_device ? a : rounded(a)), y(*compute, on_device ? b : rounded(b)), z(*compute, c);
        const Array narrow(*compute, Floats(compute->factor_floats(b.size())));
        // The factors: floats, floats that are copied before, bfloat16 elements.
        compute->multiply({transpose_a, transpose_b, 5, 3, 7, x, 9, y, 9, z, 8, 0.5f, 2.0f});
        compute->multiply({transpose_a, transpose_b, 2, 3, 4, compute->as_factors(x, a.size()), 9, y + 3, 9, z + 4, 8});
        if (on_device) compute->narrow(y, narrow, RONDO_BFLOAT16, 1.0f, b.size());
        const Factors elements = on_device ? Factors(static_cast<float *>(narrow), true)
                                             : Factors(static_cast<float *>(y));
        compute->multiply({transpose_a, transpose_b, 2, 3, 4, x + 1, 9, elements, 9, z + 24, 8});
        REQUIRE_FALSE(compute->finish().has_value());
        found.push_back(z.values());
      }
      CHECK(distance(found[1], found[0]) <= 3e-6);
    }
  }
}

TEST_CASE("cuda trainer: products read the copies of parameters until they are taken again", "[train]") {
  const auto compute = make_cuda(Precision::bfloat16);
  const Floats one(256, 1.0f), two(256, 2.0f);
  const Array x(*compute, one), parameters(*compute, one), c(*compute, Floats(256));
  const auto product = [&] {
    compute->multiply({false, false, 8, 8, 8, x, 8, parameters + 64, 8, c, 8});
    return c.values()[63];
  };
  compute->take_parameters(parameters, 256);
  CHECK(product() == 8.0f);
  compute->write(two.data(), parameters, 256);
  CHECK(product() == 8.0f);
  compute->take_parameters(parameters, 256);
  CHECK(product() == 16.0f);
}

TEST_CASE("cuda trainer: with bfloat16, all factors of a model are narrow, and gradients stay near the host's",
          "[train]") {
  const Log log;
  const Shape shape{"test", 32, 2, 2, 16};
  constexpr size_t batch = 3;
  const auto inputs = random_tokens(batch * shape.context, 1), targets = random_tokens(batch * shape.context, 2);
  std::vector<Floats> losses, all_gradients;
  std::vector<size_t> floats;
  for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::bfloat16}) {
    const auto compute = make_cuda(precision);
    Model model(shape, batch, *compute);
    Floats values(model.layout().count);
    initialise(model.layout(), 3, values.data());
    const Array parameters(*compute, values), gradients(*compute, Floats(values.size(), 9.0f));
    compute->take_parameters(parameters, values.size());
    const float *const found = model.forward(parameters, inputs.data(), targets.data());
    HostView view(*compute, found, model.rows());
    losses.emplace_back(view.get(), view.get() + model.rows());
    model.backward(parameters, 0.01f, gradients, [](size_t) {});
    REQUIRE_FALSE(compute->finish().has_value());
    all_gradients.push_back(gradients.values());
    floats.push_back(model.activation_floats());
    const std::vector<LoggedBatch> batches = log.take();
    CHECK(batches.size() == 39);
    const bool narrow = precision == Precision::bfloat16;
    size_t scores = 0;
    for (const LoggedBatch &one : batches) {
      CHECK(one.factors == (narrow ? "bfloat16" : "float32"));
      scores += one.results == "bfloat16" ? 1 : 0;
    }
    CHECK(scores == (narrow ? 2 * shape.layers : 0));  // in the forward and in the backward pass
  }
  CHECK(distance(losses[1], losses[0]) < 0.01);
  CHECK(distance(losses[1], losses[0]) > 0);
  CHECK(distance(all_gradients[1], all_gradients[0]) < 0.03);
  CHECK((losses[2] == losses[1] && all_gradients[2] == all_gradients[1]));
  CHECK(floats[1] < floats[0] * 9 / 10);
}
