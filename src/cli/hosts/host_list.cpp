// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/host_list.h"

#include <algorithm>
#include <sstream>

#include "src/base/parse.h"

namespace rondo::cli {
namespace {

constexpr uint64_t rank_count_max = 1024;  // per host; the options bound the sum
constexpr uint64_t range_host_count_max = 1024, range_number_max = 99'999'999;

using Names = std::vector<std::string>;

/// Returns whether ssh and a shell take the text as a host name, without a special meaning.
bool is_name(std::string_view host) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(".-_:@%").find(c) != std::string_view::npos;
  };
  return !host.empty() && host.front() != '-' && std::all_of(host.begin(), host.end(), plain);
}

/// Appends a name for each number of a range such as "01-03", or for one number such as "07". A name is `begin`, the
/// number and `end`. All numbers have as many digits as the first.
Result<void> expand_part(std::string_view part, std::string_view begin, std::string_view end, Names &names) {
  const std::string_view first = part.substr(0, part.find('-'));
  const std::string_view last = first.size() == part.size() ? first : part.substr(first.size() + 1);
  RONDO_TRY_ASSIGN(const uint64_t from, parse_number(first, 0, range_number_max));
  RONDO_TRY_ASSIGN(const uint64_t to, parse_number(last, 0, range_number_max));
  if (to < from || to - from >= range_host_count_max - names.size())
    return invalid_argument("a range must ascend, and a list has at most 1024 hosts");
  for (uint64_t number = from; number <= to; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    names.push_back(std::string(begin) + digits + std::string(end));
  }
  return {};
}

/// Returns the hosts of "node[01-03,07]". A plain name stands for itself.
Result<Names> expand(std::string_view host) {
  const size_t open = host.find('[');
  if (open == host.npos) return Names{std::string(host)};
  const size_t close = host.find(']', open);
  if (close == host.npos) return invalid_argument("the bracket is not closed");
  Names names;
  for (std::string_view rest = host.substr(open + 1, close - open - 1);;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (!expand_part(rest.substr(0, comma), host.substr(0, open), host.substr(close + 1), names).ok())
      return invalid_argument("a range consists of numbers, as in node[01-03,07], and has at most 1024 hosts");
    if (comma == rest.size()) return names;
    rest.remove_prefix(comma + 1);
  }
}

Result<uint32_t> parse_count(std::string_view text) {
  const auto ranks = parse_number(text, 1, rank_count_max);
  if (!ranks.ok()) return invalid_argument("after the colon, give a number of ranks from 1 to 1024");
  return static_cast<uint32_t>(ranks.value());
}

/// Parses "a", "a:2", "[2001:db8::1]:2" or "node[01-03]:2".
Result<std::vector<HostShare>> parse_entry(std::string_view entry) {
  Names names;
  std::string_view count;
  if (entry.starts_with('[')) {  // an IPv6 address, which contains colons
    const size_t close = entry.find(']');
    if (close == entry.npos) return invalid_argument("the bracket is not closed");
    names.emplace_back(entry.substr(1, close - 1));
    count = entry.substr(close + 1);
    if (!count.empty() && count.front() != ':') return invalid_argument("only a colon may follow the bracket");
  } else {
    const size_t colon = std::min(entry.find(':'), entry.size());
    RONDO_TRY_ASSIGN(names, expand(entry.substr(0, colon)));
    count = entry.substr(colon);
  }
  uint32_t ranks = 1;
  if (!std::all_of(names.begin(), names.end(), is_name)) return invalid_argument("that is not the name of a host");
  if (!count.empty()) {
    RONDO_TRY_ASSIGN(ranks, parse_count(count.substr(1)));
  }
  std::vector<HostShare> shares;
  for (std::string &name : names) shares.push_back({std::move(name), ranks});
  return shares;
}

/// Returns the end of the first entry of a list: a comma outside brackets.
size_t end_of_entry(std::string_view list) {
  bool within = false;
  for (size_t at = 0; at < list.size(); ++at) {
    if (list[at] == '[' || list[at] == ']') within = list[at] == '[';
    if (list[at] == ',' && !within) return at;
  }
  return list.size();
}

HostShare *find_host(std::vector<HostShare> &hosts, const std::string &name) {
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const HostShare &each) { return each.host == name; });
  return found == hosts.end() ? nullptr : &*found;
}

/// Parses the words of a line of a host file, which has at least one.
Result<std::vector<HostShare>> parse_line(std::istringstream &words) {
  constexpr std::string_view slots = "slots=", bound = "max_slots=";
  std::string word;
  words >> word;
  RONDO_TRY_ASSIGN(std::vector<HostShare> shares, parse_entry(word));
  while (words >> word) {
    const std::string_view setting = word;
    if (setting.starts_with(bound)) continue;  // there are never more ranks than slots
    if (!setting.starts_with(slots)) return invalid_argument("after the host, give slots=N, not " + in_quotes(setting));
    RONDO_TRY_ASSIGN(const uint32_t ranks, parse_count(setting.substr(slots.size())));
    for (HostShare &share : shares) share.rank_count = ranks;
  }
  return shares;
}

}  // namespace

Result<std::vector<HostShare>> parse_hosts(std::string_view text) {
  const auto refuse = [](std::string_view entry, const std::string &why) {
    return invalid_argument("--hosts wants HOST or HOST:RANKS, several with commas between (a:2,b:2), not '" +
                            std::string(entry) + "': " + why);
  };
  std::vector<HostShare> hosts;
  while (true) {  // one entry a turn
    const size_t comma = end_of_entry(text);
    auto shares = parse_entry(text.substr(0, comma));
    if (!shares.ok()) return refuse(text.substr(0, comma), shares.error().message);
    for (HostShare &share : shares.value()) {
      if (find_host(hosts, share.host) != nullptr)
        return refuse(share.host, "it is named twice; give the host one number of ranks");
      hosts.push_back(std::move(share));
    }
    if (comma == text.size()) return hosts;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<HostShare>> parse_hostfile(std::string_view text) {
  std::vector<HostShare> hosts;
  std::istringstream lines{std::string(text)};
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    std::istringstream words(line);
    auto shares = parse_line(words);
    if (!shares.ok())
      return invalid_argument("line " + std::to_string(number) + ", " + in_quotes(line) + ": " +
                              shares.error().message);
    for (HostShare &share : shares.value()) {
      HostShare *const known = find_host(hosts, share.host);
      if (known != nullptr) known->rank_count += share.rank_count;
      else hosts.push_back(std::move(share));
    }
  }
  if (hosts.empty()) return invalid_argument("no line names a host");
  return hosts;
}

}  // namespace rondo::cli
