// SPDX-License-Identifier: Apache-2.0
// The only file that knows hwloc. XML from a stranger comes through here: sizes and counts are bounded, and everything
// that hwloc says is looked at before it is used as an index.
#include "src/topo/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>

#include "src/base/parse.h"
#include "src/base/unique_handle.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

constexpr size_t xml_bytes_max = size_t{16} << 20;
constexpr int object_count_max = 8192;  // of one type; the largest machines have some 2,000 PUs

struct HwlocTraits {
  using Handle = hwloc_topology_t;
  static constexpr Handle invalid = nullptr;
  static void close(Handle handle) { hwloc_topology_destroy(handle); }
};
using Hwloc = UniqueHandle<HwlocTraits>;

enum class Detail { processors, everything };

/// Loads this machine, or `xml` where it is given.
Result<Hwloc> load(const std::string *xml, Detail detail) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{RONDO_ERROR_OUT_OF_RESOURCES, "hwloc cannot begin"};
  Hwloc hwloc(raw);
  const auto filter = detail == Detail::everything ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE;
  hwloc_topology_set_io_types_filter(raw, filter);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);  // marked as such, not left out
  if (xml != nullptr && hwloc_topology_set_xmlbuffer(raw, xml->c_str(), static_cast<int>(xml->size() + 1)) != 0)
    return invalid_argument("not hwloc XML");
  if (hwloc_topology_load(raw) != 0) {
    if (xml != nullptr) return invalid_argument("not a topology that hwloc can load");
    return system_error("hwloc cannot look at this machine", errno);
  }
  return hwloc;
}

/// The objects of a type, or nothing when there are more than any machine has.
std::optional<std::vector<hwloc_obj_t>> objects(hwloc_topology_t hwloc, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(hwloc, type);
  if (count > object_count_max) return std::nullopt;
  std::vector<hwloc_obj_t> found;
  for (int index = 0; index < count; ++index)
    if (hwloc_obj_t object = hwloc_get_obj_by_type(hwloc, type, static_cast<unsigned>(index));
        object != nullptr && object->cpuset != nullptr)
      found.push_back(object);
  return found;
}

std::vector<uint32_t> pus_within(const std::vector<hwloc_obj_t> &pus, hwloc_const_bitmap_t cpuset) {
  std::vector<uint32_t> inside;
  for (uint32_t index = 0; index < pus.size(); ++index)
    if (hwloc_bitmap_isset(cpuset, pus[index]->os_index)) inside.push_back(index);
  return inside;
}

/// Fills `topology` from hwloc's objects. Each add_* is false when there are too many of them.
class Reader {
 public:
  Reader(hwloc_topology_t hwloc, Topology &topology) : hwloc_(hwloc), topology_(topology) {}

  [[nodiscard]] bool add_pus() {
    const auto found = objects(hwloc_, HWLOC_OBJ_PU);
    if (!found || found->empty()) return false;
    pus_ = *found;
    const hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(hwloc_);
    for (const hwloc_obj_t pu : pus_)
      topology_.pus.push_back({pu->os_index, 0, 0, allowed == nullptr || hwloc_bitmap_isset(allowed, pu->os_index)});
    return true;
  }

  /// A machine whose cores are not known (some virtual ones) has one a PU.
  [[nodiscard]] bool add_cores() {
    const auto cores = objects(hwloc_, HWLOC_OBJ_CORE);
    const auto packages = objects(hwloc_, HWLOC_OBJ_PACKAGE);
    if (!cores || !packages) return false;
    topology_.package_count = std::max<uint32_t>(static_cast<uint32_t>(packages->size()), 1);
    std::vector<bool> placed(pus_.size(), false);
    for (const hwloc_obj_t core : *cores) add_core(pus_within(pus_, core->cpuset), placed);
    for (uint32_t pu = 0; pu < pus_.size(); ++pu)
      if (!placed[pu]) add_core({pu}, placed);
    for (uint32_t package = 0; package < packages->size(); ++package)
      for (Core &core : topology_.cores)
        if (hwloc_bitmap_isset((*packages)[package]->cpuset, pus_[core.pus.front()]->os_index)) core.package = package;
    return true;
  }

  [[nodiscard]] bool add_caches() {
    for (const hwloc_obj_type_t type :
         {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
      const auto caches = objects(hwloc_, type);
      if (!caches) return false;
      for (const hwloc_obj_t cache : *caches) {
        if (cache->attr == nullptr) continue;
        const auto &attributes = cache->attr->cache;
        topology_.caches.push_back({static_cast<uint32_t>(type - HWLOC_OBJ_L1CACHE) + 1, attributes.size,
                                    attributes.linesize, pus_within(pus_, cache->cpuset)});
      }
    }
    return true;
  }

  [[nodiscard]] bool add_numa_nodes() {
    const auto nodes = objects(hwloc_, HWLOC_OBJ_NUMANODE);
    if (!nodes) return false;
    for (const hwloc_obj_t node : *nodes) {
      const uint64_t bytes = node->attr != nullptr ? node->attr->numanode.local_memory : 0;
      topology_.numa_nodes.push_back({node->os_index, bytes, pus_within(pus_, node->cpuset)});
      if (bytes > std::numeric_limits<uint64_t>::max() - topology_.memory_bytes) return false;
      topology_.memory_bytes += bytes;
    }
    for (uint32_t node = 0; node < topology_.numa_nodes.size(); ++node)
      for (const uint32_t pu : topology_.numa_nodes[node].pus) topology_.pus[pu].numa_node = node;
    return true;
  }

  void add_processor_name() {
    const auto packages = objects(hwloc_, HWLOC_OBJ_PACKAGE);
    hwloc_obj_t holder = packages && !packages->empty() ? packages->front() : hwloc_get_root_obj(hwloc_);
    const char *name = holder != nullptr ? hwloc_obj_get_info_by_name(holder, "CPUModel") : nullptr;
    for (const char *at = name; at != nullptr && *at != '\0' && topology_.processor.size() < 128; ++at)
      topology_.processor += *at >= ' ' && *at <= '~' ? *at : '?';
  }

 private:
  /// A PU belongs to the first core that names it: XML may say otherwise, hardware does not.
  void add_core(const std::vector<uint32_t> &pus, std::vector<bool> &placed) {
    Core core;
    for (const uint32_t pu : pus) {
      if (placed[pu]) continue;
      placed[pu] = true;
      core.pus.push_back(pu);
      topology_.pus[pu].core = static_cast<uint32_t>(topology_.cores.size());
    }
    if (!core.pus.empty()) topology_.cores.push_back(std::move(core));
  }

  hwloc_topology_t hwloc_;
  Topology &topology_;
  std::vector<hwloc_obj_t> pus_;
};

Result<Topology> read(const Hwloc &hwloc) {
  Topology topology;
  Reader reader(hwloc.get(), topology);
  if (!reader.add_pus() || !reader.add_cores() || !reader.add_caches() || !reader.add_numa_nodes())
    return invalid_argument("a topology without processors, or with more than " + std::to_string(object_count_max) +
                            " objects of a kind");
  reader.add_processor_name();
  return topology;
}

/// Takes away what this process's affinity leaves out.
void apply_affinity(Topology &topology) {
  constexpr int cpu_count_max = 1 << 16;
  cpu_set_t *set = CPU_ALLOC(cpu_count_max);
  if (set == nullptr) return;
  const size_t set_bytes = CPU_ALLOC_SIZE(cpu_count_max);
  if (::sched_getaffinity(0, set_bytes, set) == 0)
    for (Pu &pu : topology.pus) pu.allowed = pu.allowed && CPU_ISSET_S(pu.os_index, set_bytes, set);
  CPU_FREE(set);
}

Result<std::string> read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error("RONDO_TOPOLOGY_FILE: cannot open " + quoted(path), errno);
  std::string text(xml_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return system_error("RONDO_TOPOLOGY_FILE: cannot read " + quoted(path), errno);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// Says of which file an import's failure is.
Error of_file(const std::string &path, Error error) {
  error.message = "RONDO_TOPOLOGY_FILE: " + quoted(path) + ": " + error.message;
  return error;
}

Result<Hwloc> load_xml(const std::string &xml, Detail detail) {
  const auto refuse = [](const std::string &why) {
    return invalid_argument(why + "; make a file by `rondo info --topology-xml F` or `lstopo F.xml`");
  };
  if (xml.size() > xml_bytes_max) return refuse("larger than " + show_bytes(xml_bytes_max) + " bytes");
  if (xml.find('\0') != xml.npos) return refuse("not XML: it has a zero byte in it");
  auto hwloc = load(&xml, detail);
  if (!hwloc.ok()) return refuse(hwloc.error().message);
  return hwloc;
}

}  // namespace

Result<Topology> import_topology(std::string_view xml) {
  RONDO_TRY_ASSIGN(const Hwloc hwloc, load_xml(std::string(xml), Detail::processors));
  RONDO_TRY_ASSIGN(Topology topology, read(hwloc));
  topology.injected = true;
  return topology;
}

Result<Topology> discover_topology(const Config &config) {
  if (!config.topology_file.empty()) {
    RONDO_TRY_ASSIGN(const std::string xml, read_file(config.topology_file));
    auto imported = import_topology(xml);
    if (!imported.ok()) return of_file(config.topology_file, std::move(imported).error());
    return imported;
  }
  RONDO_TRY_ASSIGN(const Hwloc hwloc, load(nullptr, Detail::processors));
  RONDO_TRY_ASSIGN(Topology topology, read(hwloc));
  topology.injected = hwloc_topology_is_thissystem(hwloc.get()) == 0;  // hwloc has variables of its own for that
  if (!topology.injected) {
    apply_affinity(topology);
    topology.processor_limit = processor_limit();
  }
  return topology;
}

Result<std::string> export_topology_xml(const Config &config) {
  std::string xml;
  if (!config.topology_file.empty()) {
    RONDO_TRY_ASSIGN(xml, read_file(config.topology_file));
  }
  auto loaded = config.topology_file.empty() ? load(nullptr, Detail::everything) : load_xml(xml, Detail::everything);
  if (!loaded.ok() && !config.topology_file.empty()) return of_file(config.topology_file, std::move(loaded).error());
  RONDO_TRY_ASSIGN(const Hwloc hwloc, std::move(loaded));
  char *text = nullptr;
  int bytes = 0;
  if (hwloc_topology_export_xmlbuffer(hwloc.get(), &text, &bytes, 0) != 0)
    return system_error("hwloc cannot write the topology as XML", errno);
  std::string out(text);
  hwloc_free_xmlbuffer(hwloc.get(), text);
  return out;
}

uint32_t usable_core_count(const Topology &topology) {
  const auto allowed = allowed_os_indices(topology);
  return usable_core_count(topology, allowed);
}

uint32_t usable_core_count(const Topology &topology, std::span<const uint32_t> os_indices) {
  std::vector<bool> used(topology.cores.size(), false);
  for (const Pu &pu : topology.pus)
    if (std::find(os_indices.begin(), os_indices.end(), pu.os_index) != os_indices.end()) used[pu.core] = true;
  const auto count = static_cast<uint32_t>(std::count(used.begin(), used.end(), true));
  const uint32_t limited = topology.processor_limit == 0 ? count : std::min(count, topology.processor_limit);
  return std::max<uint32_t>(limited, 1);
}

std::vector<uint32_t> allowed_os_indices(const Topology &topology) {
  std::vector<uint32_t> indices;
  for (const Pu &pu : topology.pus)
    if (pu.allowed) indices.push_back(pu.os_index);
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace rondo
