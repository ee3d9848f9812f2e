// SPDX-License-Identifier: Apache-2.0
// `rondo train` where the trainer was not built.
#include <cstdio>
#include <string_view>

#include "bench/trainer/train.h"

namespace rondo {

int run_train(std::span<const char *const> args) {
  const bool help = args.size() == 1 && std::string_view(args[0]) == "--help";
  std::fputs("rondo train: not in this build, since oneDNN was missing; install libdnnl-dev and build again\n",
             help ? stdout : stderr);
  if (help) std::fputs("  --help  print this\n", stdout);
  return help ? 0 : 2;
}

}  // namespace rondo
