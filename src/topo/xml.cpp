// SPDX-License-Identifier: Apache-2.0
// This file reads hwloc's XML (formats 2 and 3), as far as a Topology needs it, and the devices that Rondo adds. The
// nesting of elements shows which bridges and processors are above a PCI device. Other objects name the processors that
// they cover. The nesting must be balanced, so that a cut-off file is refused.
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/parse.h"
#include "src/topo/machine.h"
#include "src/topo/xml_scanner.h"

namespace rondo {
namespace {

std::optional<uint64_t> number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Parses a set such as "0x00000001,,0x0000ffff": words of 32 bits, the highest first. An empty word is 0. A leading
/// "0xf...f" means that all bits above the following words are set.
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

struct TypeName {
  std::string_view name;
  PartKind kind;
  uint32_t level;
};
constexpr std::array type_names{TypeName{"Package", PartKind::package, 0}, TypeName{"NUMANode", PartKind::numa_node, 0},
                                TypeName{"Core", PartKind::core, 0},       TypeName{"PU", PartKind::pu, 0},
                                TypeName{"L1Cache", PartKind::cache, 1},   TypeName{"L2Cache", PartKind::cache, 2},
                                TypeName{"L3Cache", PartKind::cache, 3},   TypeName{"L4Cache", PartKind::cache, 4},
                                TypeName{"L5Cache", PartKind::cache, 5}};

/// Sets `target` from an attribute, which may be missing. Returns false if the attribute is no number, or does not fit.
template <class Target>
bool set_number(Target &target, std::string_view text) {
  if (text.empty()) return true;
  const auto value = number(text, 10);
  if (!value || *value > std::numeric_limits<Target>::max()) return false;
  target = static_cast<Target>(*value);
  return true;
}

/// The properties that the objects around an element give to it. Each comes from the innermost such object that has it.
struct Frame {
  std::string_view cpus;            ///< processors that an object covers; empty if no object names any
  uint32_t bridge = unknown_index;  ///< index in Machine::bridges
  uint32_t device = unknown_index;  ///< index in Machine::devices, if the element itself is a device
  std::string_view pci;             ///< address of the enclosing PCI function, or empty
};

/// Returns whether the type is a display controller of NVIDIA, such as "0302 [10de:2330] [10de:16c1] a1".
bool is_gpu(std::string_view pci_type) {
  return pci_type.size() > 4 && pci_type.starts_with("03") && pci_type.substr(4).starts_with(" [10de:");
}

class MachineReader {
 public:
  /// Reads the next tag of the text.
  [[nodiscard]] Result<void> take(const XmlTag &tag) {
    if (!began_) RONDO_TRY(check_root(tag));
    if (began_ && frames_.empty()) return invalid_argument("something follows </topology>");
    began_ = true;
    if (tag.opens) RONDO_TRY(open(tag));
    if (!tag.closes) return {};
    if (frames_.empty()) return invalid_argument("an element that ends before it begins");
    frames_.pop_back();
    return {};
  }

  /// Returns the machine. Call it after the last tag.
  [[nodiscard]] Result<Machine> finish() {
    if (!began_) return no_topology();
    if (!frames_.empty()) return invalid_argument("cut off: an element does not end");
    return std::move(machine_);
  }

 private:
  static Error no_topology() { return invalid_argument("no <topology>, as hwloc writes it"); }

  Result<void> check_root(const XmlTag &tag) {
    if (tag.name != "topology" || !tag.opens) return no_topology();
    const std::string_view version = tag.attribute("version");
    third_format_ = version.starts_with("3.");
    if (third_format_ || version.starts_with("2.")) return {};
    return invalid_argument("version " + in_quotes(version) + " of hwloc's format; versions 2 and 3 can be read");
  }

  Result<void> open(const XmlTag &tag) {
    constexpr size_t depth_max = 256;
    Frame frame = frames_.empty() ? Frame() : frames_.back();
    if (tag.name == "info") RONDO_TRY(read_info(tag, frame.device));
    frame.device = unknown_index;
    if (tag.name == "object") RONDO_TRY(open_object(tag, frame));
    if (frames_.size() == depth_max) return invalid_argument("elements in elements, too deep");
    frames_.push_back(frame);
    return check_counts(machine_);
  }

  /// Opens a part of the machine, or one of the many objects that a Topology does not need.
  Result<void> open_object(const XmlTag &tag, Frame &frame) {
    const std::string_view type = tag.attribute("type");
    if (type == "Bridge") {
      machine_.bridges.push_back({frame.bridge, tag.attribute("bridge_type").starts_with("0-")});
      frame.bridge = static_cast<uint32_t>(machine_.bridges.size() - 1);
      return {};
    }
    if (type == "PCIDev") frame.pci = tag.attribute("pci_busid");
    if (type == "PCIDev" && is_gpu(tag.attribute("pci_type"))) return add_device(frame.pci, frame);
    if (type == "OSDev") return add_nic(tag, frame);
    const std::string_view name = tag.attribute("name");
    if (type == "Misc" && name.starts_with(device_mark)) {  // hwloc does not see this device: its position is unknown
      Frame nowhere;
      RONDO_TRY(add_device(name.substr(device_mark.size()), nowhere));
      frame.device = nowhere.device;
      return {};
    }
    if (!tag.attribute("cpuset").empty()) frame.cpus = tag.attribute("cpuset");
    if (!add_part(tag)) return invalid_argument("an <object> whose number or processors cannot be read");
    return {};
  }

  Result<void> add_device(std::string_view address, Frame &frame) {
    DevicePart part;
    const auto parsed = parse_pci_address(address);
    if (!parsed) return invalid_argument("a device at " + in_quotes(address) + ", which is no PCI address");
    auto cpus = cpu_set(frame.cpus);
    if (!cpus) return invalid_argument("an <object> whose number or processors cannot be read");
    part.device.address = *parsed;
    part.device.bridge = frame.bridge;
    part.cpus = std::move(*cpus);
    machine_.devices.push_back(std::move(part));
    frame.device = static_cast<uint32_t>(machine_.devices.size() - 1);
    return {};
  }

  /// Returns the kind of a network card, if `type` is the type of a network interface or of an RDMA device. Format 2
  /// has a number for each type. Format 3 has a bit for each type, and RDMA devices have both bits.
  [[nodiscard]] std::optional<NicKind> nic_kind(std::string_view type) const {
    const auto value = number(type, 10);
    if (!value) return std::nullopt;
    constexpr uint64_t network = 2, open_fabrics = 3, network_bit = 1 << 4, open_fabrics_bit = 1 << 5;
    const bool rdma = third_format_ ? (*value & open_fabrics_bit) != 0 : *value == open_fabrics;
    const bool nic = third_format_ ? (*value & network_bit) != 0 : *value == network;
    return rdma ? std::optional(NicKind::rdma) : nic ? std::optional(NicKind::network) : std::nullopt;
  }

  /// Adds a network card: a network interface or an RDMA device of a PCI function.
  Result<void> add_nic(const XmlTag &tag, const Frame &frame) {
    const std::optional<NicKind> kind = nic_kind(tag.attribute("osdev_type"));
    if (!kind || frame.pci.empty()) return {};
    NicPart part;
    const auto address = parse_pci_address(frame.pci);
    auto cpus = cpu_set(frame.cpus);
    if (!address || !cpus) return invalid_argument("a network card whose PCI address or processors cannot be read");
    part.nic.name = without_entities(tag.attribute("name"));
    part.nic.kind = *kind;
    part.nic.address = *address;
    part.nic.bridge = frame.bridge;
    part.cpus = std::move(*cpus);
    machine_.nics.push_back(std::move(part));
    return {};
  }

  /// Adds a part. Returns false if a number or a set of processors cannot be read.
  [[nodiscard]] bool add_part(const XmlTag &tag) {
    const std::string_view type = tag.attribute("type");
    if (type == "Machine") {
      const auto allowed = cpu_set(tag.attribute("allowed_cpuset"));
      if (allowed) machine_.allowed = *allowed;
      return allowed.has_value();
    }
    for (const TypeName &known : type_names) {
      if (type != known.name) continue;
      MachinePart part{.kind = known.kind, .level = known.level};
      auto cpus = cpu_set(tag.attribute("cpuset"));
      if (!cpus) return false;
      part.cpus = std::move(*cpus);
      const bool is_cache = known.kind == PartKind::cache;
      const bool numbers = set_number(part.os_index, tag.attribute("os_index")) &&
                           set_number(part.line_bytes, tag.attribute("cache_linesize")) &&
                           set_number(part.bytes, tag.attribute(is_cache ? "cache_size" : "local_memory"));
      machine_.parts.push_back(std::move(part));
      return numbers && (known.kind != PartKind::pu || !tag.attribute("os_index").empty());
    }
    return true;
  }

  /// Reads <info name="..." value="..."/>, which belongs to the enclosing object. `device` is the index of that object
  /// if it is a device.
  Result<void> read_info(const XmlTag &tag, uint32_t device) {
    const std::string_view name = tag.attribute("name");
    const std::string value = without_entities(tag.attribute("value"));
    if (name == "CPUModel" && machine_.processor.empty()) machine_.processor = value;
    if (device == unknown_index) return {};
    Device &target = machine_.devices[device].device;
    if (name == device_uuid_info) target.uuid = value;
    if (name != device_nvlinks_info) return {};
    auto links = parse_nvlinks(value);
    if (!links)
      return invalid_argument("device " + pci_address_string(target.address) + ": " + device_nvlinks_info + " is " +
                              in_quotes(value) +
                              ", not 'none' or a list like 'device 0000:02:00.0 x4 v6, switch x18 v6'");
    target.nvlinks = std::move(*links);
    target.nvlinks_known = true;
    return {};
  }

  Machine machine_;
  std::vector<Frame> frames_;
  bool began_ = false;
  bool third_format_ = false;
};

Result<Machine> read_machine(std::string_view xml) {
  MachineReader reader;
  XmlScanner scanner(xml);
  while (const auto tag = scanner.next()) RONDO_TRY(reader.take(*tag));
  if (scanner.failed()) return invalid_argument("not XML, as hwloc writes it");
  return reader.finish();
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
                            "; make a file by `rondo info --topology-xml F`, or by `lstopo F.xml` of hwloc 2 or 3");
  topology.value().injected = true;
  return topology;
}

}  // namespace rondo
