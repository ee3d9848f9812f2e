// SPDX-License-Identifier: Apache-2.0
// Two ends of UCX in one process, over loopback, and the store by which they meet.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/net.h"
#include "transports/ucx/network.h"

namespace rondo::net_test {

/// A store between threads of one process. What was said stays readable.
class MeetingStore final : public Store {
 public:
  Result<void> put(std::string_view key, std::span<const std::byte> value, uint64_t deadline_ns) override;
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) override;
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) override;

  [[nodiscard]] Bytes said(const std::string &key, uint32_t rank);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::map<uint32_t, Bytes>> said_;
};

/// False: this test goes on without UCX, and says so once.
[[nodiscard]] bool ucx_is_there();

/// Of rank 0 or 1, as the test's ranks ask for it.
[[nodiscard]] ucx::JoinRequest ucx_request(uint32_t rank);

struct UcxPair {
  std::unique_ptr<MeetingStore> store = std::make_unique<MeetingStore>();
  std::array<std::unique_ptr<net::Network>, 2> networks;
};

/// `rendezvous_bytes`: from how many on payloads go by rendezvous, as UCX's own variable takes it.
[[nodiscard]] UcxPair connect_ucx_pair(const std::vector<net::NearLink> &first,
                                       const std::vector<net::NearLink> &second, const char *rendezvous_bytes);

}  // namespace rondo::net_test
