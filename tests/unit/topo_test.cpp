// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "src/topo/host.h"
#include "src/topo/topology.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

/// Returns the XML of two packages, each with 2 cores of 2 threads, 1 GiB of memory and an L3. The second threads of
/// the cores have the highest numbers.
std::string two_sockets() {
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">\n"
                    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0xff\" complete_cpuset=\"0xff\" "
                    "allowed_cpuset=\"0x7f\" nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\">\n";
  const auto object = [](const std::string &type, unsigned os_index, unsigned cpuset, unsigned node,
                         const std::string &more) {
    char sets[160];
    std::snprintf(sets, sizeof sets,
                  "os_index=\"%u\" cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\"",
                  os_index, cpuset, cpuset, 1u << node, 1u << node);
    return "<object type=\"" + type + "\" " + sets + " " + more;
  };
  for (unsigned package = 0; package < 2; ++package) {
    const unsigned both = 0x33u << (2 * package);
    xml += object("Package", package, both, package, ">\n<info name=\"CPUModel\" value=\"Test CPU\"/>\n");
    xml += object("NUMANode", package, both, package, "local_memory=\"1073741824\"/>\n");
    xml += object("L3Cache", package, both, package, "cache_size=\"8388608\" depth=\"3\" cache_linesize=\"64\" "
                                                    "cache_associativity=\"16\" cache_type=\"0\">\n");
    for (unsigned core = 2 * package; core < 2 * package + 2; ++core) {
      xml += object("Core", core, 0x11u << core, package, ">\n");
      xml += object("PU", core, 1u << core, package, "/>\n") + object("PU", core + 4, 0x10u << core, package, "/>\n");
      xml += "</object>\n";
    }
    xml += "</object>\n</object>\n";
  }
  return xml + "</object>\n</topology>\n";
}

/// Checks the properties of every topology, whatever its source.
void check_consistent(const Topology &topology) {
  REQUIRE_FALSE(topology.pus.empty());
  REQUIRE_FALSE(topology.cores.empty());
  std::set<uint32_t> seen;
  for (uint32_t core = 0; core < topology.cores.size(); ++core) {
    CHECK_FALSE(topology.cores[core].pus.empty());
    CHECK(topology.cores[core].package < topology.package_count);
    for (const uint32_t pu : topology.cores[core].pus) {
      REQUIRE(pu < topology.pus.size());
      CHECK(topology.pus[pu].core == core);
      CHECK(seen.insert(pu).second);
    }
  }
  CHECK(seen.size() == topology.pus.size());
  for (const Cache &cache : topology.caches)
    for (const uint32_t pu : cache.pus) CHECK(pu < topology.pus.size());
  uint64_t memory_bytes = 0;
  for (const NumaNode &node : topology.numa_nodes) memory_bytes += node.memory_bytes;
  CHECK(memory_bytes == topology.memory_bytes);
  CHECK(usable_core_count(topology) >= 1);
  CHECK(usable_core_count(topology) <= topology.cores.size());
}

/// A file of this test, which is removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &text) {
    const int file = ::mkstemp(path_.data());
    REQUIRE(file >= 0);
    CHECK(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_ = "/tmp/rondo-topology-XXXXXX";
};

/// A folder of this test, which is removed at the end with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_ = "/tmp/rondo-topology-XXXXXX";
};

}  // namespace

TEST_CASE("topology: two sockets of two cores of two threads are read as that") {
  const auto imported = import_topology(two_sockets());
  if (!imported.ok()) FAIL(imported.error().message);
  const Topology &topology = imported.value();
  check_consistent(topology);
  CHECK(topology.injected);
  CHECK(topology.processor == "Test CPU");
  CHECK(topology.package_count == 2);
  REQUIRE(topology.pus.size() == 8);
  CHECK(topology.pus[5].allowed);
  CHECK_FALSE(topology.pus[7].allowed);  // allowed_cpuset leaves out 7
  REQUIRE(topology.cores.size() == 4);
  CHECK(topology.cores[0].package == 0);
  CHECK(topology.cores[3].package == 1);
  REQUIRE(topology.caches.size() == 2);
  CHECK(topology.caches[1].level == 3);
  CHECK(topology.caches[1].bytes == 8388608);
  CHECK(topology.caches[1].line_bytes == 64);
  CHECK(topology.caches[1].pus == std::vector<uint32_t>{4, 5, 6, 7});
  REQUIRE(topology.numa_nodes.size() == 2);
  CHECK(topology.memory_bytes == uint64_t{2} << 30);
  CHECK(topology.pus[7].numa_node == 1);
}

TEST_CASE("topology: hardware threads of one core count as one core") {
  const Topology topology = import_topology(two_sockets()).value();
  CHECK(usable_core_count(topology) == 4);  // thread 7 is not allowed, but 3, of the same core, is
  CHECK(usable_core_count(topology, std::vector<uint32_t>{0, 4}) == 1);  // both threads of core 0
  CHECK(usable_core_count(topology, std::vector<uint32_t>{0, 1, 6}) == 3);
  CHECK(usable_core_count(topology, std::vector<uint32_t>{}) == 1);
  Topology limited = topology;
  limited.processor_limit = 3;
  CHECK(usable_core_count(limited) == 3);
}

TEST_CASE("topology: this machine is consistent, and only processors of the affinity mask are allowed") {
  const Topology topology = discover_topology({}).value();
  check_consistent(topology);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  REQUIRE(::sched_getaffinity(0, sizeof mask, &mask) == 0);
  for (const Pu &pu : topology.pus)
    if (pu.allowed) CHECK(CPU_ISSET(pu.os_index, &mask));

  const cpu_set_t before = mask;
  const uint32_t first = allowed_os_indices(topology).front();
  CPU_ZERO(&mask);
  CPU_SET(first, &mask);
  REQUIRE(::sched_setaffinity(0, sizeof mask, &mask) == 0);
  const Topology bound = discover_topology({}).value();
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(allowed_os_indices(bound) == std::vector<uint32_t>{first});
  CHECK(usable_core_count(bound) == 1);
}

TEST_CASE("topology: what is exported reads back as the same machine") {
  const Topology here = discover_topology({}).value();
  TemporaryFile file(export_topology_xml({}).value());
  Config config;
  config.topology_file = file.path();
  Topology again = discover_topology(config).value();
  CHECK(again.injected);
  CHECK(again.cores == here.cores);
  CHECK(again.caches == here.caches);
  CHECK(again.numa_nodes == here.numa_nodes);
  CHECK(again.processor == here.processor);
  CHECK(again.package_count == here.package_count);
  // An injected topology can be exported, too.
  CHECK(import_topology(export_topology_xml(config).value()).value() == again);
}

TEST_CASE("topology: a file that is no topology is refused with its name and what to do") {
  Config config;
  config.topology_file = "/nonexistent/machine.xml";
  CHECK(discover_topology(config).error().message.find("'/nonexistent/machine.xml'") != std::string::npos);
  CHECK(discover_topology(config).error().status == RONDO_ERROR_INVALID_ARGUMENT);
  const std::string zero("\0<topology/>", 12);
  for (const std::string &text : {std::string(), std::string("hello"), std::string("<topology>"), zero,
                                  std::string("<?xml version=\"1.0\"?><topology version=\"2.0\"></topology>"),
                                  two_sockets().substr(0, 700), std::string(size_t{17} << 20, ' ')}) {
    TemporaryFile file(text);
    config.topology_file = file.path();
    const auto refused = discover_topology(config);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().status == RONDO_ERROR_INVALID_ARGUMENT);
    INFO(refused.error().message);
    CHECK(refused.error().message.find(file.path()) != std::string::npos);
    CHECK(refused.error().message.find("rondo info --topology-xml") != std::string::npos);
    CHECK_FALSE(export_topology_xml(config).ok());
  }
}

TEST_CASE("topology: processor sets are read as hwloc writes them, with gaps and without an end") {
  const auto cores_of = [](const std::string &first, const std::string &second) {
    const auto core = [](const std::string &set) { return "<object type=\"Core\" cpuset=\"" + set + "\"/>"; };
    std::string xml = "<topology version=\"2.0\">" + core(first) + core(second);
    for (const char *index : {"0", "1", "32", "64", "100"})
      xml += std::string("<object type=\"PU\" os_index=\"") + index + "\"/>";
    const auto imported = import_topology(xml + "</topology>");
    if (!imported.ok()) FAIL(imported.error().message);
    std::vector<std::vector<uint32_t>> found;
    for (const Core &it : imported.value().cores) found.push_back(it.pus);
    return found;
  };
  using Groups = std::vector<std::vector<uint32_t>>;
  CHECK(cores_of("0x00000003", "0x00000001,,0x0") == Groups{{0, 1}, {3}, {2}, {4}});
  CHECK(cores_of("0xf...f,0x00000001", "0x2") == Groups{{0, 2, 3, 4}, {1}});
  CHECK(cores_of("0xf...f", "0x1") == Groups{{0, 1, 2, 3, 4}});
  for (const char *bad : {"0xg", "0x1ffffffff", "-1", "0x1;0x2"})
    CHECK_FALSE(import_topology(std::string("<topology version=\"2.0\"><object type=\"PU\" os_index=\"0\" ") +
                                "cpuset=\"" + bad + "\"/></topology>").ok());
}

TEST_CASE("topology: XML that is not balanced, repeats a processor or is of another version is refused") {
  const std::string pu = "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/>";
  const std::string begin =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">";
  CHECK(import_topology(begin + "<!-- <object> -->" + pu + "</topology>\n").ok());
  CHECK(import_topology("<topology version=\"3.0\">" + pu + "</topology>").ok());
  const auto later = import_topology("<topology version=\"4.0\">" + pu + "</topology>");
  REQUIRE_FALSE(later.ok());
  CHECK(later.error().message.find("version '4.0' of hwloc's format; versions 2 and 3 can be read") == 0);
  for (const std::string &bad :
       {begin + pu, begin + pu + pu + "</topology>", begin + "</topology>", begin + pu + "</object></topology>",
        begin + pu + "</topology>" + pu, begin + "<object type=\"PU\" os_index=\"99999\"/></topology>",
        begin + "<object type=PU/></topology>", begin + "<!-- " + pu + "</topology>",
        "<topology version=\"1.0\">" + pu + "</topology>", "<machine>" + pu + "</machine>",
        begin + "<object type=\"PU\" cpuset=\"0x1\"/></topology>"}) {
    INFO(bad);
    CHECK_FALSE(import_topology(bad).ok());
  }
}

TEST_CASE("host: the id is stable and names the namespaces that decide") {
  const auto id = host_id();
  REQUIRE(id.ok());
  CHECK(id.value() == host_id().value());
  for (const char *part : {"/pid:", "/net:", "/user:"}) CHECK(id.value().find(part) != std::string::npos);
  CHECK_FALSE(host_name().empty());
}

TEST_CASE("host: without a free descriptor the id is not another one, but an error that says what ran out") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto id = host_id();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(id.ok());
  CHECK(id.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(id.error().message.find("ulimit -n") != std::string::npos);
}

TEST_CASE("host: the strictest quota counts, of a cgroup and those above it, in both versions") {
  const TemporaryFolder root;
  const auto put = [&root](const std::string &file, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + file).parent_path());
    std::ofstream(root.path() + file) << text << "\n";
  };
  const auto limit = [&root](const std::string &groups) { return processor_limit(root.path(), groups); };
  put("/cpu/cpu.cfs_quota_us", "-1");
  put("/cpu/cpu.cfs_period_us", "100000");
  put("/cpu/jobs/cpu.cfs_quota_us", "350000");
  put("/cpu/jobs/cpu.cfs_period_us", "100000");
  put("/cpu/jobs/one/cpu.cfs_quota_us", "-1");
  put("/cpu/jobs/one/cpu.cfs_period_us", "100000");
  put("/cpu/jobs/two/cpu.cfs_quota_us", "100000");
  put("/cpu/jobs/two/cpu.cfs_period_us", "50000");
  put("/unified/cpu.max", "150000 100000");
  CHECK(limit("12:memory:/unified\n4:cpu,cpuacct:/jobs/one\n") == 4);
  CHECK(limit("4:cpuacct,cpu:/jobs/two\n1:name=systemd:/\n") == 2);
  CHECK(limit("4:cpu:/jobs/gone\n") == 4);  // a container's name: its mount begins further down
  CHECK(limit("4:cpu:/other\n") == 0);
  CHECK(limit("2:cpuset:/jobs/two\n") == 0);
  CHECK(limit("0::/unified/a/b\n") == 2);
  CHECK(limit("3:cpu:/jobs/one\n0::/unified\n") == 2);
  CHECK(limit("") == 0);
}

TEST_CASE("host: a cgroup's quota is rounded up to processors") {
  CHECK(parse_processor_limit("max 100000") == 0);
  CHECK(parse_processor_limit("100000 100000") == 1);
  CHECK(parse_processor_limit("150000 100000") == 2);
  CHECK(parse_processor_limit("1600000 100000") == 16);
  CHECK(parse_processor_limit("-1 100000") == 0);
  CHECK(parse_processor_limit("100000 0") == 0);
  CHECK(parse_processor_limit("100000") == 0);
  CHECK(parse_processor_limit("") == 0);
  CHECK(parse_processor_limit(" ") == 0);
  CHECK(parse_processor_limit("18446744073709551615 1") == UINT32_MAX);
}
