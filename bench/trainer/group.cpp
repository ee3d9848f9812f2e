// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/group.h"

namespace rondo::train {

Failure communication_failure(rondo_comm_t comm, const char *call, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  const bool known = rondo_comm_last_error(comm, &error) == RONDO_OK && error.message[0] != '\0';
  return {Exit::communication, std::string(call) + ": " + (known ? error.message : rondo_status_string(status))};
}

Group::~Group() {
  if (comm_ != nullptr) (void)rondo_comm_destroy(comm_);
}

Outcome Group::check(const char *call, rondo_status_t status) const {
  if (status == RONDO_OK) return std::nullopt;
  return communication_failure(comm_, call, status);
}

Outcome Group::join(const rondo_config_t &config) {
  if (auto failure = check("rondo_comm_init_env", rondo_comm_init_env(&comm_, &config))) return failure;
  int rank = 0, size = 1;
  if (auto failure = check("rondo_comm_rank", rondo_comm_rank(comm_, &rank))) return failure;
  if (auto failure = check("rondo_comm_size", rondo_comm_size(comm_, &size))) return failure;
  rank_ = static_cast<size_t>(rank);
  size_ = static_cast<size_t>(size);
  return std::nullopt;
}

Outcome Group::broadcast(void *data, size_t bytes) {
  return check("rondo_broadcast", rondo_broadcast(data, data, bytes, RONDO_UINT8, 0, comm_, nullptr));
}

Outcome Group::gather(const void *mine, size_t bytes, void *all) {
  return check("rondo_all_gather", rondo_all_gather(mine, all, bytes, RONDO_UINT8, comm_, nullptr));
}

Outcome Group::sum(double *values, size_t count) {
  return check("rondo_all_reduce",
               rondo_all_reduce(values, values, count, RONDO_FLOAT64, RONDO_SUM, comm_, nullptr));
}

Outcome Group::barrier() { return check("rondo_barrier", rondo_barrier(comm_, nullptr)); }

Outcome Group::finish() { return check("rondo_comm_finalize", rondo_comm_finalize(comm_)); }

}  // namespace rondo::train
