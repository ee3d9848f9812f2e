// SPDX-License-Identifier: Apache-2.0
#include "src/compat/group_streams.h"

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

/// Checks that two streams are captured by the same graph, or neither is.
ncclResult_t check_captures(int device, cudaStream_t first, cudaStream_t second) {
  unsigned long long one = 0, other = 0;
  for (const auto &[asked, number] : {std::pair{first, &one}, std::pair{second, &other}})
    if (const ncclResult_t found = capture_of(device, asked, number); found != ncclSuccess) return found;
  if (one == other) return ncclSuccess;
  return fail(ncclInvalidUsage,
              "ncclGroupEnd: the group has two streams of one communicator, and they are not captured by the same "
              "graph; capture both, or end the group between them");
}

/// Gives a call the stream of its communicator's first call. `firsts` has the first calls. This one is added if it is a
/// first.
ncclResult_t unite(const ncclComm *comm, cudaStream_t &stream, std::vector<First> &firsts,
                   std::vector<JoinedStream> &joined) {
  const auto of = std::find_if(firsts.begin(), firsts.end(), [&](const First &first) { return first.comm == comm; });
  if (of == firsts.end()) {
    firsts.push_back({comm, stream});
    return ncclSuccess;
  }
  if (of->stream == stream) return ncclSuccess;
  const bool known = std::any_of(joined.begin(), joined.end(), [&](const JoinedStream &each) {
    return each.lead == of->stream && each.stream == stream && each.device == comm->device;
  });
  if (!known) {
    if (const auto checked = check_captures(comm->device, of->stream, stream); checked != ncclSuccess) return checked;
    joined.push_back({comm->device, of->stream, stream});
  }
  stream = of->stream;
  return ncclSuccess;
}

}  // namespace

ncclResult_t unite_streams(std::vector<Collective> &collectives, std::vector<OneSided> &one_sided,
                           std::vector<JoinedStream> &joined) {
  std::vector<First> firsts;
  for (Collective &each : collectives)
    if (const auto united = unite(each.comm, each.stream, firsts, joined); united != ncclSuccess) return united;
  for (OneSided &each : one_sided)
    if (const auto united = unite(each.comm, each.stream, firsts, joined); united != ncclSuccess) return united;
  return ncclSuccess;
}

ncclResult_t join_before(const std::vector<JoinedStream> &joined) {
  for (const JoinedStream &each : joined)
    if (const auto done = follow(each.device, each.stream, each.lead); done != ncclSuccess) return done;
  return ncclSuccess;
}

ncclResult_t join_after(const std::vector<JoinedStream> &joined) {
  for (const JoinedStream &each : joined)
    if (const auto done = follow(each.device, each.lead, each.stream); done != ncclSuccess) return done;
  return ncclSuccess;
}

}  // namespace rondo::compat
