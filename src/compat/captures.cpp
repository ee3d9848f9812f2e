// SPDX-License-Identifier: Apache-2.0
#include "src/compat/captures.h"

#include <algorithm>
#include <utility>

#include "src/compat/driver.h"
#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

/// The stream of a communicator's first call in the group.
struct First {
  const ncclComm *comm;
  cudaStream_t stream;
};

/// Checks the stream of a call. `firsts` has the first call of each communicator. If this call is a first, it is added.
ncclResult_t check_capture(const ncclComm *comm, cudaStream_t stream, std::vector<First> &firsts) {
  const auto of = std::find_if(firsts.begin(), firsts.end(), [&](const First &first) { return first.comm == comm; });
  if (of == firsts.end()) {
    firsts.push_back({comm, stream});
    return ncclSuccess;
  }
  if (of->stream == stream) return ncclSuccess;
  unsigned long long one = 0, other = 0;
  for (const auto &[asked, number] : {std::pair{of->stream, &one}, std::pair{stream, &other}})
    if (const ncclResult_t found = capture_of(asked, number); found != ncclSuccess) return found;
  if (one == other) return ncclSuccess;
  return fail(ncclInvalidUsage,
              "ncclGroupEnd: the group has two streams of one communicator, and they are not captured by the same "
              "graph; capture both, or end the group between them");
}

}  // namespace

ncclResult_t check_captures(const std::vector<Collective> &collectives, const std::vector<OneSided> &one_sided) {
  std::vector<First> firsts;
  for (const Collective &each : collectives)
    if (const auto checked = check_capture(each.comm, each.stream, firsts); checked != ncclSuccess) return checked;
  for (const OneSided &each : one_sided)
    if (const auto checked = check_capture(each.comm, each.stream, firsts); checked != ncclSuccess) return checked;
  return ncclSuccess;
}

}  // namespace rondo::compat
