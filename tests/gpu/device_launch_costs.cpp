// SPDX-License-Identifier: Apache-2.0
// This file measures launches and meetings of kernels. Each of several streams has a graph of some hundred kernels, and
// one word releases all streams. A second graph has twice as many kernels, and the difference gives the time of one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/load_store_wait.h"
#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "tests/gpu/device_costs.h"
#include "tests/soft_cuda/test_kernels.h"

using namespace rondo;
using namespace rondo::cuda;

namespace device_costs {
namespace {

constexpr uint32_t stream_count_max = 8;
constexpr uint32_t block_threads = 256;  // as in load_store
constexpr uint64_t gate_patience_ns = 20'000'000'000;

/// The work of each kernel of a stream.
struct Kind {
  const char *name;
  const char *kernel;
  enum class Parameters : uint8_t { nothing, large, store, release, meet } parameters;
  uint32_t blocks = 1;
  bool early = false;  ///< with programmatic dependent launch, which a driver may refuse
};
constexpr Kind kinds[] = {
    {"empty", "cost_nothing", Kind::Parameters::nothing},
    {"empty, 840 bytes of parameters", "cost_nothing_large", Kind::Parameters::large},
    {"empty, 16 blocks", "cost_nothing", Kind::Parameters::nothing, 16},
    {"stores a word of the host", "cost_store", Kind::Parameters::store},
    {"stores a word of the host, with a release", "cost_store", Kind::Parameters::release},
    {"posts a word and looks at all", "cost_meet", Kind::Parameters::meet},
    {"posts a word and looks at all, launched early", "cost_meet_early", Kind::Parameters::meet, 1, true},
    {"empty, launched early", "cost_nothing_early", Kind::Parameters::nothing, 1, true},
};
static_assert(sizeof(soft_cuda::LargeParameters) == sizeof(device::LoadStoreOperation));

struct Lane {
  Stream stream;
  Event begin, end;
};

/// The streams, and the words that release them and by which their kernels meet, in device and in host memory.
struct Lanes {
  std::vector<Lane> all;
  HostMemory host;
  DeviceMemory words;
  uint64_t released = 0;

  static constexpr size_t word_bytes = (stream_count_max + 1) * soft_cuda::meet_stride * sizeof(uint64_t);
  [[nodiscard]] uint64_t *gate() const { return static_cast<uint64_t *>(host.get().object); }
  /// Returns the word in host memory that belongs to `stream`. No other word shares its cache line.
  [[nodiscard]] uint64_t *host_word(uint32_t stream) const { return gate() + (1 + stream) * soft_cuda::meet_stride; }
};

Result<Lanes> make_lanes(const Bench &bench) {
  Lanes lanes;
  for (uint32_t number = 0; number < stream_count_max; ++number) {
    Lane lane;
    RONDO_TRY_ASSIGN(lane.stream, make_stream(bench.context));
    RONDO_TRY_ASSIGN(lane.begin, make_event(bench.context, event_default));
    RONDO_TRY_ASSIGN(lane.end, make_event(bench.context, event_default));
    lanes.all.push_back(std::move(lane));
  }
  RONDO_TRY_ASSIGN(lanes.host, allocate_host_memory(bench.context, Lanes::word_bytes));
  RONDO_TRY_ASSIGN(lanes.words, allocate_device_memory(bench.context, Lanes::word_bytes));
  *lanes.gate() = 0;
  return lanes;
}

Result<void> launch(const Bench &bench, const Lanes &lanes, const Kind &kind, uint32_t stream, uint32_t stream_count) {
  soft_cuda::NothingParameters nothing{0};
  soft_cuda::LargeParameters large{};
  const auto order = kind.parameters == Kind::Parameters::release ? soft_cuda::StoreOrder::release_system
                                                                  : soft_cuda::StoreOrder::relaxed;
  soft_cuda::StoreParameters store{lanes.host_word(stream), nullptr, 1, order};
  uint64_t *const words = words_at(lanes.words.get().object);
  soft_cuda::MeetParameters meet{words, words + stream_count_max * soft_cuda::meet_stride, stream, stream_count};
  void *const each[] = {&nothing, &large, &store, &store, &meet};
  void *arguments[] = {each[static_cast<size_t>(kind.parameters)]};
  LaunchAttribute early{LaunchAttributeId::programmatic_stream_serialization, {}, {}};
  early.value.programmatic_stream_serialization = 1;
  LaunchConfig config;
  config.grid_x = kind.blocks;
  config.block_x = block_threads;
  config.stream = lanes.all[stream].stream.get().object;
  config.attributes = &early;
  config.attribute_count = kind.early ? 1 : 0;
  return bench.check(bench.cu->launch_kernel_ex(&config, bench.functions.at(kind.kernel), arguments, nullptr),
                     kind.kernel);
}

Result<GraphExec> make_graph(const Bench &bench, const Lanes &lanes, const Kind &kind, uint32_t stream,
                             uint32_t stream_count, uint64_t kernel_count) {
  const CudaDriver &cu = *bench.cu;
  CuStream const handle = lanes.all[stream].stream.get().object;
  RONDO_TRY(bench.check(cu.stream_begin_capture(handle, CaptureMode::thread_local_), "cuStreamBeginCapture"));
  Result<void> enqueued;
  for (uint64_t number = 0; number < kernel_count && enqueued.ok(); ++number)
    enqueued = launch(bench, lanes, kind, stream, stream_count);
  CuGraph captured = nullptr;
  const auto ended = bench.check(cu.stream_end_capture(handle, &captured), "cuStreamEndCapture");
  const Graph graph({bench.cu, bench.context.get().context, captured});
  RONDO_TRY(enqueued);  // a failed launch breaks the capture, so this error says more than `ended`
  RONDO_TRY(ended);
  CuGraphExec made = nullptr;
  RONDO_TRY(bench.check(cu.graph_instantiate(&made, captured, 0), "cuGraphInstantiate"));
  GraphExec exec({bench.cu, bench.context.get().context, made});
  RONDO_TRY(bench.check(cu.graph_upload(made, handle), "cuGraphUpload"));
  RONDO_TRY(bench.check(cu.stream_synchronize(handle), "cuStreamSynchronize"));
  return exec;
}

Result<void> enqueue(const Bench &bench, const Lanes &lanes, uint32_t stream, const GraphExec &graph) {
  const CudaDriver &cu = *bench.cu;
  const Lane &lane = lanes.all[stream];
  CuStream const handle = lane.stream.get().object;
  const auto gate = reinterpret_cast<DevicePointer>(lanes.gate());
  RONDO_TRY(bench.check(cu.stream_wait_value64(handle, gate, lanes.released + 1, wait_value_geq),
                        "cuStreamWaitValue64"));
  RONDO_TRY(bench.check(cu.event_record(lane.begin.get().object, handle), "cuEventRecord"));
  RONDO_TRY(bench.check(cu.graph_launch(graph.get().object, handle), "cuGraphLaunch"));
  return bench.check(cu.event_record(lane.end.get().object, handle), "cuEventRecord");
}

/// Enqueues all graphs behind the gate, and opens it. The gate also opens if a launch waits too long for room.
Result<void> enqueue_all(const Bench &bench, Lanes &lanes, const std::vector<GraphExec> &graphs) {
  bool late = false;
  Result<void> enqueued;
  {
    const std::jthread opener([&](const std::stop_token &all_are_enqueued) {
      const uint64_t end = now_ns() + gate_patience_ns;
      while (!all_are_enqueued.stop_requested() && !late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        late = now_ns() > end;
      }
      memory::store_release(*lanes.gate(), lanes.released + 1);  // pairs with the waits of the streams
    });
    for (uint32_t stream = 0; stream < graphs.size() && enqueued.ok(); ++stream)
      enqueued = enqueue(bench, lanes, stream, graphs[stream]);
  }
  ++lanes.released;
  if (!late) return enqueued;
  return Error{RONDO_ERROR_TIMEOUT,
               "the driver had no room for graphs of " + std::to_string(graphs.size()) + " streams"};
}

/// Returns the microseconds of the slowest stream. A kernel that waits in vain ends by itself.
Result<double> time_together(const Bench &bench, Lanes &lanes, const std::vector<GraphExec> &graphs) {
  const auto count = static_cast<uint32_t>(graphs.size());
  const auto enqueued = enqueue_all(bench, lanes, graphs);
  double longest_us = 0;
  for (uint32_t stream = 0; stream < count; ++stream) {
    const Lane &lane = lanes.all[stream];
    RONDO_TRY(bench.check(bench.cu->stream_synchronize(lane.stream.get().object), "cuStreamSynchronize"));
    if (!enqueued.ok()) continue;
    float elapsed_ms = 0;
    RONDO_TRY(bench.check(
        bench.cu->event_elapsed_time(&elapsed_ms, lane.begin.get().object, lane.end.get().object),
        "cuEventElapsedTime"));
    longest_us = std::max(longest_us, static_cast<double>(elapsed_ms) * 1e3);
  }
  RONDO_TRY(enqueued);
  return longest_us;
}

/// Checks that every kernel has met the kernels of the other streams.
Result<void> check_meetings(const Bench &bench, const Lanes &lanes, const Kind &kind, uint32_t stream_count) {
  if (kind.parameters != Kind::Parameters::meet) return {};
  std::vector<uint64_t> seen(Lanes::word_bytes / sizeof(uint64_t));
  RONDO_TRY(bench.check(
      bench.cu->memcpy_dtoh_async(seen.data(), lanes.words.get().object, Lanes::word_bytes, bench.handle()),
      "cuMemcpyDtoHAsync"));
  RONDO_TRY(bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  const uint64_t wanted = (1 + 2) * (1 + run_count) * bench.sizes.stream_launches;
  bool met = seen[stream_count_max * soft_cuda::meet_stride] == 0;
  for (uint32_t stream = 0; stream < stream_count; ++stream)
    met = met && seen[stream * soft_cuda::meet_stride + soft_cuda::meet_ended] == wanted;
  if (met) return {};
  return Error{RONDO_ERROR_INTERNAL, "kernels of " + std::to_string(stream_count) + " streams lost each other (" +
                                         kind.name + ")"};
}

Result<double> kernel_us(const Bench &bench, Lanes &lanes, const Kind &kind, uint32_t stream_count) {
  const uint64_t count = bench.sizes.stream_launches;
  RONDO_TRY(bench.check(bench.cu->memset_d8_async(lanes.words.get().object, 0, Lanes::word_bytes, bench.handle()),
                        "cuMemsetD8Async"));
  RONDO_TRY(bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize"));
  double times_us[2];
  for (const uint64_t times : {1u, 2u}) {
    std::vector<GraphExec> graphs;
    for (uint32_t stream = 0; stream < stream_count; ++stream) {
      RONDO_TRY_ASSIGN(GraphExec made, make_graph(bench, lanes, kind, stream, stream_count, times * count));
      graphs.push_back(std::move(made));
    }
    RONDO_TRY_ASSIGN(times_us[times - 1], median_us([&] { return time_together(bench, lanes, graphs); }));
  }
  RONDO_TRY(check_meetings(bench, lanes, kind, stream_count));
  return (times_us[1] - times_us[0]) / static_cast<double>(count);
}

}  // namespace

Result<void> measure_streams(Bench &bench) {
  RONDO_TRY_ASSIGN(Lanes lanes, make_lanes(bench));
  Result<void> done;
  for (const Kind &kind : kinds)
    for (const uint32_t stream_count : {1u, 2u, stream_count_max}) {
      const std::string name = std::string("a kernel in graphs of ") + std::to_string(stream_count) +
                               (stream_count == 1 ? " stream, " : " streams, ") + kind.name;
      const auto measured = kernel_us(bench, lanes, kind, stream_count);
      if (!measured.ok() && kind.early) {
        std::printf("%-56s refused: %s\n", name.c_str(), measured.error().message.c_str());
        continue;
      }
      if (measured.ok()) tell(bench, name, measured.value(), "us");
      if (!measured.ok() && done.ok()) done = measured.error();  // later measurements may still succeed
    }
  return done;
}

}  // namespace device_costs
