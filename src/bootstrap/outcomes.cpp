// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/store/store.h"

#include <algorithm>
#include <string>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"

namespace rondo {
namespace {

constexpr uint64_t report_wait_ns = 2'000'000'000;  // longest wait if this rank only reports a failure
constexpr size_t message_bytes_max = 2000;

/// Returns a rank's part: its status, then its bytes or its message.
Bytes part_of(const Result<Bytes> &own) {
  const auto status = static_cast<uint32_t>(own.ok() ? RONDO_OK : own.error().status);
  const ByteView text = own.ok() ? own.value() : bytes_of(own.error().message);
  const ByteView rest = own.ok() ? text : text.first(std::min(text.size(), message_bytes_max));
  Bytes part(sizeof status + rest.size());
  for (size_t at = 0; at < sizeof status; ++at) part[at] = static_cast<std::byte>(status >> (8 * at));
  std::copy(rest.begin(), rest.end(), part.begin() + sizeof status);
  return part;
}

}  // namespace

Result<std::vector<Bytes>> gather_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                                           const Result<Bytes> &own, uint64_t deadline_ns,
                                           std::span<const std::string> names) {
  if (!own.ok() && names.empty()) deadline_ns = std::min(deadline_ns, now_ns() + report_wait_ns);
  const auto gathered = store.gather(key, rank, count, part_of(own), deadline_ns);
  if (!own.ok() && (names.empty() || !gathered.ok())) return own.error();
  if (!gathered.ok()) return gathered.error();
  std::vector<Bytes> parts;
  for (uint32_t peer = 0; peer < count; ++peer) {
    ByteReader reader(gathered.value()[peer]);
    const auto status = static_cast<rondo_status_t>(reader.number<uint32_t>());
    const ByteView rest = reader.rest();
    if (reader.failed() || status > RONDO_ERROR_REVOKED)
      return Error{RONDO_ERROR_MISMATCH, "rank " + std::to_string(peer) + " runs another version of Rondo"};
    if (status != RONDO_OK) {
      const std::string failed = names.empty() ? "rank " + std::to_string(peer) + " failed" : names[peer];
      Error error{status, failed + ": " + text_of(rest)};
      error.peer = static_cast<int32_t>(peer);
      return error;
    }
    parts.emplace_back(rest.begin(), rest.end());
  }
  return parts;
}

Result<void> check_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                            const Result<void> &own, uint64_t deadline_ns, std::span<const std::string> names) {
  const Result<Bytes> part = own.ok() ? Result<Bytes>(Bytes()) : Result<Bytes>(own.error());
  RONDO_TRY(gather_outcomes(store, key, rank, count, part, deadline_ns, names));
  return {};
}

}  // namespace rondo
