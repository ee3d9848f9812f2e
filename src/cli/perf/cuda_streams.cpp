// SPDX-License-Identifier: Apache-2.0
#include "src/cli/perf/cuda_streams.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::cli {
namespace {

using namespace cuda;
using perf::Failure;
using perf::Lane;
using perf::Mark;
using perf::Outcome;

class CudaSideStream final : public perf::SideStream {
 public:
  explicit CudaSideStream(const PerfStreams &streams) : streams_(streams) {}
  Result<void> open();

  [[nodiscard]] rondo_stream_t stream() const override { return stream_.get().object; }
  [[nodiscard]] Outcome mark(Lane lane, Mark mark) override;
  [[nodiscard]] Outcome follow(Lane lane, Mark mark) override;
  [[nodiscard]] Outcome between_ns(Mark from, Mark to, double &time_ns) override;
  [[nodiscard]] Outcome wait() override;

 private:
  [[nodiscard]] CuStream of(Lane lane) const { return lane == Lane::side ? stream_.get().object : streams_.calls; }
  [[nodiscard]] CuEvent event(Mark mark) const { return events_[static_cast<size_t>(mark)].get().object; }

  PerfStreams streams_;
  Stream stream_;
  std::array<Event, perf::mark_count> events_;
};

Result<void> CudaSideStream::open() {
  RONDO_TRY_ASSIGN(stream_, make_stream(*streams_.context));
  for (Event &event : events_) {
    RONDO_TRY_ASSIGN(event, make_event(*streams_.context, event_default));
  }
  return {};
}

Outcome CudaSideStream::mark(Lane lane, Mark mark) {
  return perf_outcome(streams_.with_context(
      "cuEventRecord", [&](const CudaDriver &cu) { return cu.event_record(event(mark), of(lane)); }));
}

Outcome CudaSideStream::follow(Lane lane, Mark mark) {
  return perf_outcome(streams_.with_context(
      "cuStreamWaitEvent", [&](const CudaDriver &cu) { return cu.stream_wait_event(of(lane), event(mark), 0); }));
}

Outcome CudaSideStream::between_ns(Mark from, Mark to, double &time_ns) {
  return perf_take(streams_.between_ns(events_[static_cast<size_t>(from)], events_[static_cast<size_t>(to)]), time_ns);
}

Outcome CudaSideStream::wait() {
  return perf_outcome(streams_.with_context(
      "cuStreamSynchronize", [&](const CudaDriver &cu) { return cu.stream_synchronize(of(Lane::side)); }));
}

constexpr size_t word_bytes = 64;  // each word has its own cache line
constexpr size_t buffer_align_bytes = 4096;
constexpr size_t scratch_words = 16'384;          // memory that the device sets in each turn
constexpr uint64_t released = uint64_t{1} << 62;  // ends every wait for a word
constexpr uint64_t look_interval_ns = 200'000;
constexpr uint64_t release_timeout_ns = 5'000'000'000;

/// A relay, in which places take turns. Word p counts the turns that place p may have begun. Place p - 1 writes word p
/// after its own turn of that number. Place 0 begins a round, so the last place writes word 0 one turn ahead. The words
/// are in host memory, so the host can end the waits.
class CudaRelay final : public perf::Relay {
 public:
  CudaRelay(const PerfStreams &streams, const perf::RelayPlace &place) : streams_(streams), place_(place) {}
  Result<void> open();

  [[nodiscard]] int descriptor() const override { return file_.get(); }
  [[nodiscard]] Outcome run(uint32_t round_count, uint64_t timeout_ns, double &hand_over_ns) override;

 private:
  Result<void> open_file();
  Result<void> enqueue(uint32_t round_count);
  Result<void> take_turn(uint64_t number);
  Result<void> wait(uint64_t timeout_ns);
  void release() const;
  [[nodiscard]] DevicePointer word(size_t place) const { return address_ + place * word_bytes; }

  PerfStreams streams_;
  perf::RelayPlace place_;
  size_t bytes_ = 0;
  FileDescriptor file_;
  Mapping mapping_;
  HostRegistration registration_;  // destroyed before the mapping
  DevicePointer address_ = 0;
  DeviceMemory scratch_;
  Event begin_, end_;
  uint64_t turn_ = 0;
};

Result<void> CudaRelay::open_file() {
  bytes_ = (place_.count * word_bytes + buffer_align_bytes - 1) / buffer_align_bytes * buffer_align_bytes;
  if (!place_.path.empty()) {
    file_ = FileDescriptor(::open(place_.path.c_str(), O_RDWR | O_CLOEXEC));
    return file_.valid() ? Result<void>() : system_error("opening the words of a relay, " + place_.path, errno);
  }
  file_ = FileDescriptor(::memfd_create("rondo-relay", MFD_CLOEXEC));
  if (!file_.valid()) return system_error("memfd_create", errno);
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return system_error("ftruncate of a memfd", errno);
  return {};
}

Result<void> CudaRelay::open() {
  RONDO_TRY(open_file());
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || static_cast<size_t>(status.st_size) != bytes_)
    return Error{RONDO_ERROR_SYSTEM, place_.path + " is not the words of a relay of " + std::to_string(place_.count)};
  void *const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return system_error("mmap of the words of a relay", errno);
  mapping_ = Mapping({static_cast<std::byte *>(mapped), bytes_});
  RONDO_TRY(streams_.with_context("cuMemHostRegister", [&](const CudaDriver &cu) {
    return cu.mem_host_register(mapped, bytes_, host_register_portable | host_register_device_map);
  }));
  registration_ = HostRegistration({&streams_.driver(), streams_.context->get().context, mapped});
  RONDO_TRY(streams_.with_context("cuMemHostGetDevicePointer", [&](const CudaDriver &cu) {
    return cu.mem_host_get_device_pointer(&address_, mapped, 0);
  }));
  RONDO_TRY_ASSIGN(scratch_, allocate_device_memory(*streams_.context, scratch_words * sizeof(uint32_t)));
  RONDO_TRY_ASSIGN(begin_, make_event(*streams_.context, event_default));
  RONDO_TRY_ASSIGN(end_, make_event(*streams_.context, event_default));
  return {};
}

Result<void> CudaRelay::take_turn(uint64_t number) {
  const uint64_t awaited = place_.place == 0 ? number - 1 : number;
  RONDO_TRY(streams_.with_context("cuStreamWaitValue64", [&](const CudaDriver &cu) {
    return cu.stream_wait_value64(streams_.calls, word(place_.place), awaited, wait_value_geq);
  }));
  return streams_.with_context("cuMemsetD32Async", [&](const CudaDriver &cu) {
    return cu.memset_d32_async(scratch_.get().object, static_cast<unsigned>(number), scratch_words, streams_.calls);
  });
}

Result<void> CudaRelay::enqueue(uint32_t round_count) {
  for (uint32_t round = 0; round < round_count; ++round) {
    RONDO_TRY(take_turn(++turn_));
    if (round == 0 || round + 1 == round_count)
      RONDO_TRY(streams_.with_context("cuEventRecord", [&](const CudaDriver &cu) {
        return cu.event_record((round == 0 ? begin_ : end_).get().object, streams_.calls);
      }));
    RONDO_TRY(streams_.with_context("cuStreamWriteValue64", [&](const CudaDriver &cu) {
      return cu.stream_write_value64(streams_.calls, word((place_.place + 1) % place_.count), turn_,
                                     write_value_default);
    }));
  }
  return {};
}

/// Ends all waits, also in other processes. A stream may overwrite a released word once, so the caller repeats this
/// until its own stream has ended.
void CudaRelay::release() const {
  for (size_t place = 0; place < place_.count; ++place)
    // This release pairs with the wait of a stream.
    memory::store_release(*reinterpret_cast<uint64_t *>(mapping_.get().address + place * word_bytes), released);
}

Result<void> CudaRelay::wait(uint64_t timeout_ns) {
  const uint64_t deadline_ns = now_ns() + timeout_ns;
  bool late = false;
  for (;;) {
    RONDO_TRY_ASSIGN(const bool done, streams_.ended());
    if (done) break;
    const uint64_t time_ns = now_ns();
    late = late || time_ns > deadline_ns;
    if (time_ns > deadline_ns + release_timeout_ns) break;
    if (late) release();
    sleep_for_ns(look_interval_ns);
  }
  if (!late) return {};
  return Error{RONDO_ERROR_TIMEOUT,
               "the processes that share the device have not handed it over to each other in time; has one ended?"};
}

Outcome CudaRelay::run(uint32_t round_count, uint64_t timeout_ns, double &hand_over_ns) {
  const auto enqueued = enqueue(round_count);
  const auto waited = wait(enqueued.ok() ? timeout_ns : 0);
  if (!enqueued.ok()) return perf_outcome(enqueued);
  if (!waited.ok()) return perf_outcome(waited);
  const Outcome asked = perf_take(streams_.between_ns(begin_, end_), hand_over_ns);
  hand_over_ns /= (round_count - 1) * static_cast<double>(place_.count);
  return asked;
}

}  // namespace

Result<bool> PerfStreams::ended() const {
  bool yes = false;
  RONDO_TRY(with_context("cuStreamQuery", [&](const CudaDriver &cu) {
    const CuStatus status = cu.stream_query(calls);
    yes = status != CuStatus::not_ready;
    return yes ? status : CuStatus::success;
  }));
  return yes;
}

Result<double> PerfStreams::between_ns(const Event &from, const Event &to) const {
  float elapsed_ms = 0;
  RONDO_TRY(with_context("cuEventElapsedTime", [&](const CudaDriver &cu) {
    return cu.event_elapsed_time(&elapsed_ms, from.get().object, to.get().object);
  }));
  return static_cast<double>(elapsed_ms) * 1e6;
}

Result<std::unique_ptr<perf::SideStream>> make_side_stream(const PerfStreams &streams) {
  auto made = std::make_unique<CudaSideStream>(streams);
  RONDO_TRY(made->open());
  return std::unique_ptr<perf::SideStream>(std::move(made));
}

Result<std::unique_ptr<perf::Relay>> make_relay(const PerfStreams &streams, const perf::RelayPlace &place) {
  auto made = std::make_unique<CudaRelay>(streams, place);
  RONDO_TRY(made->open());
  return std::unique_ptr<perf::Relay>(std::move(made));
}

}  // namespace rondo::cli
