// SPDX-License-Identifier: Apache-2.0
#include "tests/net/ucx_pair.h"

#include <cstdio>
#include <cstdlib>

#include "src/base/clock.h"

namespace rondo::net_test {

bool ucx_is_there() {
  static const bool there = [] {
    ::setenv("UCX_TLS", "tcp,self", 1);  // for this test only: networks between hosts also obey this variable
    ::setenv("UCX_NET_DEVICES", "lo", 1);
    const ucx::Report report = ucx::look_for_ucx();
    if (!report.why_not.empty()) std::printf("skipped: networks over UCX: %s\n", report.why_not.c_str());
    return report.why_not.empty();
  }();
  return there;
}

ucx::JoinRequest ucx_request(uint32_t rank) {
  static const Settings settings;
  static const GroupInfo group;
  ucx::JoinRequest request{{rank, 2, settings, group, {}, "test", now_ns() + 60'000'000'000}};
  request.linked = {rank != 0, rank != 1};
  request.names = {"rank 0 (host a, process 1)", "rank 1 (host b, process 1)"};
  request.secret.bytes.fill(std::byte{7});
  return request;
}

NetworkPair connect_ucx_pair(const std::array<NetworkEnd, 2> &ends, const char *rendezvous_bytes) {
  ::setenv("UCX_RNDV_THRESH", rendezvous_bytes, 1);
  return connect_pair([&](uint32_t rank, Store &store) {
    ucx::JoinRequest request = ucx_request(rank);
    request.rdma_memory = ends[rank].memory;
    return ucx::make_network(ends[rank].links, request, store);
  });
}

}  // namespace rondo::net_test
