// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/host_list.h"

#include <algorithm>

#include "src/base/parse.h"

namespace rondo::cli {
namespace {

constexpr uint64_t rank_count_max = 1024;  // of a host; the options bound the sum

Error refuse(std::string_view entry, const char *why) {
  return invalid_argument("--hosts wants HOST or HOST:RANKS, several with commas between (a:2,b:2), not '" +
                          std::string(entry) + "': " + why);
}

/// Returns false for a host that ssh or a shell would take for something other than a name.
bool is_name(std::string_view host) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(".-_:@%").find(c) != std::string_view::npos;
  };
  return !host.empty() && host.front() != '-' && std::all_of(host.begin(), host.end(), plain);
}

Result<HostShare> parse_host(std::string_view entry) {
  std::string_view host = entry;
  std::string_view count;
  if (entry.starts_with('[')) {  // an IPv6 address, whose colons are its own
    const size_t close = entry.find(']');
    if (close == entry.npos) return refuse(entry, "the bracket is not closed");
    host = entry.substr(1, close - 1);
    const std::string_view rest = entry.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse(entry, "behind the bracket comes a colon");
    count = rest;
  } else if (const size_t colon = entry.find(':'); colon != entry.npos) {
    host = entry.substr(0, colon);
    count = entry.substr(colon);
  }
  if (!is_name(host)) return refuse(entry, "that is no name of a host");
  HostShare share{std::string(host), 1};
  if (count.empty()) return share;
  const auto ranks = parse_number(std::string(count.substr(1)), 1, rank_count_max);
  if (!ranks.ok()) return refuse(entry, "behind the colon comes a number of ranks, 1 to 1024");
  share.rank_count = static_cast<uint32_t>(ranks.value());
  return share;
}

}  // namespace

Result<std::vector<HostShare>> parse_hosts(std::string_view text) {
  std::vector<HostShare> hosts;
  while (true) {  // one entry a turn
    const size_t comma = text.find(',');
    RONDO_TRY_ASSIGN(HostShare share, parse_host(text.substr(0, comma)));
    const auto same = [&](const HostShare &other) { return other.host == share.host; };
    if (std::any_of(hosts.begin(), hosts.end(), same))
      return refuse(share.host, "it is named twice; give the host one number of ranks");
    hosts.push_back(std::move(share));
    if (comma == text.npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace rondo::cli
