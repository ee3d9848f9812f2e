// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/capture.h"

#include <algorithm>
#include <utility>

#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/state.h"
#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

void merge(std::vector<size_t> &tips, const std::vector<size_t> &more) {
  for (const size_t tip : more)
    if (std::find(tips.begin(), tips.end(), tip) == tips.end()) tips.push_back(tip);
}

/// Lets all streams leave the capture. Events that they recorded are unusable until they are recorded again.
void end_capture(State &driver, const std::shared_ptr<Capture> &capture) {
  for (Stream *stream : capture->streams) {
    stream->capture_tips.clear();
    stream->lane = 0;
    stream->capture.reset();
  }
  capture->streams.clear();
  driver.captures.erase(capture);
}

/// Returns whether each stream that joined the capture has been joined back: its newest nodes precede the origin's.
bool all_joined(const Capture &capture) {
  std::vector<bool> reached(capture.body.nodes.size(), false);
  for (const size_t tip : capture.origin->capture_tips) reached[tip] = true;
  for (size_t index = reached.size(); index-- > 0;)
    if (reached[index])
      for (const size_t before : capture.body.nodes[index].after) reached[before] = true;
  for (const Stream *stream : capture.streams)
    for (const size_t tip : stream->capture_tips)
      if (!reached[tip]) return false;
  return true;
}

CuStatus capture_status(State &driver, const Stream &stream, CaptureStatus &status) {
  if (&stream == stream.context->legacy.get() && legacy_is_entangled(driver, *stream.context))
    return CuStatus::stream_capture_implicit;
  status = stream.capture == nullptr     ? CaptureStatus::none
           : stream.capture->invalidated ? CaptureStatus::invalidated
                                         : CaptureStatus::active;
  return CuStatus::success;
}

struct Replay {
  const GraphBody &body;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done;
  CuStatus status = CuStatus::success;
  uint32_t lanes_left = 0;
};

void run_lane(Replay &run, uint32_t lane) {
  for (size_t index = 0; index < run.body.nodes.size(); ++index) {
    const GraphNode &node = run.body.nodes[index];
    if (node.lane != lane) continue;
    std::unique_lock lock(run.mutex);
    for (const size_t before : node.after) run.changed.wait(lock, [&] { return run.done[before]; });
    if (run.status == CuStatus::success) {
      lock.unlock();
      const CuStatus status = run_action(node.run);
      lock.lock();
      if (run.status == CuStatus::success) run.status = status;
    }
    run.done[index] = true;
    run.changed.notify_all();
  }
  const std::lock_guard lock(run.mutex);
  --run.lanes_left;
  run.changed.notify_all();
}

struct LaneTask {
  Replay *run = nullptr;
  uint32_t lane = 0;
};

void run_lane_task(void *argument) {
  const std::unique_ptr<LaneTask> task(static_cast<LaneTask *>(argument));
  run_lane(*task->run, task->lane);
}

}  // namespace

CuStatus capture_node(Stream &stream, Action run) {
  Capture &capture = *stream.capture;
  if (capture.invalidated) return CuStatus::stream_capture_invalidated;
  ++state().captured_count;
  capture.body.nodes.push_back({std::move(run), stream.lane, stream.capture_tips});
  stream.capture_tips = {capture.body.nodes.size() - 1};
  return CuStatus::success;
}

CuStatus capture_record(Stream &stream, Event &event) {
  if (stream.capture->invalidated) return CuStatus::stream_capture_invalidated;
  event.capture = stream.capture;
  event.capture_tips = stream.capture_tips;
  event.recorded.reset();
  return CuStatus::success;
}

CuStatus capture_wait(State &driver, Stream &stream, const Event &event) {
  if (event.capture != nullptr && !driver.captures.contains(event.capture)) return CuStatus::captured_event;
  if (event.capture == nullptr) {
    // "A dependency would have been created which crosses the capture sequence boundary."
    if (event.recorded == nullptr && event.shared == nullptr) return CuStatus::success;
    stream.capture->invalidated = true;
    return CuStatus::stream_capture_isolation;
  }
  if (event.capture->invalidated) return CuStatus::stream_capture_invalidated;
  if (stream.capture == nullptr) {
    if (&stream == stream.context->legacy.get()) return CuStatus::stream_capture_implicit;
    stream.capture = event.capture;
    stream.lane = event.capture->body.lane_count++;
    stream.capture_tips.clear();
    event.capture->streams.insert(&stream);
  } else if (stream.capture != event.capture) {
    stream.capture->invalidated = true;
    event.capture->invalidated = true;
    return CuStatus::stream_capture_merge;
  }
  merge(stream.capture_tips, event.capture_tips);
  return CuStatus::success;
}

CuStatus check_not_captured(const State &driver, const Event &event) {
  if (event.capture == nullptr) return CuStatus::success;
  if (!driver.captures.contains(event.capture)) return CuStatus::invalid_value;
  event.capture->invalidated = true;
  return CuStatus::captured_event;
}

void invalidate_captures(State &driver, const Context &context) {
  for (const auto &capture : driver.captures)
    if (capture->origin->context.get() == &context) capture->invalidated = true;
}

CuStatus check_unsafe_call(State &driver) {
  const ThreadState &self = this_thread();
  if (self.capture_mode == CaptureMode::relaxed) return CuStatus::success;
  CuStatus status = CuStatus::success;
  for (const auto &capture : driver.captures) {
    const bool own = capture->thread == self.number && capture->mode != CaptureMode::relaxed;
    const bool global = capture->mode == CaptureMode::global && self.capture_mode == CaptureMode::global;
    if (!own && !global) continue;
    capture->invalidated = true;
    status = CuStatus::stream_capture_unsupported;
  }
  return status;
}

CuStatus check_not_capturing(Stream &stream) {
  if (stream.capture == nullptr) return CuStatus::success;
  stream.capture->invalidated = true;
  return CuStatus::stream_capture_unsupported;
}

CuStatus replay(const GraphBody &body) {
  Replay run{body, {}, {}, std::vector<bool>(body.nodes.size(), false), CuStatus::success, body.lane_count};
  for (uint32_t lane = 1; lane < body.lane_count; ++lane) run_on_pool(run_lane_task, new LaneTask{&run, lane});
  run_lane(run, 0);
  std::unique_lock lock(run.mutex);
  run.changed.wait(lock, [&] { return run.lanes_left == 0; });
  return run.status;
}

}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuStreamIsCapturing(CuStream handle, CaptureStatus *status) {
  return call_on_stream(Entry::stream_is_capturing, handle, [&](State &driver, Lock &, const auto &stream) {
    return status == nullptr ? CuStatus::invalid_value : capture_status(driver, *stream, *status);
  });
}

CuStatus cuStreamGetCaptureInfo_v2(CuStream handle, CaptureStatus *status, unsigned long long *id, CuGraph *graph,
                                   const CuGraphNode **after, size_t *after_count) {
  return call_on_stream(Entry::stream_get_capture_info, handle, [&](State &driver, Lock &, const auto &stream) {
    // This driver reports nothing about the graph and its nodes.
    if (status == nullptr || graph != nullptr || after != nullptr || after_count != nullptr)
      return CuStatus::invalid_value;
    if (const CuStatus answer = capture_status(driver, *stream, *status); answer != CuStatus::success) return answer;
    if (*status == CaptureStatus::active && id != nullptr) *id = stream->capture->number;
    return CuStatus::success;
  });
}

CuStatus cuStreamBeginCapture_v2(CuStream handle, CaptureMode mode) {
  return call_on_stream(Entry::stream_begin_capture, handle, [&](State &driver, Lock &, const auto &stream) {
    if (mode < CaptureMode::global || mode > CaptureMode::relaxed) return CuStatus::invalid_value;
    if (stream == stream->context->legacy) return CuStatus::stream_capture_unsupported;
    if (stream->capture != nullptr) return CuStatus::illegal_state;
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->number = ++driver.capture_count;
    capture->thread = this_thread().number;
    capture->origin = stream.get();
    capture->streams.insert(stream.get());
    stream->capture = capture;
    stream->capture_tips.clear();
    stream->lane = 0;
    driver.captures.insert(capture);
    return CuStatus::success;
  });
}

CuStatus cuStreamEndCapture(CuStream handle, CuGraph *graph) {
  return call_on_stream(Entry::stream_end_capture, handle, [&](State &driver, Lock &, const auto &stream) {
    if (graph == nullptr) return CuStatus::invalid_value;
    *graph = nullptr;
    const auto capture = stream->capture;
    if (capture == nullptr) return CuStatus::illegal_state;
    if (capture->origin != stream.get()) {
      capture->invalidated = true;
      return CuStatus::stream_capture_unmatched;
    }
    if (capture->mode != CaptureMode::relaxed && capture->thread != this_thread().number)
      return CuStatus::stream_capture_wrong_thread;
    const bool joined = all_joined(*capture);
    end_capture(driver, capture);
    if (capture->invalidated) return CuStatus::stream_capture_invalidated;
    if (!joined) return CuStatus::stream_capture_unjoined;
    auto made = std::make_shared<soft_cuda::Graph>();
    made->body = std::make_shared<const GraphBody>(std::move(capture->body));
    *graph = driver.graphs.add(std::move(made));
    return CuStatus::success;
  });
}

CuStatus cuThreadExchangeStreamCaptureMode(CaptureMode *mode) {
  return call(Entry::thread_exchange_capture_mode, [&](State &, Lock &) {
    if (mode == nullptr || *mode < CaptureMode::global || *mode > CaptureMode::relaxed) return CuStatus::invalid_value;
    std::swap(*mode, this_thread().capture_mode);
    return CuStatus::success;
  });
}

CuStatus cuGraphInstantiateWithFlags(CuGraphExec *exec, CuGraph graph, unsigned long long flags) {
  return call(Entry::graph_instantiate, [&](State &driver, Lock &) {
    const auto found = driver.graphs.find(graph);
    if (exec == nullptr || found == nullptr || flags > 15) return CuStatus::invalid_value;
    auto made = std::make_shared<soft_cuda::GraphExec>();
    made->body = found->body;
    *exec = driver.graph_execs.add(std::move(made));
    return CuStatus::success;
  });
}

CuStatus cuGraphUpload(CuGraphExec exec, CuStream handle) {
  return call_on_stream(Entry::graph_upload, handle, [&](State &driver, Lock &lock, const auto &stream) {
    const auto found = driver.graph_execs.find(exec);
    if (found == nullptr) return CuStatus::invalid_value;
    if (const CuStatus status = check_not_capturing(*stream); status != CuStatus::success) return status;
    found->uploaded = true;
    return submit(driver, lock, stream, [] { return CuStatus::success; });
  });
}

CuStatus cuGraphLaunch(CuGraphExec exec, CuStream handle) {
  return call_on_stream(Entry::graph_launch, handle, [&](State &driver, Lock &lock, const auto &stream) {
    const auto found = driver.graph_execs.find(exec);
    if (found == nullptr) return CuStatus::invalid_value;
    // The first launch of a graph that was not uploaded allocates memory, so it may wait for the device.
    if (!std::exchange(found->uploaded, true)) synchronise_implicitly(driver, lock, stream->context);
    std::vector<CompletionRef> after;
    if (found->last != nullptr && !found->last->done) after.push_back(found->last);
    CompletionRef end;
    const CuStatus status = submit(
        driver, lock, stream, [body = found->body] { return replay(*body); }, &end, std::move(after));
    if (end != nullptr) found->last = end;
    return status;
  });
}

CuStatus cuGraphExecDestroy(CuGraphExec exec) {
  return call(Entry::graph_exec_destroy, [&](State &driver, Lock &) {
    return driver.graph_execs.take(exec) == nullptr ? CuStatus::invalid_value : CuStatus::success;
  });
}

CuStatus cuGraphDestroy(CuGraph graph) {
  return call(Entry::graph_destroy, [&](State &driver, Lock &) {
    return driver.graphs.take(graph) == nullptr ? CuStatus::invalid_value : CuStatus::success;
  });
}

}  // extern "C"
