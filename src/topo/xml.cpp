// SPDX-License-Identifier: Apache-2.0
// Reads hwloc's XML (format 2): as much of it as a Topology needs, and of XML what hwloc writes: elements and
// attributes between double quotes, the five named entities, comments, a declaration and a document type. Text between
// elements is passed over. The nesting does not matter, since each object names the processors that it covers; it must
// only be balanced, so that a cut-off file is refused.
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "src/topo/machine.h"

namespace rondo {
namespace {

struct Attribute {
  std::string_view name;
  std::string_view value;  ///< entities are still in it
};

struct Tag {
  std::string_view name;
  bool opens = false;
  bool closes = false;  ///< "<a/>" does both
  std::vector<Attribute> attributes;

  [[nodiscard]] std::string_view attribute(std::string_view wanted) const {
    for (const Attribute &it : attributes)
      if (it.name == wanted) return it.value;
    return {};
  }
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

/// Goes over the text tag by tag; each call moves on, so the text's length bounds the calls.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  /// The next element's tag; nothing at the end, or where the text is no XML (then failed() is true).
  [[nodiscard]] std::optional<Tag> next() {
    while (skip_past("<")) {
      if (rest_.starts_with("?")) { if (!skip_past("?>")) return fail(); continue; }
      if (rest_.starts_with("!--")) { if (!skip_past("-->")) return fail(); continue; }
      if (rest_.starts_with("!")) { if (!skip_past(">")) return fail(); continue; }
      return tag();
    }
    return std::nullopt;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::nullopt_t fail() {
    failed_ = true;
    rest_ = {};
    return std::nullopt;
  }

  bool skip_past(std::string_view mark) {
    const size_t at = rest_.find(mark);
    if (at == rest_.npos) return false;
    rest_.remove_prefix(at + mark.size());
    return true;
  }

  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void skip_space() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }

  std::string_view name() {
    size_t length = 0;
    while (length < rest_.size() && is_name(rest_[length])) ++length;
    const std::string_view found = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return found;
  }

  std::optional<Tag> tag() {
    constexpr size_t attribute_count_max = 64;
    Tag tag;
    tag.closes = take('/');
    tag.opens = !tag.closes;
    tag.name = name();
    if (tag.name.empty()) return fail();
    for (size_t count = 0; count <= attribute_count_max; ++count) {
      skip_space();
      if (take('>')) return tag;
      if (take('/')) {
        tag.closes = true;
        if (!take('>')) return fail();
        return tag;
      }
      const auto found = attribute();
      if (!found) return fail();
      tag.attributes.push_back(*found);
    }
    return fail();
  }

  std::optional<Attribute> attribute() {
    Attribute found;
    found.name = name();
    skip_space();
    if (found.name.empty() || !take('=')) return std::nullopt;
    skip_space();
    if (!take('"')) return std::nullopt;
    const size_t end = rest_.find('"');
    if (end == rest_.npos || rest_.substr(0, end).find('<') != rest_.npos) return std::nullopt;
    found.value = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }

  std::string_view rest_;
  bool failed_ = false;
};

std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "0x00000001,,0x0000ffff": words of 32 bits, the highest first; an empty one is 0; "0xf...f" stands for ones up to
/// infinity before the words that follow.
std::optional<CpuSet> cpu_set(std::string_view text) {
  constexpr std::string_view endless = "0xf...f";
  constexpr uint32_t word_bits = 32;
  const bool is_endless = text.starts_with(endless);
  if (is_endless) text.remove_prefix(endless.size());
  if (is_endless && text.starts_with(",")) text.remove_prefix(1);
  CpuSet set;
  uint32_t first = 0;
  while (!text.empty()) {
    const size_t comma = text.rfind(',');
    std::string_view word = comma == text.npos ? text : text.substr(comma + 1);
    text = comma == text.npos ? std::string_view() : text.substr(0, comma);
    if (word.starts_with("0x")) word.remove_prefix(2);
    const auto bits = word.empty() ? std::optional<uint64_t>(0) : number(word, 16);
    if (!bits || *bits > 0xFFFF'FFFF || first > os_index_max) return std::nullopt;
    for (uint32_t bit = 0; bit < word_bits; ++bit)
      if ((*bits >> bit & 1) != 0) set.add(first + bit);
    first += word_bits;
  }
  for (uint32_t index = first; is_endless && index <= os_index_max; ++index) set.add(index);
  return set;
}

std::string without_entities(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> entities{
      {{"&quot;", '"'}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&apos;", '\''}}};
  std::string out;
  while (!text.empty()) {
    char character = text.front();
    size_t length = 1;
    for (const auto &[name, meaning] : entities)
      if (text.starts_with(name)) { character = meaning; length = name.size(); }
    out += character;
    text.remove_prefix(length);
  }
  return out;
}

struct TypeName {
  std::string_view name;
  PartKind kind;
  uint32_t level;
};
constexpr std::array type_names{
    TypeName{"Package", PartKind::package, 0}, TypeName{"NUMANode", PartKind::numa_node, 0},
    TypeName{"Core", PartKind::core, 0},       TypeName{"PU", PartKind::pu, 0},
    TypeName{"L1Cache", PartKind::cache, 1},   TypeName{"L2Cache", PartKind::cache, 2},
    TypeName{"L3Cache", PartKind::cache, 3},   TypeName{"L4Cache", PartKind::cache, 4},
    TypeName{"L5Cache", PartKind::cache, 5}};

/// Sets `target` from an attribute that may be missing; false where it is there and no number that fits.
template <class Target>
bool set_number(Target &target, std::string_view text) {
  if (text.empty()) return true;
  const auto value = number(text, 10);
  if (!value || *value > std::numeric_limits<Target>::max()) return false;
  target = static_cast<Target>(*value);
  return true;
}

/// An <object>: a part of the machine, or one of the many things that a Topology has no use for.
bool add_object(const Tag &tag, Machine &machine) {
  const std::string_view type = tag.attribute("type");
  if (type == "Machine") {
    const auto allowed = cpu_set(tag.attribute("allowed_cpuset"));
    if (allowed) machine.allowed = *allowed;
    return allowed.has_value();
  }
  for (const TypeName &known : type_names) {
    if (type != known.name) continue;
    Part part{.kind = known.kind, .level = known.level};
    auto cpus = cpu_set(tag.attribute("cpuset"));
    if (!cpus) return false;
    part.cpus = std::move(*cpus);
    const bool is_cache = known.kind == PartKind::cache;
    const bool numbers = set_number(part.os_index, tag.attribute("os_index")) &&
                         set_number(part.line_bytes, tag.attribute("cache_linesize")) &&
                         set_number(part.bytes, tag.attribute(is_cache ? "cache_size" : "local_memory"));
    machine.parts.push_back(std::move(part));
    return numbers && (known.kind != PartKind::pu || !tag.attribute("os_index").empty());
  }
  return true;
}

Error no_topology() { return invalid_argument("no <topology>, as hwloc writes it"); }

Result<Machine> read_machine(std::string_view xml) {
  constexpr size_t depth_max = 256;
  Machine machine;
  Scanner scanner(xml);
  size_t depth = 0;
  bool began = false;
  while (const auto tag = scanner.next()) {
    if (!began && (tag->name != "topology" || !tag->opens)) return no_topology();
    if (!began && !tag->attribute("version").starts_with("2."))
      return invalid_argument("not of version 2 of hwloc's format");
    if (began && depth == 0) return invalid_argument("something behind </topology>");
    began = true;
    if (tag->opens && tag->name == "object" && !add_object(*tag, machine))
      return invalid_argument("an <object> whose number or processors cannot be read");
    if (machine.parts.size() > part_count_max) return machine;  // assemble() refuses it
    if (tag->opens && tag->name == "info" && tag->attribute("name") == "CPUModel" && machine.processor.empty())
      machine.processor = without_entities(tag->attribute("value"));
    if (tag->opens) ++depth;
    if (tag->closes && depth-- == 0) return invalid_argument("an element that ends before it begins");
    if (depth > depth_max) return invalid_argument("elements in elements, too deep");
  }
  if (scanner.failed()) return invalid_argument("not XML, as hwloc writes it");
  if (!began) return no_topology();
  if (depth != 0) return invalid_argument("cut off: an element does not end");
  return machine;
}

Result<Topology> read_topology(std::string_view xml) {
  if (xml.size() > xml_bytes_max) return invalid_argument("larger than 16M bytes");
  RONDO_TRY_ASSIGN(const Machine machine, read_machine(xml));
  return assemble(machine);
}

}  // namespace

Result<Topology> import_topology(std::string_view xml) {
  auto topology = read_topology(xml);
  if (!topology.ok())
    return invalid_argument(topology.error().message +
                            "; make a file by `rondo info --topology-xml F` or `lstopo F.xml`");
  topology.value().injected = true;
  return topology;
}

}  // namespace rondo
