// SPDX-License-Identifier: Apache-2.0
// `device_costs [--quick] [JSON]` measures a device's elementary steps. RONDO_TEST_KERNELS names the image of the
// kernels; the driver in software accepts any image. Each cost is a median of several runs. The fixed cost of a run,
// above all its launch, is removed: a second run has twice as many rounds, and the difference counts. The option
// --quick uses small sizes and few rounds, which only show that the program works.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "tests/gpu/device_costs.h"
#include "tests/soft_cuda/soft_cuda.h"
#include "tests/soft_cuda/test_kernels.h"

namespace {

using namespace rondo;
using namespace rondo::cuda;
using namespace device_costs;
using Json = nlohmann::ordered_json;

constexpr uint32_t block_threads = 512, ways = soft_cuda::ReductionParameters::ways;
constexpr uint64_t chain_words = 1024;  // 8 KiB: a chain of loads stays in the second-level cache

/// Names and driver numbers of the recorded attributes. An attribute that a driver does not know is left out.
constexpr std::pair<const char *, int> attributes[] = {{"multiprocessors", 16},
                                                       {"clock_kHz", 13},
                                                       {"memory_clock_kHz", 36},
                                                       {"memory_bus_bits", 37},
                                                       {"l2_bytes", 38},
                                                       {"async_engines", 40},
                                                       {"integrated", 18},
                                                       {"compute_mode", 20},
                                                       {"concurrent_kernels", 31},
                                                       {"threads_per_multiprocessor", 39},
                                                       {"capability_major", 75},
                                                       {"capability_minor", 76},
                                                       {"host_native_atomics", 86},
                                                       {"cooperative_launch", 95},
                                                       {"flush_remote_writes", 98},
                                                       {"host_register", 99},
                                                       {"pageable_memory", 88},
                                                       {"vmm", 102},
                                                       {"vmm_descriptors", 103},
                                                       {"multicast", 132},
                                                       {"stream_mem_ops_64", 122},
                                                       {"wait_value_nor", 123},
                                                       {"ipc_events", 125},
                                                       {"mem_sync_domains", 126},
                                                       {"mps", 133}};

Result<std::string> image_of(const CudaDriver &driver) {
  if (soft_cuda_function<uint64_t()>(driver.library, "soft_cuda_launch_count") != nullptr) return std::string("any");
  const char *const path = std::getenv("RONDO_TEST_KERNELS");
  if (path == nullptr)
    return Error{RONDO_ERROR_INVALID_ARGUMENT, "set RONDO_TEST_KERNELS to the image of tests/gpu/test_kernels.cu"};
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (bytes.str().empty())
    return Error{RONDO_ERROR_INVALID_ARGUMENT, std::string(path) + " cannot be read: build it, or name another image"};
  return bytes.str();
}

Result<void> open(Bench &bench) {
  RONDO_TRY_ASSIGN(const Config config, read_config());
  RONDO_TRY_ASSIGN(bench.cu, cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(bench.image, image_of(*bench.cu));
  RONDO_TRY_ASSIGN(bench.context, retain_primary_context(*bench.cu, 0));
  RONDO_TRY_ASSIGN(bench.stream, make_stream(bench.context));
  RONDO_TRY_ASSIGN(bench.begin, make_event(bench.context, event_default));
  RONDO_TRY_ASSIGN(bench.end, make_event(bench.context, event_default));
  RONDO_TRY_ASSIGN(bench.kernels, load_library(bench.context, bench.image.data()));
  for (const char *const name :
       {"cost_nothing", "cost_nothing_large", "cost_nothing_early", "cost_meet", "cost_meet_early", "cost_store",
        "cost_read", "cost_pair", "cost_copy", "cost_reduce"}) {
    RONDO_TRY_ASSIGN(bench.functions[name], find_function(bench.kernels, name));
  }
  return bench.check(bench.cu->ctx_push_current(bench.context.get().context), "cuCtxPushCurrent");
}

using Work = std::function<Result<void>()>;

/// Returns the microseconds that one execution of `work` takes on the stream.
Result<double> time_once(const Bench &bench, const Work &work) {
  const CudaDriver &cu = *bench.cu;
  RONDO_TRY(bench.check(cu.event_record(bench.begin.get().object, bench.handle()), "cuEventRecord"));
  RONDO_TRY(work());
  RONDO_TRY(bench.check(cu.event_record(bench.end.get().object, bench.handle()), "cuEventRecord"));
  RONDO_TRY(bench.check(cu.stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  float elapsed_ms = 0;
  RONDO_TRY(bench.check(cu.event_elapsed_time(&elapsed_ms, bench.begin.get().object, bench.end.get().object),
                        "cuEventElapsedTime"));
  return static_cast<double>(elapsed_ms) * 1e3;
}

Result<double> time_us(const Bench &bench, const Work &work) {
  return median_us([&] { return time_once(bench, work); });
}

template <class Parameters>
Result<void> launch(const Bench &bench, const char *name, uint32_t blocks, uint32_t threads, Parameters parameters) {
  auto *const function = bench.functions.at(name);
  void *arguments[] = {&parameters};
  return bench.check(
      bench.cu->launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, bench.handle(), arguments, nullptr), name);
}

/// Measures and prints the cost of a round of `work(rounds)`, in nanoseconds.
Result<void> tell_round(Bench &bench, const std::string &name, const std::function<Result<void>(uint64_t)> &work) {
  const uint64_t rounds = bench.sizes.rounds;
  RONDO_TRY_ASSIGN(const double once_us, time_us(bench, [&] { return work(rounds); }));
  RONDO_TRY_ASSIGN(const double twice_us, time_us(bench, [&] { return work(2 * rounds); }));
  tell(bench, name, (twice_us - once_us) * 1e3 / static_cast<double>(rounds), "ns");
  return {};
}

Result<void> measure_stores(Bench &bench) {
  RONDO_TRY_ASSIGN(const DeviceMemory device, allocate_device_memory(bench.context, 4096));
  RONDO_TRY_ASSIGN(const HostMemory host, allocate_host_memory(bench.context, 4096));
  uint64_t *const word = words_at(device.get().object), *const other = word + 64;
  auto *const host_word = static_cast<uint64_t *>(host.get().object);
  using soft_cuda::StoreOrder;
  struct Variant {
    const char *name;
    uint64_t *pending;
    StoreOrder order;
  };
  const Variant variants[] = {{"store, nothing pending", nullptr, StoreOrder::relaxed},
                              {"release to the device, nothing pending", nullptr, StoreOrder::release_device},
                              {"release to the device, a device store pending", other, StoreOrder::release_device},
                              {"release to the system, nothing pending", nullptr, StoreOrder::release_system},
                              {"release to the system, a device store pending", other, StoreOrder::release_system},
                              {"release to the system, a host store pending", host_word, StoreOrder::release_system},
                              {"store, a host store beside it", host_word, StoreOrder::relaxed}};
  for (const Variant &each : variants)
    RONDO_TRY(tell_round(bench, each.name, [&](uint64_t rounds) {
      return launch(bench, "cost_store", 1, 32, soft_cuda::StoreParameters{word, each.pending, rounds, each.order});
    }));
  return {};
}

Result<void> measure_reads(Bench &bench) {
  constexpr size_t bytes = chain_words * sizeof(uint64_t);
  RONDO_TRY_ASSIGN(const DeviceMemory device, allocate_device_memory(bench.context, bytes + 64));
  RONDO_TRY_ASSIGN(const HostMemory host, allocate_host_memory(bench.context, bytes));
  auto *const chain = static_cast<uint64_t *>(host.get().object);
  constexpr uint64_t step = 17 * 16;  // 17 lines of 128 bytes, so all 64 lines take turns
  for (uint64_t at = 0; at < chain_words; ++at) chain[at] = (at + step) % chain_words;
  RONDO_TRY(bench.check(bench.cu->memcpy_htod_async(device.get().object, chain, bytes, bench.handle()), "copying"));
  uint64_t *const last = words_at(device.get().object + bytes);
  for (const bool in_host : {false, true})
    RONDO_TRY(tell_round(bench, in_host ? "load of host memory" : "load of device memory, from the L2 cache",
                         [&](uint64_t rounds) {
                           uint64_t *const words = in_host ? chain : words_at(device.get().object);
                           return launch(bench, "cost_read", 1, 32, soft_cuda::ReadParameters{words, rounds, last});
                         }));
  return {};
}

Result<void> measure_pairs(Bench &bench) {
  constexpr size_t bytes = 2 * soft_cuda::pair_stride * sizeof(uint64_t);
  RONDO_TRY_ASSIGN(const DeviceMemory words, allocate_device_memory(bench.context, bytes));
  for (const bool ordered : {false, true}) {
    const auto hand_over = [&](uint64_t rounds) -> Result<void> {
      RONDO_TRY(bench.check(bench.cu->memset_d8_async(words.get().object, 0, bytes, bench.handle()), "clearing"));
      return launch(bench, "cost_pair", 2, 32,
                    soft_cuda::PairParameters{words_at(words.get().object), rounds, ordered ? 1u : 0u});
    };
    const char *const how = ordered ? "release and acquire" : "relaxed";
    RONDO_TRY(tell_round(bench, std::string("a word to another block and back, ") + how, hand_over));
  }
  uint64_t reached = 0;
  RONDO_TRY(bench.check(bench.cu->memcpy_dtoh_async(&reached, words.get().object, 8, bench.handle()), "copying"));
  RONDO_TRY(bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  if (reached == 2 * bench.sizes.rounds) return {};
  return Error{RONDO_ERROR_INTERNAL, "two blocks lost each other at number " + std::to_string(reached)};
}

Result<void> launch_nothing(const Bench &bench, uint64_t count) {
  for (uint64_t number = 0; number < count; ++number)
    RONDO_TRY(launch(bench, "cost_nothing", 1, 32, soft_cuda::NothingParameters{0}));
  return {};
}

Result<GraphExec> graph_of_nothing(const Bench &bench, uint64_t count) {
  const CudaDriver &cu = *bench.cu;
  RONDO_TRY(bench.check(cu.stream_begin_capture(bench.handle(), CaptureMode::thread_local_), "cuStreamBeginCapture"));
  const auto enqueued = launch_nothing(bench, count);
  CuGraph captured = nullptr;
  RONDO_TRY(bench.check(cu.stream_end_capture(bench.handle(), &captured), "cuStreamEndCapture"));
  const Graph graph({bench.cu, bench.context.get().context, captured});
  RONDO_TRY(enqueued);
  CuGraphExec made = nullptr;
  RONDO_TRY(bench.check(cu.graph_instantiate(&made, captured, 0), "cuGraphInstantiate"));
  GraphExec exec({bench.cu, bench.context.get().context, made});
  RONDO_TRY(bench.check(cu.graph_upload(made, bench.handle()), "cuGraphUpload"));
  RONDO_TRY(bench.check(cu.stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  return exec;
}

Result<void> measure_launches(Bench &bench) {
  const uint64_t count = bench.sizes.launches;
  RONDO_TRY_ASSIGN(const double launches_us, time_us(bench, [&] { return launch_nothing(bench, count); }));
  tell(bench, "an empty kernel after another on a stream", launches_us / static_cast<double>(count), "us");
  double times_us[2];
  for (const uint64_t times : {1u, 2u}) {
    RONDO_TRY_ASSIGN(const GraphExec exec, graph_of_nothing(bench, times * count));
    RONDO_TRY_ASSIGN(times_us[times - 1], time_us(bench, [&] {
                       return bench.check(bench.cu->graph_launch(exec.get().object, bench.handle()), "cuGraphLaunch");
                     }));
  }
  tell(bench, "an empty kernel after another in a graph", (times_us[1] - times_us[0]) / static_cast<double>(count),
       "us");
  RONDO_TRY_ASSIGN(const GraphExec single, graph_of_nothing(bench, 1));
  RONDO_TRY_ASSIGN(
      const double graphs_us, time_us(bench, [&]() -> Result<void> {
        for (uint64_t number = 0; number < count; ++number)
          RONDO_TRY(bench.check(bench.cu->graph_launch(single.get().object, bench.handle()), "cuGraphLaunch"));
        return {};
      }));
  tell(bench, "a graph of one empty kernel after another", graphs_us / static_cast<double>(count), "us");
  return {};
}

/// Returns whole numbers up to 255 as floats, so that sums are exact. Zeros alone might move faster than other data.
float value_at(uint32_t way, uint64_t index) { return static_cast<float>((index * 2654435761u >> 16 ^ way) & 255); }

Result<void> fill(const Bench &bench, DevicePointer at, size_t bytes, uint32_t way) {
  const size_t part_bytes = std::min(bytes, size_t{1} << 20);
  std::vector<float> values(part_bytes / sizeof(float));
  for (size_t index = 0; index < values.size(); ++index) values[index] = value_at(way, index);
  RONDO_TRY(bench.check(bench.cu->memcpy_htod_async(at, values.data(), part_bytes, bench.handle()), "copying inputs"));
  for (size_t done = part_bytes; done < bytes; done *= 2)
    RONDO_TRY(bench.check(bench.cu->memcpy_dtod_async(at + done, at, std::min(done, bytes - done), bench.handle()),
                          "copying inputs"));
  return bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize");
}

/// Checks the end of `at`, which holds the sum of `source_count` operands.
Result<void> verify(const Bench &bench, DevicePointer at, size_t bytes, uint32_t source_count) {
  const size_t part_bytes = std::min(bytes, size_t{1} << 20);
  std::vector<float> values(part_bytes / sizeof(float));
  RONDO_TRY(bench.check(bench.cu->memcpy_dtoh_async(values.data(), at + bytes - part_bytes, part_bytes, bench.handle()),
                        "copying results"));
  RONDO_TRY(bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  for (size_t index = 0; index < values.size(); ++index) {
    float sum = 0;
    for (uint32_t way = 0; way < source_count; ++way) sum += value_at(way, index);
    if (values[index] != sum)
      return Error{RONDO_ERROR_INTERNAL, "a kernel of device_costs is wrong at element " + std::to_string(index)};
  }
  return {};
}

/// Returns 1, 2, 4 and so on, and the number of multiprocessors.
std::vector<uint32_t> block_counts(uint32_t multiprocessors) {
  std::vector<uint32_t> counts;
  for (uint32_t count = 1; count < multiprocessors; count *= 2) counts.push_back(count);
  counts.push_back(multiprocessors);
  return counts;
}

Result<void> measure_bandwidth(Bench &bench, uint32_t multiprocessors, uint32_t way_count) {
  const size_t bytes = way_count == 1 ? bench.sizes.copy_bytes : bench.sizes.reduce_bytes;
  std::vector<DeviceMemory> memory;
  soft_cuda::ReductionParameters parameters{};
  parameters.count = bytes / sizeof(soft_cuda::Quad);
  for (uint32_t way = 0; way < 2 * way_count; ++way) {
    RONDO_TRY_ASSIGN(DeviceMemory made, allocate_device_memory(bench.context, bytes));
    const DevicePointer at = made.get().object;
    memory.push_back(std::move(made));
    if (way >= way_count) parameters.targets[way - way_count] = reinterpret_cast<soft_cuda::Quad *>(at);
    if (way >= way_count) continue;
    parameters.sources[way] = reinterpret_cast<const soft_cuda::Quad *>(at);
    RONDO_TRY(fill(bench, at, bytes, way));
  }
  const double moved = 2.0 * way_count * static_cast<double>(bytes);
  if (way_count == 1) {
    RONDO_TRY_ASSIGN(const double copied_us, time_us(bench, [&] {
                       return bench.check(bench.cu->memcpy_dtod_async(memory[1].get().object, memory[0].get().object,
                                                                      bytes, bench.handle()),
                                          "cuMemcpyDtoDAsync");
                     }));
    tell(bench, "copy by the driver", moved / copied_us / 1e3, "GB/s");
  }
  const std::string what = way_count == 1 ? "copy" : "reduction of 8 into 8";
  for (const uint32_t blocks : block_counts(multiprocessors)) {
    RONDO_TRY_ASSIGN(const double time, time_us(bench, [&] {
                       return launch(bench, way_count == 1 ? "cost_copy" : "cost_reduce", blocks, block_threads,
                                     parameters);
                     }));
    tell(bench, what + " by " + std::to_string(blocks) + " blocks", moved / time / 1e3, "GB/s");
  }
  return verify(bench, memory.back().get().object, bytes, way_count);
}

/// Writes the document as a whole or not at all, because the program may be killed meanwhile.
bool write(const Bench &bench) {
  if (bench.path.empty()) return true;
  const std::string fresh = bench.path + ".new";
  if (!(std::ofstream(fresh) << bench.document.dump(1) << "\n")) return false;
  return std::rename(fresh.c_str(), bench.path.c_str()) == 0;
}

Result<void> measure(Bench &bench, const Exporter &exporter) {
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(*bench.cu));
  Json &document = bench.document;
  document["device"] = devices.front().name;
  document["driver"] = cuda_version_string(bench.cu->version);
  for (const auto &[name, number] : attributes) {
    const auto value = device_attribute(*bench.cu, 0, static_cast<DeviceAttribute>(number));
    if (value.ok()) document["attributes"][name] = value.value();
  }
  const auto multiprocessors = static_cast<uint32_t>(devices.front().multiprocessor_count);
  RONDO_TRY(measure_waits(bench, exporter));
  RONDO_TRY(measure_stores(bench));
  RONDO_TRY(measure_reads(bench));
  RONDO_TRY(measure_pairs(bench));
  RONDO_TRY(measure_launches(bench));
  RONDO_TRY(measure_bandwidth(bench, multiprocessors, 1));
  RONDO_TRY(measure_bandwidth(bench, multiprocessors, ways));
  return measure_streams(bench);  // last, because its kernels wait for each other and may fail
}

Result<void> run(const std::string &path, bool quick) {
  const Exporter exporter;
  Bench bench;
  bench.path = path;
  bench.document = {{"device", ""}, {"driver", ""}, {"attributes", Json::object()}, {"costs", Json::array()}};
  if (quick) bench.sizes = {20, 10, 3, uint64_t{1} << 20, uint64_t{1} << 18};
  RONDO_TRY(open(bench));
  const auto measured = measure(bench, exporter);
  if (!write(bench)) return Error{RONDO_ERROR_SYSTEM, path + " cannot be written: name another file"};
  return measured;
}

}  // namespace

namespace device_costs {

Result<double> median_us(const std::function<Result<double>()> &once) {
  RONDO_TRY_ASSIGN(double time, once());
  std::vector<double> times;
  for (int run = 0; run < run_count; ++run) {
    RONDO_TRY_ASSIGN(time, once());
    times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + run_count / 2, times.end());
  return times[run_count / 2];
}

void tell(Bench &bench, const std::string &name, double value, const char *unit) {
  std::printf("%-56s %12.4g %s\n", name.c_str(), value, unit);
  std::fflush(stdout);
  bench.document["costs"].push_back({{"cost", name}, {"value", value}, {"unit", unit}});
  static_cast<void>(write(bench));  // a killed run has reported this much; only the last write must succeed
}

}  // namespace device_costs

int main(int argument_count, char **arguments) {
  bool quick = false;
  std::string path;
  for (int index = 1; index < argument_count; ++index)
    if (std::strcmp(arguments[index], "--quick") == 0)
      quick = true;
    else
      path = arguments[index];
  static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));  // nine streams need nine queues
  const auto done = run(path, quick);
  if (!done.ok()) std::fprintf(stderr, "device_costs: %s\n", done.error().message.c_str());
  return done.ok() ? 0 : 1;
}
