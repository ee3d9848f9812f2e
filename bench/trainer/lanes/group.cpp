// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/lanes/group.h"

#include <vector>

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
  return communication_failure(comm_, call, status);
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

Outcome Group::join_part(Group &all, size_t first, size_t rank, size_t size, const rondo_config_t &config) {
  rondo_unique_id_t mine{};
  if (rank == 0)
    if (auto failure = all.check("rondo_get_unique_id", rondo_get_unique_id(&mine, &config))) return failure;
  std::vector<rondo_unique_id_t> ids(all.size());
  if (auto failure = all.gather(&mine, sizeof mine, ids.data())) return failure;
  rank_ = rank;
  size_ = size;
  return check("rondo_comm_init", rondo_comm_init(&comm_, &ids[first], static_cast<int>(rank), static_cast<int>(size),
                                                  &config));
}

Outcome Group::join_pair(Group &all, size_t one, size_t other, const rondo_config_t &config) {
  rondo_unique_id_t id{};
  if (all.rank() == one)
    if (auto failure = all.check("rondo_get_unique_id", rondo_get_unique_id(&id, &config))) return failure;
  if (auto failure = all.broadcast(&id, sizeof id, one)) return failure;
  if (all.rank() != one && all.rank() != other) return std::nullopt;
  rank_ = all.rank() == one ? 0 : 1;
  size_ = 2;
  return check("rondo_comm_init", rondo_comm_init(&comm_, &id, static_cast<int>(rank_), 2, &config));
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

LibraryCounts Group::counts() const {
  rondo_statistics_t seen = RONDO_STATISTICS_INIT;
  if (rondo_comm_statistics(comm_, &seen) != RONDO_OK) return {};
  return {seen.total.operations, seen.total.bytes, seen.total.in_flight_ns, seen.total.exposed_ns};
}

Outcome Group::finish() { return check("rondo_comm_finalize", rondo_comm_finalize(comm_)); }

Outcome Ranks::join(const rondo_config_t &config, size_t slices) {
  if (auto failure = all_.join(config)) return failure;
  if (all_.size() % slices != 0)
    return Failure{Exit::usage, "the number of ranks, " + std::to_string(all_.size()) + ", is no multiple of the " +
                                    std::to_string(slices) + " of --tensor-parallel; start such a multiple"};
  slices_ = slices;
  if (slices == 1) return std::nullopt;
  const size_t slice = all_.rank() % slices, model = all_.rank() / slices;
  if (auto failure = joint_.join_part(all_, model * slices, slice, slices, config)) return failure;
  if (auto failure = data_.join_part(all_, slice, model, all_.size() / slices, config)) return failure;
  return std::nullopt;
}

size_t Ranks::memory_bytes() {
  size_t bytes = 0;
  for (const Group *group : {&all_, &data_, &joint_}) {
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
  for (Group *const group : {&joint_, &data_, &all_})
    if (group->comm() != nullptr)
      if (auto failure = group->finish()) return failure;
  return std::nullopt;
}

}  // namespace rondo::train
