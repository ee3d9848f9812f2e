// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/one_sided_streams.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "cuda/executors/stream_users.h"
#include "cuda/transport/flags.h"
#include "cuda/transport/shared_memory.h"
#include "src/base/clock.h"
#include "src/engine/device_executor.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t poll_ns = 100'000;

/// Memory of a peer's device, at an address of this process.
class PeerMemory final : public RemoteMemory {
 public:
  PeerMemory(DevicePointer address, OpenedMemory opened) : address_(address), opened_(std::move(opened)) {}
  /// Uses memory of this process at its own address, on the device of `context`.
  PeerMemory(DevicePointer address, PrimaryContext context) : address_(address), context_(std::move(context)) {}
  PeerMemory(const PeerMemory &) = delete;
  PeerMemory &operator=(const PeerMemory &) = delete;
  ~PeerMemory() override {
    if (!opened_.vmm.reserved.valid()) return;
    const CaptureModeGuard capture_goes_on(*opened_.vmm.reserved.get().driver);
    opened_ = {};
  }
  std::byte *address() const override { return reinterpret_cast<std::byte *>(address_); }
  int write(uint64_t, const std::byte *, uint64_t) const override { return ENOTSUP; }  // streams write to it

 private:
  const DevicePointer address_;
  OpenedMemory opened_;      ///< empty if the memory is of this process
  PrimaryContext context_;  ///< of another device of this process
};

/// Returns a duplicate of another process's descriptor. /proc cannot open a descriptor of device memory.
Result<FileDescriptor> take_descriptor_of(int process, int descriptor) {
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  FileDescriptor taken(handle.valid() ? static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), descriptor, 0)) : -1);
  if (taken.valid()) return taken;
  Error error = system_error("pidfd_getfd of process " + std::to_string(process), errno);
  if (error.status == RONDO_ERROR_SYSTEM) error.status = RONDO_ERROR_UNSUPPORTED;
  return error;
}

}  // namespace

OneSidedStreams::OneSidedStreams(const PrimaryContext &context, const Links &links, Operations &operations)
    : driver_(context.get().driver),
      context_(context.get().context),
      device_(context.get().device),
      links_(links),
      operations_(operations),
      rank_(operations.rank()),
      rank_count_(operations.rank_count()) {}

Result<std::unique_ptr<OneSidedStreams>> OneSidedStreams::make(const PrimaryContext &context, const std::string &name,
                                                               const Links &links, Operations &operations) {
  std::unique_ptr<OneSidedStreams> made(new OneSidedStreams(context, links, operations));
  RONDO_TRY_ASSIGN(made->wait_flags_, wait_flags_of(*made->driver_, made->device_, name));
  RONDO_TRY_ASSIGN(made->owner_, retain_primary_context(*made->driver_, made->device_));
  RONDO_TRY_ASSIGN(made->words_, allocate_host_memory(context, slot_count * sizeof(uint64_t)));
  std::fill_n(&made->word(0), slot_count, uint64_t{ended});
  made->last_sends_.resize(made->rank_count_);
  for (uint32_t slot = 0; slot < slot_count; ++slot) made->free_slots_.push_back(slot);
  RONDO_TRY(made->map_signals());
  monitor_thread().add(*made);
  made->shares_thread_ = true;
  return made;
}

OneSidedStreams::~OneSidedStreams() { end(); }

/// Maps the signals once more, because streams may use them longer than the links of this rank live.
Result<void> OneSidedStreams::map_signals() {
  const SignalFile file = links_.signal_file();
  RONDO_TRY_ASSIGN(signals_, register_part(owner_, file.descriptor, file.offset, file.bytes, "the signals"));
  RONDO_TRY_ASSIGN(signals_address_, device_address(owner_, *signals_, "the signals"));
  return {};
}

MemoryPlace OneSidedStreams::describe(const void *pointer, size_t bytes) const {
  MemoryPlace place;
  place.address = reinterpret_cast<uintptr_t>(pointer);
  place.bytes = bytes;
  place.process = static_cast<int32_t>(::getpid());
  place.device = device_;
  if (const auto range = find_mappable(pointer, bytes)) {
    place.kind = PayloadKind::mapped;
    place.descriptor = range->descriptor;
    place.region_offset = range->offset;
    place.region_bytes = range->memory_bytes;
  }
  return place;
}

/// Returns an error if this rank's device cannot write to memory of another device of this process.
Result<void> OneSidedStreams::check_reach(int32_t device) const {
  int reaches = 0;
  if (driver_->device_can_access_peer(&reaches, device_, device) == CuStatus::success && reaches != 0) return {};
  return Error{RONDO_ERROR_UNSUPPORTED, "CUDA device " + std::to_string(device_) +
                                            " has no peer access to the memory of CUDA device " +
                                            std::to_string(device) + "; use rondo_send and rondo_recv between them"};
}

Result<std::shared_ptr<const RemoteMemory>> OneSidedStreams::open(uint32_t peer, const MemoryPlace &place) const {
  using Opened = std::shared_ptr<const RemoteMemory>;
  const uint32_t kinds = links_.reachable_kinds(peer);
  if (peer == rank_ || (kinds & kind_bit(PayloadKind::address)) != 0) {
    PrimaryContext theirs;
    if (place.device != device_) {
      RONDO_TRY(check_reach(place.device));
      RONDO_TRY_ASSIGN(theirs, open_peer_device(owner_, place.device));
    }
    return Opened(std::make_shared<PeerMemory>(place.address, std::move(theirs)));
  }
  if (place.kind != PayloadKind::mapped)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "the buffer is memory of a device that other processes cannot map; take memory of "
                 "rondo_device_mem_alloc() (ncclMemAlloc) for the window"};
  if ((kinds & kind_bit(PayloadKind::mapped)) == 0)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "this process cannot open descriptors of that rank's process (RONDO_MAPPING, or another container)"};
  RONDO_TRY_ASSIGN(FileDescriptor descriptor, take_descriptor_of(place.process, place.descriptor));
  auto opened = open_vmm(owner_, std::move(descriptor), place.region_bytes);
  if (!opened.ok()) {
    Error error = opened.error();
    if (error.status != RONDO_ERROR_OUT_OF_RESOURCES) error.status = RONDO_ERROR_UNSUPPORTED;
    return error;
  }
  const DevicePointer address = opened.value().address + place.region_offset;
  return Opened(std::make_shared<PeerMemory>(address, std::move(opened).value()));
}

/// Returns the slot of a new operation. If all slots are in use, waits until one is free, at most for the timeout.
Result<uint32_t> OneSidedStreams::take_slot() {
  const uint64_t deadline_ns = now_ns() + operations_.timeout_ns();
  while (true) {  // ends at the deadline
    {
      const std::lock_guard lock(mutex_);
      if (free_slots_.empty()) set_ended_aside();
      if (!free_slots_.empty()) {
        const uint32_t slot = free_slots_.back();
        free_slots_.pop_back();
        return slot;
      }
    }
    if (operations_.ranks().failed()) return operations_.ranks().failure();
    if (now_ns() >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT, std::to_string(slot_count) +
                                            " one-sided operations are enqueued, and none has ended in time; "
                                            "check what holds up the stream, or raise timeout_ms (RONDO_TIMEOUT)"};
    sleep_for_ns(poll_ns);
  }
}

Result<void> OneSidedStreams::enqueue(const OneSidedBatch &batch, CuStream stream) {
  const ContextGuard guard(*driver_, context_);
  RONDO_TRY(guard.status());
  release_ended();
  const StreamWork work{driver_, stream, wait_flags_};
  for (const OneSided &operation : batch.operations) RONDO_TRY(enqueue_one(operation, work));
  monitor_thread().wake();
  return {};
}

Result<void> OneSidedStreams::enqueue_one(const OneSided &operation, const StreamWork &work) {
  RONDO_TRY_ASSIGN(const uint32_t slot, take_slot());
  memory::store_release(word(slot), uint64_t{enqueued});  // pairs with load_acquire in set_ended_aside()
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({operation, slot, work.stream, nullptr});
  }
  const auto place = reinterpret_cast<DevicePointer>(&word(slot));
  auto done = work.write(place, begun);
  if (done.ok()) done = run(operation, work);
  // Even after an error, the stream writes the end, because it may not have written the begin yet.
  const auto marked = work.write(place, ended);
  if (!marked.ok()) memory::store_release(word(slot), uint64_t{ended});  // the device has failed
  return done.ok() ? marked : done;
}

Result<void> OneSidedStreams::run(const OneSided &operation, const StreamWork &work) {
  const auto signal_address = [&](uint32_t from, uint32_t to) {
    return signals_address_ + signal_index(from, to, operation.signal) * sizeof(uint64_t);
  };
  if (operation.kind == OneSided::Kind::wait)
    return work.wait(signal_address(operation.peer, rank_), operation.total);
  RONDO_TRY(follow_last_send(operation.peer, work));
  if (operation.bytes != 0) {
    const auto to = reinterpret_cast<DevicePointer>(operation.to->address()) + operation.offset;
    RONDO_TRY(work.copy(to, reinterpret_cast<DevicePointer>(operation.from), operation.bytes, "cuMemcpyAsync"));
  }
  RONDO_TRY(work.write(signal_address(rank_, operation.peer), operation.total));
  LastSend &last = last_sends_[operation.peer];
  // An error here is not returned, because only an operation on another stream needs the event.
  last.recorded = driver_->event_record(last.ended.get().object, work.stream) == CuStatus::success;
  last.stream = work.stream;
  return {};
}

/// Orders a put or a signal after the latest one to that peer. It is not ordered after waits, because the peer may send
/// the awaited signal only after it has received this rank's signal.
Result<void> OneSidedStreams::follow_last_send(uint32_t peer, const StreamWork &work) {
  LastSend &last = last_sends_[peer];
  if (!last.ended.valid()) {
    RONDO_TRY_ASSIGN(last.ended, make_event(owner_));
    return {};
  }
  // A default handle may mean another stream in each thread.
  if (last.stream == work.stream && !is_default_stream(work.stream)) return {};
  if (!last.recorded)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "no event could be recorded after the last put or signal to rank " + std::to_string(peer) +
                     ", so none on another stream can follow it; use one stream"};
  return cuda_check(*driver_, driver_->stream_wait_event(work.stream, last.ended.get().object, 0),
                    "cuStreamWaitEvent");
}

/// Moves the operations that have ended to ended_, with mutex_ held. Does not call the driver.
void OneSidedStreams::set_ended_aside() {
  for (auto next = pending_.begin(); next != pending_.end();) {
    const auto each = next++;
    if (memory::load_acquire(word(each->slot)) != ended) continue;  // pairs with the stream's write
    free_slots_.push_back(each->slot);
    ++ended_count_;
    ended_.splice(ended_.end(), pending_, each);
  }
}

void OneSidedStreams::release_ended() {
  std::list<Pending> released;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  set_ended_aside();
  released.swap(ended_);
}

bool OneSidedStreams::is_idle() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(pending_, [&](const Pending &each) {
    return memory::load_acquire(word(each.slot)) == ended;  // pairs with the stream's write
  });
}

uint64_t OneSidedStreams::seen_count(const OneSided &wait) const {
  const auto *const signals = reinterpret_cast<const uint64_t *>(signals_->mapping.get().address);
  return memory::load_acquire(signals[signal_index(wait.peer, rank_, wait.signal)]);  // pairs with the peer's write
}

/// Says whether a wait has begun and has not got its signals. The watching thread ends such a wait at its deadline.
bool OneSidedStreams::watches_any() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(pending_, [&](const Pending &each) {
    return each.operation.kind == OneSided::Kind::wait &&
           memory::load_acquire(word(each.slot)) == begun &&  // pairs with the stream's write
           seen_count(each.operation) < each.operation.total;
  });
}

/// Returns the number of begins and ends of operations so far.
uint64_t OneSidedStreams::step_count() const {
  const std::lock_guard lock(mutex_);
  uint64_t steps = ended_count_ * ended;
  for (const Pending &each : pending_) steps += memory::load_acquire(word(each.slot));  // pairs with the stream's write
  return steps;
}

bool OneSidedStreams::wait() {
  uint64_t deadline_ns = 0, seen = 0;
  while (!operations_.ranks().failed()) {  // ends at the deadline
    release_ended();
    if (is_idle()) return true;
    const uint64_t now = now_ns(), steps = step_count();
    if (std::exchange(seen, steps) != steps || deadline_ns == 0 || watches_any())
      deadline_ns = now + operations_.timeout_ns();
    if (now >= deadline_ns) raise_stuck();
    sleep_for_ns(poll_ns);
  }
  return false;
}

/// Fails the communicator because of the first operation that has not ended.
void OneSidedStreams::raise_stuck() {
  const std::lock_guard lock(mutex_);
  const auto stuck = std::ranges::find_if(pending_, [&](const Pending &each) {
    return memory::load_acquire(word(each.slot)) != ended;  // pairs with the stream's write
  });
  if (stuck == pending_.end()) return;
  char stream[32];
  std::snprintf(stream, sizeof stream, "%p", static_cast<void *>(stuck->stream));
  SignalWatch(operations_, stuck->operation, links_).raise_held_up(stream);
}

/// Ends the waits that have begun, with mutex_ held. A peer's stream may write a signal again, so this is repeated.
void OneSidedStreams::release_waits() {
  auto *const signals = reinterpret_cast<uint64_t *>(signals_->mapping.get().address);
  for (const Pending &each : pending_) {
    const bool waits = each.operation.kind == OneSided::Kind::wait;
    if (waits && memory::load_acquire(word(each.slot)) == begun)  // pairs with the stream's write
      memory::store_release(signals[signal_index(each.operation.peer, rank_, each.operation.signal)], flags_released);
  }
}

void OneSidedStreams::stop() {
  const std::lock_guard lock(mutex_);
  set_ended_aside();
  release_waits();
}

bool OneSidedStreams::work_once() {
  const std::lock_guard lock(mutex_);
  set_ended_aside();
  for (Pending &each : pending_) {
    if (each.operation.kind != OneSided::Kind::wait || memory::load_acquire(word(each.slot)) != begun) continue;
    if (each.watch == nullptr) each.watch = std::make_unique<SignalWatch>(operations_, each.operation, links_);
    static_cast<void>(each.watch->look(now_ns()));
  }
  if (operations_.ranks().failed()) release_waits();
  return !pending_.empty();
}

void OneSidedStreams::end() {
  if (std::exchange(shares_thread_, false)) monitor_thread().remove(*this);
  release_ended();
}

}  // namespace rondo::cuda
