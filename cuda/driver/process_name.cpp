// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/process_name.h"

#include <unistd.h>

#include "src/base/process_stat.h"

namespace rondo::cuda {
namespace {

uint64_t own_start_ticks() {
  const auto stat = process_stat(::getpid());
  return stat ? stat->start_ticks : 0;
}

}  // namespace

ProcessName own_process() { return {static_cast<uint64_t>(::getpid()), own_start_ticks()}; }

}  // namespace rondo::cuda
