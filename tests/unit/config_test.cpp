// SPDX-License-Identifier: Apache-2.0
#include "src/base/config.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "src/base/parse.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

using Variables = std::map<std::string, std::string>;

Result<Config> parse(const Variables &variables) {
  return parse_config([&](const char *name) -> const char * {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const char *name, const char *value) {
  const auto parsed = parse({{name, value}});
  if (parsed.ok()) return "accepted";
  CHECK(parsed.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  return parsed.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("config: an empty environment leaves every default") {
  const Config config = parse({}).value();
  CHECK(config.algorithm == RONDO_ALGORITHM_AUTO);
  CHECK(config.channels == 0);
  CHECK(config.timeout_ns == 300'000'000'000);
  CHECK(config.init_timeout_ns == 60'000'000'000);
  CHECK(config.mapping);
  CHECK(config.given.empty());
}

TEST_CASE("config: each variable reaches its field") {
  const Config config = parse({{"RONDO_ALGORITHM", "ring"},
                               {"RONDO_PROTOCOL", "ll"},
                               {"RONDO_KERNEL", "interpreter"},
                               {"RONDO_CHANNELS", "8"},
                               {"RONDO_CHUNK_BYTES", "1G"},
                               {"RONDO_TIMEOUT", "0.25"},
                               {"RONDO_INIT_TIMEOUT", "7"},
                               {"RONDO_INTERFACE", "eth0"},
                               {"RONDO_SIMD", "avx2"},
                               {"RONDO_WAIT", "sleep"},
                               {"RONDO_MAPPING", "off"},
                               {"RONDO_CROSS_MEMORY", "off"},
                               {"RONDO_SLOT_COUNT", "16"},
                               {"RONDO_SLOT_BYTES", "64k"},
                               {"RONDO_TOPOLOGY_FILE", "/tmp/machine.xml"},
                               {"RONDO_TUNING_FILE", "/tmp/tuning.json"},
                               {"RONDO_RECORDER_DIR", "/tmp/recordings"},
                               {"RONDO_CUDA_LIBRARY", "/opt/driver/libcuda.so"},
                               {"RONDO_NVML_LIBRARY", "/opt/driver/libnvidia-ml.so"},
                               {"RONDO_DEVICE_EXECUTOR", "copy"},
                               {"RONDO_DEVICE_HANDLES", "vmm"},
                               {"RONDO_DEVICE_LAUNCH", "shared"},
                               {"RONDO_NETWORK", "verbs"},
                               {"RONDO_NETWORK_DEVICE_SLOTS", "auto"},
                               {"RONDO_SOCKETS", "4"},
                               {"RONDO_FRAME_TAGS", "on"},
                               {"RONDO_NETWORK_TIMEOUT", "2.5"},
                               {"RONDO_TCP_CONGESTION", "dctcp"},
                               {"RONDO_IB_HCA", "mlx5_0:1"},
                               {"RONDO_IB_GID_INDEX", "3"},
                               {"RONDO_MAX_CTAS", "1024"},
                               {"RONDO_MAX_MEMORY_BYTES", "16M"},
                               {"RONDO_LOG", "info,plan=debug"},
                               {"RONDO_LOG_FILE", "/tmp/rondo-%h-%p.log"}})
                            .value();
  CHECK(config.algorithm == RONDO_ALGORITHM_RING);
  CHECK(config.protocol == RONDO_PROTOCOL_LL);
  CHECK(config.kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(config.channels == 8);
  CHECK(config.max_ctas == 1024);
  CHECK(config.max_memory_bytes == 16 << 20);
  CHECK(config.chunk_bytes == chunk_bytes_max);
  CHECK(config.timeout_ns == 250'000'000);
  CHECK(config.init_timeout_ns == 7'000'000'000);
  CHECK(config.network_interface == "eth0");
  CHECK(config.simd == SimdTarget::avx2);
  CHECK(config.wait == WaitMode::sleep);
  CHECK_FALSE(config.mapping);
  CHECK_FALSE(config.cross_memory);
  CHECK(config.frame_tags);
  CHECK(config.network_timeout_ns == 2'500'000'000);
  CHECK(config.tcp_congestion == "dctcp");
  CHECK(config.slot_count == 16);
  CHECK(config.slot_bytes == 65536);
  CHECK(config.topology_file == "/tmp/machine.xml");
  CHECK(config.tuning_file == "/tmp/tuning.json");
  CHECK(config.recorder_dir == "/tmp/recordings");
  CHECK(config.cuda_library == "/opt/driver/libcuda.so");
  CHECK(config.nvml_library == "/opt/driver/libnvidia-ml.so");
  CHECK(config.device_executor == RONDO_DEVICE_EXECUTOR_COPY);
  CHECK(config.device_handles == DeviceHandles::vmm);
  CHECK(config.device_launch == DeviceLaunch::shared);
  CHECK(config.network == NetworkChoice::verbs);
  CHECK(config.device_slots == DeviceSlots::automatic);
  CHECK(config.sockets == 4);
  CHECK(config.ib_devices == "mlx5_0:1");
  CHECK(config.ib_gid_index == 3);
  CHECK(config.log == "info,plan=debug");
  CHECK(config.log_file == "/tmp/rondo-%h-%p.log");
  CHECK(config.given.size() == config_variables().size());
  // If the settings are read back from what `show` prints, they must be the same.
  Variables shown;
  for (const ConfigVariable &variable : config_variables()) shown[variable.name] = variable.show(config);
  const Config again = parse(shown).value();
  for (const ConfigVariable &variable : config_variables()) CHECK(variable.show(again) == variable.show(config));
}

TEST_CASE("config: the defaults, as they are shown, read back as themselves") {
  Variables shown;
  for (const ConfigVariable &variable : config_variables()) shown[variable.name] = variable.show(Config{});
  CHECK(shown["RONDO_CHANNELS"] == "auto");
  const Config again = parse(shown).value();
  for (const ConfigVariable &variable : config_variables()) CHECK(variable.show(again) == shown[variable.name]);
}

TEST_CASE("config: a bad value is refused with variable, value and what is known") {
  CHECK(refusal("RONDO_ALGORITHM", "star") ==
        "RONDO_ALGORITHM: 'star' is not a known algorithm; known are: auto, ring, tree, halving_doubling, one_shot, "
        "two_shot, hierarchical, hierarchical_tree");
  CHECK(refusal("RONDO_PROTOCOL", "LL64") ==
        "RONDO_PROTOCOL: 'LL64' is not a known protocol; known are: auto, simple, ll");
  CHECK(refusal("RONDO_CHANNELS", "129") == "RONDO_CHANNELS: '129' is not a number from 1 to 128");
  CHECK(refusal("RONDO_CHUNK_BYTES", "63") ==
        "RONDO_CHUNK_BYTES: '63' is not a size from 64 to 1G bytes, as in 4096, 64K, 1M or 1G");
  CHECK(refusal("RONDO_SLOT_COUNT", "3") == "RONDO_SLOT_COUNT: '3' is unknown; known are: auto, 2, 4, 8, 16, 32, 64");
  CHECK(refusal("RONDO_MAPPING", "on") == "RONDO_MAPPING: 'on' is unknown; known are: auto, off");
  CHECK(refusal("RONDO_LOG", "loud") ==
        "RONDO_LOG: 'loud' is not a known level; known are: debug, info, warning, error");
  for (const char *bad : {"0", "-1", "", " 4", "4 ", "0x4", "4.0", "18446744073709551617"})
    CHECK((*bad == '\0' || refusal("RONDO_CHANNELS", bad) != "accepted"));
  for (const char *bad : {"K", "64KX", "1.5", "2G", "17179869185G", "-64"})
    CHECK(refusal("RONDO_CHUNK_BYTES", bad) != "accepted");
  for (const char *bad :
       {"0", "0.0", "0.0009", "-1", "nan", "inf", "1e3", "1.", ".5", "1.2.3", "4000001", "1.5s", "0.0000000001x"})
    CHECK(refusal("RONDO_TIMEOUT", bad) != "accepted");
  for (const char *bad : {"0.999", "600.1", "auto", "1s"})
    CHECK(refusal("RONDO_NETWORK_TIMEOUT", bad) == std::string("RONDO_NETWORK_TIMEOUT: '") + bad +
                                                       "' is not a time from 1 to 600 seconds, as in 30 or 2.5");
}

TEST_CASE("config: values are read whatever their case, but for names of files") {
  const Config config = parse({{"RONDO_ALGORITHM", "Ring"},
                               {"RONDO_PROTOCOL", "LL"},
                               {"RONDO_CHANNELS", "AUTO"},
                               {"RONDO_SLOT_COUNT", "Auto"},
                               {"RONDO_SLOT_BYTES", "64K"},
                               {"RONDO_NETWORK", "UCX"},
                               {"RONDO_IB_GID_INDEX", "AUTO"},
                               {"RONDO_SIMD", "Plain"},
                               {"RONDO_WAIT", "Sleep"},
                               {"RONDO_MAPPING", "OFF"},
                               {"RONDO_CROSS_MEMORY", "Auto"},
                               {"RONDO_DEVICE_EXECUTOR", "Copy"},
                               {"RONDO_DEVICE_HANDLES", "VMM"},
                               {"RONDO_DEVICE_LAUNCH", "SHARED"},
                               {"RONDO_TUNING_FILE", "/tmp/Tuning.JSON"}})
                            .value();
  CHECK(config.algorithm == RONDO_ALGORITHM_RING);
  CHECK(config.protocol == RONDO_PROTOCOL_LL);
  CHECK(config.channels == 0);
  CHECK(config.slot_count == 0);
  CHECK(config.network == NetworkChoice::ucx);
  CHECK(config.ib_gid_index == -1);
  CHECK(config.simd == SimdTarget::plain);
  CHECK(config.wait == WaitMode::sleep);
  CHECK_FALSE(config.mapping);
  CHECK(config.cross_memory);
  CHECK(config.device_executor == RONDO_DEVICE_EXECUTOR_COPY);
  CHECK(config.device_handles == DeviceHandles::vmm);
  CHECK(config.device_launch == DeviceLaunch::shared);
  CHECK(config.tuning_file == "/tmp/Tuning.JSON");
}

TEST_CASE("config: a value from a stranger stays one short line in the message") {
  const std::string hostile = std::string(5000, 'x') + "\n\x1b[31m";
  CHECK(refusal("RONDO_PROTOCOL", hostile.c_str()).size() < 200);
  CHECK_FALSE(contains(refusal("RONDO_PROTOCOL", "a\nb\x1b"), "\n"));
  CHECK(contains(refusal("RONDO_INTERFACE", "eth0\n"), "control character"));
  CHECK(contains(refusal("RONDO_TOPOLOGY_FILE", hostile.c_str()), "longer"));
}

TEST_CASE("sizes and seconds: what is shown parses back, at both ends of the range") {
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{65}, uint64_t{1024}, uint64_t{1} << 20, chunk_bytes_max})
    CHECK(parse_bytes(show_bytes(bytes), chunk_bytes_min, chunk_bytes_max).value() == bytes);
  CHECK(show_bytes(1536) == "1536");
  CHECK(show_bytes(uint64_t{3} << 20) == "3M");
  for (const uint64_t duration_ns : {uint64_t{1'000'000}, uint64_t{1'000'000'007}, seconds_max * 1'000'000'000})
    CHECK(parse_seconds(show_seconds(duration_ns)).value() == duration_ns);
  CHECK(parse_seconds("1.0000000019").value() == 1'000'000'001);
}

TEST_CASE("settings: a caller's field wins over the environment, and a default leaves it") {
  const Config environment = parse({{"RONDO_ALGORITHM", "ring"},
                                    {"RONDO_PROTOCOL", "ll"},
                                    {"RONDO_CHANNELS", "3"},
                                    {"RONDO_TIMEOUT", "5"},
                                    {"RONDO_INTERFACE", "lo"}})
                                 .value();
  rondo_config_t caller = RONDO_CONFIG_INIT;
  Settings settings = merge(&caller, environment).value();
  CHECK(settings.algorithm == RONDO_ALGORITHM_RING);
  CHECK(settings.channels == 3);
  CHECK(settings.timeout_ns == 5'000'000'000);
  CHECK(settings.init_timeout_ns == 60'000'000'000);
  CHECK(merge(nullptr, environment).value().channels == 3);

  caller.algorithm = RONDO_ALGORITHM_TREE;
  caller.channels = 2;
  caller.chunk_bytes = chunk_bytes_min;
  caller.timeout_ms = UINT32_MAX;
  caller.init_timeout_ms = 1;
  caller.network_interface = "eth7";
  settings = merge(&caller, environment).value();
  CHECK(settings.algorithm == RONDO_ALGORITHM_TREE);
  CHECK(settings.protocol == RONDO_PROTOCOL_LL);
  CHECK(settings.channels == 2);
  CHECK(settings.chunk_bytes == 64);
  CHECK(settings.timeout_ns == uint64_t{UINT32_MAX} * 1'000'000);
  CHECK(settings.init_timeout_ns == 1'000'000);
  CHECK(settings.network_interface == "eth7");
}

TEST_CASE("settings: of kernel and protocol, what the caller asks for drops what the environment has against it") {
  const Config with_protocol = parse({{"RONDO_PROTOCOL", "ll"}}).value();
  const Config with_kernel = parse({{"RONDO_KERNEL", "load_store"}}).value();
  rondo_config_t caller = RONDO_CONFIG_INIT;
  CHECK(merge(&caller, with_protocol).value().protocol == RONDO_PROTOCOL_LL);
  CHECK(merge(&caller, with_kernel).value().kernel == RONDO_KERNEL_LOAD_STORE);
  caller.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(merge(&caller, with_protocol).value().kernel == RONDO_KERNEL_LOAD_STORE);
  CHECK(merge(&caller, with_protocol).value().protocol == RONDO_PROTOCOL_AUTO);
  caller.protocol = RONDO_PROTOCOL_SIMPLE;  // the caller set both, so both remain; the tuner refuses them
  CHECK(merge(&caller, with_protocol).value().protocol == RONDO_PROTOCOL_SIMPLE);
  CHECK(merge(&caller, with_protocol).value().kernel == RONDO_KERNEL_LOAD_STORE);
  caller.kernel = RONDO_KERNEL_AUTO;
  CHECK(merge(&caller, with_kernel).value().kernel == RONDO_KERNEL_AUTO);
  CHECK(merge(&caller, with_kernel).value().protocol == RONDO_PROTOCOL_SIMPLE);
  caller.kernel = RONDO_KERNEL_INTERPRETER;
  caller.protocol = RONDO_PROTOCOL_AUTO;
  CHECK(merge(&caller, with_protocol).value().protocol == RONDO_PROTOCOL_LL);
}

TEST_CASE("settings: a field out of range is refused by name") {
  const auto refused = [](auto change) {
    rondo_config_t caller = RONDO_CONFIG_INIT;
    change(caller);
    const auto merged = merge(&caller, Config{});
    REQUIRE_FALSE(merged.ok());
    return merged.error();
  };
  CHECK(contains(refused([](auto &caller) { caller.channels = 129; }).message, "channels is 129"));
  CHECK(contains(refused([](auto &caller) { caller.channels = 9; }).message, "'9' is not a number from 1 to 8"));
  CHECK(contains(refused([](auto &caller) { caller.chunk_bytes = 63; }).message, "chunk_bytes is 63"));
  CHECK(contains(refused([](auto &caller) { caller.chunk_bytes = chunk_bytes_max + 1; }).message, "chunk_bytes"));
  CHECK(contains(refused([](auto &caller) { caller.kernel = static_cast<rondo_kernel_t>(3); }).message, "kernel"));
  CHECK(contains(refused([](auto &caller) { caller.max_ctas = 1025; }).message, "max_ctas is 1025"));
  CHECK(contains(refused([](auto &caller) { caller.max_memory_bytes = 1; }).message, "max_memory_bytes is 1;"));
  CHECK(contains(refused([](auto &caller) { caller.device = -2; }).message, "device is -2"));
  CHECK(contains(refused([](auto &caller) { caller.nonblocking = 2; }).message, "nonblocking is 2"));
  CHECK(contains(refused([](auto &caller) { caller.reserved = 1; }).message, "reserved is not 0"));
  const int unknown = 77;
  CHECK(contains(refused([&](auto &caller) { std::memcpy(&caller.algorithm, &unknown, sizeof unknown); }).message,
                 "algorithm is 77, which is none of: auto, ring"));
  CHECK(contains(refused([&](auto &caller) { std::memcpy(&caller.protocol, &unknown, sizeof unknown); }).message,
                 "protocol is 77"));
  CHECK(contains(refused([&](auto &caller) { std::memcpy(&caller.device_executor, &unknown, sizeof unknown); }).message,
                 "device_executor is 77, which is none of: auto, kernel, copy"));
}

TEST_CASE("settings: the device is the caller's") {
  rondo_config_t caller = RONDO_CONFIG_INIT;
  CHECK(merge(&caller, Config{}).value().device == RONDO_DEVICE_HOST);
  caller.device = 3;
  CHECK(merge(&caller, Config{}).value().device == 3);
  // A device may have more channels than host memory. The caller or the environment may request them.
  Config many;
  many.channels = 9;
  CHECK(merge(&caller, many).value().channels == 9);
  CHECK(contains(merge(nullptr, many).error().message, "'9' is not a number from 1 to 8"));
  caller.channels = 64;
  CHECK(merge(&caller, Config{}).value().channels == 64);
}

TEST_CASE("settings: the executor is the caller's, the environment's for a caller that does not know of it") {
  Config environment;
  environment.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  rondo_config_t caller = RONDO_CONFIG_INIT;
  CHECK(merge(&caller, environment).value().device_executor == RONDO_DEVICE_EXECUTOR_COPY);
  caller.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  CHECK(merge(&caller, environment).value().device_executor == RONDO_DEVICE_EXECUTOR_KERNEL);
  caller.size = offsetof(rondo_config_t, device_executor);  // the size of the first version
  CHECK(merge(&caller, environment).value().device_executor == RONDO_DEVICE_EXECUTOR_COPY);
}

TEST_CASE("settings: whether the initialisation waits is the caller's; for a caller that knows none, it does") {
  rondo_config_t caller = RONDO_CONFIG_INIT;
  CHECK_FALSE(merge(&caller, Config{}).value().nonblocking);
  caller.nonblocking = 1;
  CHECK(merge(&caller, Config{}).value().nonblocking);
  for (const size_t size : {offsetof(rondo_config_t, nonblocking), offsetof(rondo_config_t, device_executor)}) {
    caller.size = size;
    CHECK_FALSE(merge(&caller, Config{}).value().nonblocking);
  }
}

TEST_CASE("settings: what a caller of the first version has behind its struct is not read") {
  rondo_config_t caller = RONDO_CONFIG_INIT;
  caller.channels = 5;
  caller.max_ctas = 2;
  CHECK(merge(&caller, Config{}).value().max_ctas == 2);
  caller.max_ctas = UINT32_MAX;
  caller.max_memory_bytes = 1;
  caller.size = offsetof(rondo_config_t, max_memory_bytes);
  caller.max_ctas = 2;
  CHECK(merge(&caller, Config{}).value().max_memory_bytes == 0);
  caller.max_ctas = UINT32_MAX;
  caller.size = offsetof(rondo_config_t, device_executor);
  const Settings settings = merge(&caller, parse({{"RONDO_MAX_CTAS", "3"}}).value()).value();
  CHECK(settings.channels == 5);
  CHECK(settings.max_ctas == 3);
}

TEST_CASE("settings: sizes of other versions are accepted unless they ask for what is unknown") {
  struct Later {
    rondo_config_t known = RONDO_CONFIG_INIT;
    uint64_t added = 0;
  } later;
  later.known.size = sizeof later;
  later.known.channels = 4;
  CHECK(merge(&later.known, Config{}).value().channels == 4);
  later.added = uint64_t{1} << 63;
  CHECK_FALSE(merge(&later.known, Config{}).ok());
  later.added = 0;
  for (const size_t size : {size_t{0}, size_t{8}, sizeof(rondo_config_t) - 1, size_t{4097}, SIZE_MAX}) {
    later.known.size = size;
    CHECK_FALSE(merge(&later.known, Config{}).ok());
  }
}

TEST_CASE("config: docs/environment.md has every variable, and says which must be equal on all ranks") {
  const char *root = std::getenv("RONDO_SOURCE_ROOT");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/docs/environment.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(text.empty());
  for (const ConfigVariable &variable : config_variables()) {
    const std::string row = std::string("| `") + variable.name + "` | " + variable.values + " |";
    INFO(row);
    CHECK(contains(text, row));
  }
  // The paragraph on what must be equal on all ranks names each shared setting, and no other.
  const size_t end = text.find("must be equal on all ranks");
  REQUIRE(end != text.npos);
  const std::string paragraph = text.substr(text.rfind("\n\n", end), end - text.rfind("\n\n", end));
  for (const ConfigVariable &variable : config_variables()) {
    INFO(variable.name);
    CHECK(contains(paragraph, std::string("`") + variable.name + "`") == (variable.shared.get != nullptr));
  }
}
