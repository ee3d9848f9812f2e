// SPDX-License-Identifier: Apache-2.0
// This file is `rondo-train`. It is a separate program, so that no other program loads its library of matrix products.
#include "bench/trainer/train.h"
#include "src/cli/train_cuda.h"
#include "src/console/standard_streams.h"

int main(int argc, char **argv) {
  rondo::console::begin_standard_streams();
  const std::span<const char *const> all(argv, static_cast<size_t>(argc));
  const auto devices = rondo::cli::make_train_devices();
  const int status = rondo::run_train(all.empty() ? all : all.subspan(1), *devices);
  return rondo::console::end_standard_streams("rondo train", status);
}
