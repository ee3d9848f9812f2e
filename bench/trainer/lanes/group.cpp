// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/lanes/group.h"

#include <numeric>

namespace rondo::train {

Failure communication_failure(rondo_comm_t comm, const char *call, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  const bool known = rondo_comm_last_error(comm, &error) == RONDO_OK && error.message[0] != '\0';
  return {Exit::communication, std::string(call) + ": " + (known ? error.message : rondo_status_string(status))};
}

Outcome allocate_shared(size_t count, Buffer &buffer) {
  void *memory = nullptr;
  if (const rondo_status_t status = rondo_mem_alloc(&memory, count * sizeof(float)); status != RONDO_OK)
    return communication_failure(nullptr, "rondo_mem_alloc", status);
  buffer = {static_cast<float *>(memory), [](float *end) { (void)rondo_mem_free(end); }};
  return std::nullopt;
}

Group::~Group() {
  if (comm_ != nullptr) (void)rondo_comm_destroy(comm_);
}

Outcome Group::check(const char *call, rondo_status_t status) const {
  if (status == RONDO_OK) return std::nullopt;
  Failure failure = communication_failure(comm_, call, status);
  if (members_.empty()) return failure;
  std::string members;
  for (const size_t member : members_) members += (members.empty() ? "" : ", ") + std::to_string(member);
  failure.message += " (these ranks are the ranks " + members + " of the run, in this order";
  rondo_error_t error = RONDO_ERROR_INIT;
  const bool known = rondo_comm_last_error(comm_, &error) == RONDO_OK && error.peer >= 0;
  const size_t peer = known ? static_cast<size_t>(error.peer) : members_.size();
  if (peer < members_.size()) failure.message += "; it is about rank " + std::to_string(members_[peer]) + " of the run";
  failure.message += ")";
  return failure;
}

Outcome Group::join(const rondo_config_t &config) {
  rondo_comm_t comm = nullptr;
  if (auto failure = check("rondo_comm_init_env", rondo_comm_init_env(&comm, &config))) return failure;
  return take(comm);
}

Outcome Group::take(rondo_comm_t comm) {
  comm_ = comm;
  int rank = 0, size = 1;
  if (auto failure = check("rondo_comm_rank", rondo_comm_rank(comm_, &rank))) return failure;
  if (auto failure = check("rondo_comm_size", rondo_comm_size(comm_, &size))) return failure;
  rank_ = static_cast<size_t>(rank);
  size_ = static_cast<size_t>(size);
  return std::nullopt;
}

Outcome Group::join_part(Group &all, int color, const rondo_config_t *config) {
  rondo_comm_t part = nullptr;
  const int key = static_cast<int>(all.rank());
  if (auto failure = all.check("rondo_comm_split", rondo_comm_split(all.comm(), color, key, config, &part)))
    return failure;
  std::vector<int> colors(all.size());
  if (auto failure = all.gather(&color, sizeof color, colors.data())) return failure;
  if (part == nullptr) return std::nullopt;
  for (size_t rank = 0; rank < colors.size(); ++rank)
    if (colors[rank] == color) members_.push_back(rank);
  return take(part);
}

Outcome Group::broadcast(void *data, size_t bytes, size_t from) {
  return check("rondo_broadcast",
               rondo_broadcast(data, data, bytes, RONDO_UINT8, static_cast<int>(from), comm_, nullptr));
}

Outcome Group::gather(const void *mine, size_t bytes, void *all) {
  return check("rondo_all_gather", rondo_all_gather(mine, all, bytes, RONDO_UINT8, comm_, nullptr));
}

Outcome Group::all_reduce(void *values, size_t count, rondo_type_t type, rondo_op_t op) {
  return check("rondo_all_reduce", rondo_all_reduce(values, values, count, type, op, comm_, nullptr));
}

Outcome Group::sum(double *values, size_t count) { return all_reduce(values, count, RONDO_FLOAT64, RONDO_SUM); }

Outcome Group::sum(float *values, size_t count) { return all_reduce(values, count, RONDO_FLOAT32, RONDO_SUM); }

Outcome Group::average(float *values, size_t count) { return all_reduce(values, count, RONDO_FLOAT32, RONDO_AVG); }

Outcome Group::least(double *values, size_t count) { return all_reduce(values, count, RONDO_FLOAT64, RONDO_MIN); }

Outcome Group::barrier() { return check("rondo_barrier", rondo_barrier(comm_, nullptr)); }

Outcome Group::send(const float *values, size_t count, size_t to) {
  return check("rondo_send", rondo_send(values, count, RONDO_FLOAT32, static_cast<int>(to), comm_, nullptr));
}

Outcome Group::receive(float *values, size_t count, size_t from) {
  return check("rondo_recv", rondo_recv(values, count, RONDO_FLOAT32, static_cast<int>(from), comm_, nullptr));
}

Outcome Group::exchange_counts(const uint64_t *mine, uint64_t *theirs, size_t each) {
  return check("rondo_all_to_all", rondo_all_to_all(mine, theirs, each, RONDO_UINT64, comm_, nullptr));
}

Outcome Group::exchange_blocks(const float *send, const size_t *send_counts, float *recv, const size_t *recv_counts) {
  return check("rondo_all_to_all_v", rondo_all_to_all_v(send, send_counts, nullptr, recv, recv_counts, nullptr,
                                                        RONDO_FLOAT32, comm_, nullptr));
}

Outcome Group::exchange(std::span<const Message> messages) {
  if (auto failure = check("rondo_group_begin", rondo_group_begin())) return failure;
  for (const Message &message : messages) {  // if a call is refused, the end returns why
    const int peer = static_cast<int>(message.peer);
    (void)(message.arrives ? rondo_recv(message.values, message.count, RONDO_FLOAT32, peer, comm_, nullptr)
                           : rondo_send(message.values, message.count, RONDO_FLOAT32, peer, comm_, nullptr));
  }
  return check("rondo_group_end", rondo_group_end());
}

LibraryCounts Group::counts() const {
  rondo_statistics_t seen = RONDO_STATISTICS_INIT;
  if (rondo_comm_statistics(comm_, &seen) != RONDO_OK) return {};
  return {seen.total.operations, seen.total.bytes, seen.total.in_flight_ns, seen.total.exposed_ns};
}

Outcome Group::finish() { return check("rondo_comm_finalize", rondo_comm_finalize(comm_)); }

Outcome Ranks::join(const rondo_config_t &config, const Parts &parts) {
  if (auto failure = all_.join(config)) return failure;
  parts_ = parts;
  sharers_ = parts.experts > 0 ? std::gcd(parts.experts, all_.size()) : parts.slices * parts.stages;
  if (all_.size() % sharers_ != 0)
    return Failure{Exit::usage, "the number of ranks, " + std::to_string(all_.size()) + ", is no multiple of the " +
                                    std::to_string(sharers_) + " of " +
                                    (parts.stages > 1 ? "--pipeline-parallel" : "--tensor-parallel") +
                                    "; start such a multiple"};
  if (sharers_ == 1) return std::nullopt;
  if (auto failure = joint_.join_part(all_, static_cast<int>(all_.rank() / sharers_))) return failure;
  return same_.join_part(all_, static_cast<int>(all_.rank() % sharers_));
}

Place Ranks::slice() const { return parts_.stages > 1 ? Place{} : Place{joint_.rank(), sharers_}; }

Place Ranks::stage() const { return parts_.stages > 1 ? Place{joint_.rank(), sharers_} : Place{}; }

size_t Ranks::memory_bytes() {
  size_t bytes = 0;
  for (const Group *group : {&all_, &same_, &joint_}) {
    uint64_t used = 0;
    rondo_comm_properties_t about = RONDO_COMM_PROPERTIES_INIT;
    if (group->comm() == nullptr || rondo_comm_memory(group->comm(), nullptr, &used) != RONDO_OK ||
        rondo_comm_get_properties(group->comm(), &about) != RONDO_OK)
      continue;
    bytes += used / static_cast<uint64_t>(about.local_rank_count);
  }
  return bytes;
}

Outcome Ranks::finish() {
  for (Group *const group : {&joint_, &same_, &all_})
    if (group->comm() != nullptr)
      if (auto failure = group->finish()) return failure;
  return std::nullopt;
}

}  // namespace rondo::train
