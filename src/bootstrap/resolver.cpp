// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/resolver.h"

#include <algorithm>

#include "src/base/log.h"

namespace rondo {
namespace {

constexpr uint64_t lookup_interval_ns = 1'000'000'000;
constexpr uint64_t cancel_poll_ns = 100'000'000;

}  // namespace

void Resolver::look_up(uint64_t now_ns) {
  if (now_ns < due_ns_) return;
  const bool first = due_ns_ == 0;
  const bool name = is_name();
  addresses_ = addresses_of(endpoint_);
  due_ns_ = name ? rondo::now_ns() + lookup_interval_ns : ~uint64_t{0};  // counted from now, as a lookup may take long
  if (!first || addresses_.ok()) return;
  log::warning(log::Subsystem::bootstrap,
               addresses_.error().message + (name ? "; it is looked up again until init_timeout_ms has passed" : ""));
}

Result<SocketAddress> Resolver::next(uint64_t now_ns) {
  look_up(now_ns);
  if (!addresses_.ok()) return addresses_.error();
  return addresses_.value()[next_++ % addresses_.value().size()];
}

Result<std::vector<SocketAddress>> Resolver::wait(uint64_t deadline_ns, const Cancel *cancel) {
  while (true) {  // ends at the deadline
    look_up(now_ns());
    if (addresses_.ok() || !is_name()) return addresses_;
    if (cancel != nullptr && cancel->requested())
      return Error{RONDO_ERROR_ABORTED, "it was aborted here before the communicator was made"};
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return Error{RONDO_ERROR_TIMEOUT, addresses_.error().message};
    sleep_for_ns(std::min(cancel_poll_ns, deadline_ns - now));
  }
}

}  // namespace rondo
