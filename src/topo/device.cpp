// SPDX-License-Identifier: Apache-2.0
// This file writes properties of a device as text, and reads them again. The text may come from an untrusted file.
#include "src/topo/device.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace rondo {
namespace {

/// Reads `text` as a number of at most `most`. Fails if other characters are left.
template <class Target>
bool read_number(std::string_view text, int base, uint64_t most, Target &target) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end != text.data() + text.size() || value > most) return false;
  target = static_cast<Target>(value);
  return true;
}

/// Removes the text up to `separator`, and the separator. Returns that text. Without a separator, takes all text.
std::string_view take(std::string_view &text, std::string_view separator) {
  const size_t end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + separator.size());
  return piece;
}

/// Reads text such as "x4", a letter and a number; `tag` is the letter.
bool read_tagged(std::string_view text, char tag, uint32_t most, uint32_t &target) {
  return text.size() >= 2 && text.front() == tag && read_number(text.substr(1), 10, most, target);
}

/// Parses an entry such as "switch 0000:c5:00.0 x18 v7".
std::optional<NvLinks> parse_entry(std::string_view text) {
  constexpr uint32_t version_max = 1'000'000;
  NvLinks links;
  const std::string_view end = take(text, " ");
  if (end != nvlink_end_string(NvLinkEnd::device) && end != nvlink_end_string(NvLinkEnd::nvswitch)) return std::nullopt;
  links.end = end == nvlink_end_string(NvLinkEnd::device) ? NvLinkEnd::device : NvLinkEnd::nvswitch;
  std::string_view word = take(text, " ");
  links.address = parse_pci_address(word);
  if (links.address) word = take(text, " ");
  const bool is_read = read_tagged(word, 'x', nvlink_count_max, links.count) && links.count > 0 &&
                       read_tagged(text, 'v', version_max, links.version);
  if (!is_read || (links.end == NvLinkEnd::device && !links.address)) return std::nullopt;
  return links;
}

}  // namespace

std::string pci_address_string(const PciAddress &address) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", address.domain, unsigned{address.bus},
                unsigned{address.device}, unsigned{address.function});
  return text.data();
}

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  PciAddress address;
  const std::string_view domain = take(text, ":");
  const std::string_view bus = take(text, ":");
  const std::string_view device = take(text, ".");
  const bool is_shaped = domain.size() <= 8 && bus.size() == 2 && device.size() == 2 && text.size() == 1;
  if (!is_shaped || !read_number(domain, 16, UINT32_MAX, address.domain) || !read_number(bus, 16, 0xFF, address.bus) ||
      !read_number(device, 16, 0x1F, address.device) || !read_number(text, 16, 7, address.function))
    return std::nullopt;
  return address;
}

const char *nic_kind_string(NicKind kind) { return kind == NicKind::rdma ? "rdma" : "network"; }

const char *nvlink_end_string(NvLinkEnd end) { return end == NvLinkEnd::device ? "device" : "switch"; }

std::string nvlinks_string(std::span<const NvLinks> links) {
  std::string text;
  for (const NvLinks &each : links) {
    if (!text.empty()) text += ", ";
    text += nvlink_end_string(each.end);
    if (each.address) text += " " + pci_address_string(*each.address);
    text += " x" + std::to_string(each.count) + " v" + std::to_string(each.version);
  }
  return text.empty() ? "none" : text;
}

std::optional<std::vector<NvLinks>> parse_nvlinks(std::string_view text) {
  std::vector<NvLinks> links;
  if (text == "none") return links;
  if (text.empty()) return std::nullopt;
  uint32_t count = 0;
  while (!text.empty()) {
    const auto entry = parse_entry(take(text, ", "));
    if (!entry) return std::nullopt;
    count += entry->count;  // each count is at least 1, so this also limits the number of entries
    if (count > nvlink_count_max) return std::nullopt;
    add_nvlinks(links, *entry);
  }
  return links;
}

void add_nvlinks(std::vector<NvLinks> &links, const NvLinks &more) {
  for (NvLinks &known : links) {
    if (known.end != more.end || known.address != more.address || known.version != more.version) continue;
    known.count += more.count;
    return;
  }
  links.push_back(more);
}

}  // namespace rondo
