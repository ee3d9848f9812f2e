// SPDX-License-Identifier: Apache-2.0
// `rondo train` where the trainer was not built.
#include <cstdio>

#include "bench/trainer/train.h"

namespace rondo {

int run_train(std::span<const char *const>) {
  std::fputs("rondo train: not in this build, since oneDNN was missing; install libdnnl-dev and build again\n", stderr);
  return 2;
}

}  // namespace rondo
