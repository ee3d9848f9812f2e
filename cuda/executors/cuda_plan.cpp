// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/cuda_plan.h"

#include <string>

#include "cuda/executors/plan_uploads.h"

namespace rondo::cuda {

Result<void> PlanMemory::give_back_late(PlanUploads &uploads) {
  if (late.empty()) return {};
  RONDO_TRY_ASSIGN(const bool ended, uploads.have_ended());
  if (!ended) return {};
  for (const PlanRange &range : late) arena.give_back(range.offset, range.bytes);
  late.clear();
  return {};
}

bool PlanMemory::has_room(size_t bytes, PlanUploads &uploads) {
  const std::lock_guard lock(mutex);
  if (!give_back_late(uploads).ok()) return true;  // take() reports the error
  const auto offset = arena.take(bytes);
  if (offset) arena.give_back(*offset, bytes);
  return offset.has_value();
}

Result<uint64_t> PlanMemory::take(size_t bytes, PlanUploads &uploads) {
  const std::lock_guard lock(mutex);
  RONDO_TRY(give_back_late(uploads));
  if (const auto offset = arena.take(bytes)) return *offset;
  return Error{RONDO_ERROR_OUT_OF_RESOURCES,
               "a plan of " + std::to_string(bytes) + " bytes does not fit into a communicator's " +
                   std::to_string(all_bytes) + " bytes on its device, beside those of calls that have not "
                   "ended and of graphs; have fewer calls of different sizes under way"};
}

}  // namespace rondo::cuda
