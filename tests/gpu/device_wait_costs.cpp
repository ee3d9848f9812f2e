// SPDX-License-Identifier: Apache-2.0
// This file finds out which driver calls wait for a kernel that is waiting itself. Each call is made on its own thread
// while such a kernel runs. If the call has not returned after wait_limit, it is recorded as one that waits. Then the
// kernel is released, so that the call ends.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/proto/memory.h"
#include "tests/gpu/device_costs.h"
#include "tests/soft_cuda/test_kernels.h"

using namespace rondo;
using namespace rondo::cuda;

namespace device_costs {
namespace {

constexpr std::chrono::milliseconds wait_limit{200};
constexpr size_t bytes = size_t{1} << 21;

struct Call {
  const char *name;
  std::function<CuStatus()> make;
};

/// Objects that one call makes and a later call uses.
struct MadeObjects {
  DevicePointer memory = 0, address = 0, opened = 0;
  void *pinned = nullptr, *pageable = nullptr;
  cuda::MemoryHandle handle = 0;
  CuStream stream = nullptr;
  CuEvent event = nullptr;
  CuGraphExec exec = nullptr;
  CuLibrary library = nullptr;
};

std::vector<Call> calls_of(const Bench &bench, MadeObjects &made, CuGraph graph, const IpcMemoryHandle &exported) {
  const CudaDriver &cu = *bench.cu;
  static constexpr MemoryAccess access{{LocationType::device, 0}, AccessFlags::read_write};
  MemoryProperties properties;
  properties.requested_handle_types = HandleType::posix_descriptor;
  return {
      {"cuMemAlloc", [&] { return cu.mem_alloc(&made.memory, bytes); }},
      {"cuMemFree", [&] { return cu.mem_free(made.memory); }},
      {"cuMemHostAlloc", [&] { return cu.mem_host_alloc(&made.pinned, bytes, 0); }},
      {"cuMemFreeHost", [&] { return cu.mem_free_host(made.pinned); }},
      {"cuMemHostRegister", [&] { return cu.mem_host_register(made.pageable, bytes, 0); }},
      {"cuMemHostUnregister", [&] { return cu.mem_host_unregister(made.pageable); }},
      {"cuMemCreate", [&, properties] { return cu.vmm_create(&made.handle, bytes, &properties, 0); }},
      {"cuMemAddressReserve", [&] { return cu.vmm_address_reserve(&made.address, bytes, 0, 0, 0); }},
      {"cuMemMap", [&] { return cu.vmm_map(made.address, bytes, 0, made.handle, 0); }},
      {"cuMemSetAccess", [&] { return cu.vmm_set_access(made.address, bytes, &access, 1); }},
      {"cuMemUnmap", [&] { return cu.vmm_unmap(made.address, bytes); }},
      {"cuMemAddressFree", [&] { return cu.vmm_address_free(made.address, bytes); }},
      {"cuMemRelease", [&] { return cu.vmm_release(made.handle); }},
      {"cuIpcOpenMemHandle",
       [&] { return cu.ipc_open_mem_handle(&made.opened, exported, ipc_lazy_enable_peer_access); }},
      {"cuIpcCloseMemHandle", [&] { return cu.ipc_close_mem_handle(made.opened); }},
      {"cuStreamCreate", [&] { return cu.stream_create(&made.stream, stream_non_blocking, 0); }},
      {"cuEventCreate", [&] { return cu.event_create(&made.event, event_disable_timing); }},
      {"cuEventDestroy", [&] { return cu.event_destroy(made.event); }},
      {"cuGraphInstantiate", [&, graph] { return cu.graph_instantiate(&made.exec, graph, 0); }},
      {"cuGraphUpload", [&] { return cu.graph_upload(made.exec, made.stream); }},
      {"cuGraphLaunch, the first", [&] { return cu.graph_launch(made.exec, made.stream); }},
      {"cuGraphExecDestroy", [&] { return cu.graph_exec_destroy(made.exec); }},
      {"cuStreamDestroy", [&] { return cu.stream_destroy(made.stream); }},
      {"cuLibraryLoadData",
       [&] {
         return cu.library_load_data(&made.library, bench.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
       }},
      {"cuKernelGetFunction, cuFuncLoad",
       [&] {
         CuKernel kernel = nullptr;
         CuFunction function = nullptr;
         CuStatus status = cu.library_get_kernel(&kernel, made.library, "cost_reduce");
         if (status == CuStatus::success) status = cu.kernel_get_function(&function, kernel);
         return status == CuStatus::success ? cu.func_load(function) : status;
       }},
      {"cuLibraryUnload", [&] { return cu.library_unload(made.library); }},
  };
}

/// Runs a kernel that waits for a word of the host.
class WaitingKernel {
 public:
  explicit WaitingKernel(uint64_t *words) : words_(words) {
    memory::store_relaxed(words_[0], 0);
    memory::store_relaxed(words_[soft_cuda::pair_stride], 0);
  }
  /// Returns once the kernel runs.
  [[nodiscard]] Result<void> begin(const Bench &bench) {
    soft_cuda::PairParameters parameters{words_, 1, 0};
    void *arguments[] = {&parameters};
    RONDO_TRY(bench.check(bench.cu->launch_kernel(bench.functions.at("cost_pair"), 1, 1, 1, 32, 1, 1, 0, bench.handle(),
                                                  arguments, nullptr),
                          "cost_pair"));
    const uint64_t end = now_ns() + 60'000'000'000;
    while (memory::load_acquire(words_[soft_cuda::pair_stride]) == 0)  // pairs with the post of the kernel
      if (now_ns() > end) return Error{RONDO_ERROR_TIMEOUT, "the kernel that is to wait does not begin in a minute"};
    return {};
  }
  [[nodiscard]] Result<void> end(const Bench &bench) {
    memory::store_release(words_[0], 1);  // pairs with the poll of the kernel
    return bench.check(bench.cu->stream_synchronize(bench.handle()), "cuStreamSynchronize");
  }

 private:
  uint64_t *words_;
};

Result<void> time_beside(Bench &bench, const Call &call, uint64_t *words) {
  WaitingKernel kernel(words);
  RONDO_TRY(kernel.begin(bench));
  uint64_t took_ns = 0;
  auto done = std::async(std::launch::async, [&] {
    const ContextGuard guard(*bench.cu, bench.context.get().context);
    const uint64_t begin = now_ns();
    const CuStatus status = call.make();
    took_ns = now_ns() - begin;
    return status;
  });
  const bool returned = done.wait_for(wait_limit) == std::future_status::ready;
  const auto ended = kernel.end(bench);
  RONDO_TRY(bench.check(done.get(), call.name));
  RONDO_TRY(ended);
  tell(bench, std::string(call.name) + (returned ? " beside a waiting kernel" : ": waits for a waiting kernel"),
       static_cast<double>(took_ns) / 1e3, "us");
  return {};
}

/// Runs in a process of its own, and exports memory. When it reads a byte, it allocates the memory and writes the
/// handle. It keeps the memory until the other end of `from` is closed.
void export_memory(int from, int to) {
  char go = 0;
  if (::read(from, &go, 1) != 1) return;
  const auto config = read_config();
  const auto driver = config.ok() ? cuda_driver(config.value().cuda_library) : config.error();
  if (!driver.ok()) return;
  const auto context = retain_primary_context(*driver.value(), 0);
  if (!context.ok()) return;
  const ContextGuard guard(*driver.value(), context.value().get().context);
  const auto memory = allocate_device_memory(context.value(), bytes);
  IpcMemoryHandle handle{};
  if (!memory.ok() || driver.value()->ipc_get_mem_handle(&handle, memory.value().get().object) != CuStatus::success)
    return;
  if (::write(to, &handle, sizeof handle) != static_cast<ssize_t>(sizeof handle)) return;
  static_cast<void>(::read(from, &go, 1));
}

}  // namespace

Exporter::Exporter() {
  int there[2], back[2];
  if (::pipe2(there, O_CLOEXEC) != 0 || ::pipe2(back, O_CLOEXEC) != 0) return;
  process_ = ::fork();
  if (process_ == 0) {
    ::close(there[1]);
    ::close(back[0]);
    ::alarm(120);
    export_memory(there[0], back[1]);
    std::_Exit(0);
  }
  ::close(there[0]);
  ::close(back[1]);
  to_.reset(there[1]);
  from_.reset(back[0]);
}

Exporter::~Exporter() {
  to_.reset();
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

Result<IpcMemoryHandle> Exporter::handle() const {
  IpcMemoryHandle handle{};
  if (::write(to_.get(), "g", 1) == 1 &&
      ::read(from_.get(), &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle))
    return handle;
  return Error{RONDO_ERROR_SYSTEM, "the process that exports memory has ended"};
}

Result<void> measure_waits(Bench &bench, const Exporter &exporter) {
  RONDO_TRY_ASSIGN(const HostMemory host, allocate_host_memory(bench.context, 4096));
  RONDO_TRY_ASSIGN(const IpcMemoryHandle exported, exporter.handle());
  const CudaDriver &cu = *bench.cu;
  RONDO_TRY(bench.check(cu.stream_begin_capture(bench.handle(), CaptureMode::thread_local_), "cuStreamBeginCapture"));
  soft_cuda::NothingParameters nothing{0};
  void *arguments[] = {&nothing};
  const auto enqueued = bench.check(cu.launch_kernel(bench.functions.at("cost_nothing"), 1, 1, 1, 32, 1, 1, 0,
                                                     bench.handle(), arguments, nullptr),
                                    "cost_nothing");
  CuGraph captured = nullptr;
  RONDO_TRY(bench.check(cu.stream_end_capture(bench.handle(), &captured), "cuStreamEndCapture"));
  const Graph graph({bench.cu, bench.context.get().context, captured});
  RONDO_TRY(enqueued);
  MadeObjects made;
  std::vector<std::byte> pageable(2 * bytes);
  const auto start = reinterpret_cast<uintptr_t>(pageable.data());
  made.pageable = reinterpret_cast<void *>((start + bytes - 1) / bytes * bytes);
  for (const Call &call : calls_of(bench, made, captured, exported))
    RONDO_TRY(time_beside(bench, call, static_cast<uint64_t *>(host.get().object)));
  return {};
}

}  // namespace device_costs
