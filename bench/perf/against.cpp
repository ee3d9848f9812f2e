// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/against.h"

#include <array>
#include <span>

namespace rondo::perf {
namespace {

constexpr size_t id_bytes = 128;

struct OtherId {
  char bytes[id_bytes];
};

constexpr int result_success = 0, result_in_progress = 7;

/// The numbers of nccl.h for types and operations, indexed by Rondo's numbers.
constexpr std::array<int, 12> type_numbers{0, 1, 2, 3, 4, 5, 6, 9, 7, 8, 10, 11};
constexpr std::array<int, 5> op_numbers{0, 1, 3, 2, 4};

}  // namespace

struct OtherFunctions {
  int (*get_version)(int *version);
  const char *(*error_string)(int result);
  int (*get_id)(OtherId *id);
  int (*init_rank)(void **comm, int rank_count, OtherId id, int rank);
  int (*destroy)(void *comm);
  int (*abort)(void *comm);
  int (*async_error)(void *comm, int *result);
  int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
  int (*reduce_scatter)(const void *send, void *recv, size_t recv_count, int type, int op, void *comm, void *stream);
  int (*all_gather)(const void *send, void *recv, size_t send_count, int type, void *comm, void *stream);
  int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream);
  int (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream);
};

OtherLibrary::OtherLibrary() = default;
OtherLibrary::~OtherLibrary() = default;

Outcome OtherLibrary::open(const std::string &path) {
  if (!library_.open(path, {})) return Failure{Exit::usage, "--against: " + library_.why()};
  functions_ = std::make_unique<OtherFunctions>();
  library_.find(functions_->get_version, "ncclGetVersion");
  library_.find(functions_->error_string, "ncclGetErrorString");
  library_.find(functions_->get_id, "ncclGetUniqueId");
  library_.find(functions_->init_rank, "ncclCommInitRank");
  library_.find(functions_->destroy, "ncclCommDestroy");
  library_.find(functions_->abort, "ncclCommAbort");
  library_.find(functions_->async_error, "ncclCommGetAsyncError");
  library_.find(functions_->all_reduce, "ncclAllReduce");
  library_.find(functions_->reduce_scatter, "ncclReduceScatter");
  library_.find(functions_->all_gather, "ncclAllGather");
  library_.find(functions_->broadcast, "ncclBroadcast");
  library_.find(functions_->reduce, "ncclReduce");
  if (library_.missing().empty()) return std::nullopt;
  return Failure{Exit::usage,
                 "--against: " + path + " does not have the interface of nccl.h: it lacks " + library_.missing()};
}

std::string OtherLibrary::version() const {
  int code = 0;
  if (functions_->get_version(&code) != result_success) return "unknown";
  // The code of 2.8.3 was 2803, and the code of 2.9.6 is 20906.
  const int major = code < 10'000 ? 1'000 : 10'000;
  return std::to_string(code / major) + "." + std::to_string(code % major / 100) + "." + std::to_string(code % 100);
}

OtherComm::~OtherComm() {
  if (comm_ != nullptr) (void)library_.functions().destroy(comm_);
}

Outcome OtherComm::failed(const char *what, int result) const {
  const char *const text = library_.functions().error_string(result);
  return Failure{Exit::communication, library_.path() + ": " + what + ": " + (text != nullptr ? text : "error") + " (" +
                                          std::to_string(result) + ")"};
}

Outcome OtherComm::init(Group &group) {
  OtherId id{};
  int result = group.rank() == 0 ? library_.functions().get_id(&id) : result_success;
  if (result != result_success) return failed("ncclGetUniqueId", result);
  if (auto failure = group.broadcast(std::as_writable_bytes(std::span(&id, 1)))) return failure;
  result = library_.functions().init_rank(&comm_, group.ranks(), id, group.rank());
  if (result == result_success) return std::nullopt;
  comm_ = nullptr;
  return failed("ncclCommInitRank", result);
}

Outcome OtherComm::call(const Case &what, const Shape &shape, Pointers at, void *stream) {
  const OtherFunctions &other = library_.functions();
  const int type = type_numbers[static_cast<size_t>(what.type)], op = op_numbers[static_cast<size_t>(what.op)];
  int result = result_success;
  switch (what.collective) {
    case RONDO_ALL_REDUCE:
      result = other.all_reduce(at.send, at.recv, shape.count, type, op, comm_, stream);
      break;
    case RONDO_REDUCE_SCATTER:
      result = other.reduce_scatter(at.send, at.recv, shape.count, type, op, comm_, stream);
      break;
    case RONDO_ALL_GATHER:
      result = other.all_gather(at.send, at.recv, shape.count, type, comm_, stream);
      break;
    case RONDO_BROADCAST:
      result = other.broadcast(at.send, at.recv, shape.count, type, what.root, comm_, stream);
      break;
    case RONDO_REDUCE:
      result = other.reduce(at.send, at.recv, shape.count, type, op, what.root, comm_, stream);
      break;
    default:
      return Failure{Exit::usage, std::string("--against: ") + name_of(what.collective) + " of it is not called here"};
  }
  return result == result_success ? std::nullopt : failed(rondo_collective_string(what.collective), result);
}

Outcome OtherComm::check() const {
  int state = result_success;
  const int result = library_.functions().async_error(comm_, &state);
  if (result != result_success) return failed("ncclCommGetAsyncError", result);
  return state == result_success || state == result_in_progress ? std::nullopt : failed("a call", state);
}

void OtherComm::abort() {
  if (comm_ != nullptr) (void)library_.functions().abort(comm_);
  comm_ = nullptr;
}

}  // namespace rondo::perf
