// SPDX-License-Identifier: Apache-2.0
#include "tests/net/verbs_pair.h"

#include <cstdio>

#include "src/base/clock.h"

namespace rondo::net_test {

bool verbs_is_there() {
  static const bool there = [] {
    const verbs::Report report = verbs::look_for_verbs();
    if (!report.why_not.empty()) std::printf("skipped: networks over verbs: %s\n", report.why_not.c_str());
    return report.why_not.empty();
  }();
  return there;
}

verbs::JoinRequest verbs_request(uint32_t rank, uint32_t rank_count, const Settings *settings) {
  static const Settings defaults;
  static const GroupInfo group;
  verbs::JoinRequest request{{rank, rank_count, settings != nullptr ? *settings : defaults, group, {}, "test",
                              now_ns() + 60'000'000'000}};
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    request.linked.push_back(peer != rank);
    request.names.push_back("rank " + std::to_string(peer) + " (host " + std::string(1, static_cast<char>('a' + peer)) +
                            ", process 1)");
  }
  return request;
}

NetworkPair connect_verbs_pair(const std::array<NetworkEnd, 2> &ends, uint32_t pairs_per_rail) {
  Settings settings;
  settings.sockets = pairs_per_rail;
  return connect_pair([&](uint32_t rank, Store &store) {
    verbs::JoinRequest request = verbs_request(rank, 2, &settings);
    request.rdma_memory = ends[rank].memory;
    return verbs::make_network(ends[rank].links, request, store);
  });
}

}  // namespace rondo::net_test
