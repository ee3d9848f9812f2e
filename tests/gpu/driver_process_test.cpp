// SPDX-License-Identifier: Apache-2.0
// Two real processes share memory and events, by IPC handles and by VMM handles, which are descriptors.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/gpu/conformance.h"
#include "tests/gpu/driver_peer.h"

using namespace rondo;
using namespace rondo::cuda;
using namespace rondo::cuda::conformance;

extern char **environ;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read = FileDescriptor(ends[0]);
    write = FileDescriptor(ends[1]);
  }
  FileDescriptor read;
  FileDescriptor write;
};

/// A process that runs driver_peer in a role. If the test has not ended it, the destructor does.
class PeerProcess {
 public:
  explicit PeerProcess(const char *role, int descriptor = -1) {
    const char *const path = std::getenv("RONDO_DRIVER_PEER");
    REQUIRE(path != nullptr);
    posix_spawn_file_actions_t actions;
    REQUIRE(::posix_spawn_file_actions_init(&actions) == 0);
    ::posix_spawn_file_actions_adddup2(&actions, to_.read.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, from_.write.get(), STDOUT_FILENO);
    if (descriptor >= 0) ::posix_spawn_file_actions_adddup2(&actions, descriptor, peer_descriptor);
    char *const arguments[] = {const_cast<char *>(path), const_cast<char *>(role), nullptr};
    const int spawned = ::posix_spawn(&process_, path, &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    REQUIRE(spawned == 0);
    to_.read.reset();
    from_.write.reset();
  }
  PeerProcess(const PeerProcess &) = delete;
  PeerProcess &operator=(const PeerProcess &) = delete;
  ~PeerProcess() {
    if (process_ > 0) kill();
  }

  template <class Value>
  void tell(const Value &value) {
    REQUIRE(::write(to_.write.get(), &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  }
  template <class Value>
  Value take() {
    Value value{};
    pollfd answer{from_.read.get(), POLLIN, 0};
    REQUIRE(::poll(&answer, 1, std::chrono::milliseconds(patience).count()) == 1);
    REQUIRE(::read(from_.read.get(), &value, sizeof value) == static_cast<ssize_t>(sizeof value));
    return value;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    CHECK(end() == SIGKILL);
  }
  /// Waits until the process has ended. Returns the status of waitpid(): 0, or the signal that ended it.
  int end() {
    int status = 0;
    CHECK(becomes_true([&] { return ::waitpid(process_, &status, WNOHANG) > 0; }));  // also in a destructor
    process_ = 0;
    return status;
  }

 private:
  Pipe to_;
  Pipe from_;
  pid_t process_ = 0;
};

bool holds(const World &world, DevicePointer pointer, unsigned char byte) {
  std::vector<unsigned char> seen(peer_bytes);
  CU_OK(world.cu.memcpy_dtoh_async(seen.data(), pointer, peer_bytes, world.stream()));
  CU_OK(world.cu.stream_synchronize(world.stream()));
  return std::all_of(seen.begin(), seen.end(), [&](unsigned char seen_byte) { return seen_byte == byte; });
}

/// Memory of cuMemCreate, mapped in this process.
struct Shared {
  MemoryHandle handle = 0;
  DevicePointer address = 0;
  size_t bytes = 0;
};

Shared map_shared(const World &world, size_t bytes_min) {
  const CudaDriver &cu = world.cu;
  MemoryProperties properties;
  properties.requested_handle_types = HandleType::posix_descriptor;
  size_t granularity = 0;
  CU_OK(cu.vmm_get_granularity(&granularity, &properties, Granularity::minimum));
  Shared shared;
  shared.bytes = (bytes_min + granularity - 1) / granularity * granularity;
  CU_OK(cu.vmm_create(&shared.handle, shared.bytes, &properties, 0));
  CU_OK(cu.vmm_address_reserve(&shared.address, shared.bytes, 0, 0, 0));
  CU_OK(cu.vmm_map(shared.address, shared.bytes, 0, shared.handle, 0));
  const MemoryAccess access{{LocationType::device, 0}, AccessFlags::read_write};
  CU_OK(cu.vmm_set_access(shared.address, shared.bytes, &access, 1));
  return shared;
}

}  // namespace

TEST_CASE("ipc memory: another process reads and writes it, and its handle is not for its owner") {
  World world;
  const CudaDriver &cu = world.cu;
  const DeviceMemory memory = world.memory(peer_bytes);
  CU_OK(cu.memset_d8_async(memory.get().object, parent_byte, peer_bytes, world.stream()));
  CU_OK(cu.stream_synchronize(world.stream()));
  IpcMemoryHandle handle{};
  CU_OK(cu.ipc_get_mem_handle(&handle, memory.get().object));
  PeerProcess peer("import-ipc");
  peer.tell(handle);
  CHECK(peer.take<char>() == 'k');
  CHECK(peer.end() == 0);
  CHECK(holds(world, memory.get().object, peer_byte));
  DevicePointer pointer = 0;
  CU_FAILS(cu.ipc_open_mem_handle(&pointer, handle, ipc_lazy_enable_peer_access), CuStatus::invalid_context);
  char ordinary = 0;
  CU_FAILS(cu.ipc_get_mem_handle(&handle, reinterpret_cast<DevicePointer>(&ordinary)), CuStatus::invalid_value);
}

TEST_CASE("ipc memory: of an owner that was killed cannot be opened any more, and nothing of it stays") {
  World world;
  const CudaDriver &cu = world.cu;
  PeerProcess peer("export-ipc");
  const auto handle = peer.take<IpcMemoryHandle>();
  DevicePointer pointer = 0;
  CU_OK(cu.ipc_open_mem_handle(&pointer, handle, ipc_lazy_enable_peer_access));
  CHECK(holds(world, pointer, peer_byte));
  peer.kill();
  CU_OK(cu.ipc_close_mem_handle(pointer));
  CHECK(static_cast<int>(cu.ipc_open_mem_handle(&pointer, handle, ipc_lazy_enable_peer_access)) != 0);
}

TEST_CASE("ipc events: a stream of another process waits for what was recorded") {
  World world;
  const CudaDriver &cu = world.cu;
  Gate gate(world);
  const Event event = world.event(event_disable_timing | event_interprocess);
  gate.close(world.stream());
  CU_OK(cu.event_record(event.get().object, world.stream()));
  IpcEventHandle handle{};
  CU_OK(cu.ipc_get_event_handle(&handle, event.get().object));
  PeerProcess peer("import-event");
  peer.tell(handle);
  CHECK(peer.take<char>() == 'w');
  CU_FAILS(cu.event_query(event.get().object), CuStatus::not_ready);
  gate.open();
  CHECK(peer.take<char>() == 'k');
  CU_OK(cu.event_synchronize(event.get().object));
  CHECK(peer.end() == 0);
  const Event local = world.event();
  CU_FAILS(cu.ipc_get_event_handle(&handle, local.get().object), CuStatus::invalid_handle);
}

TEST_CASE("vmm memory: its descriptor is enough for another process, and outlives the handle") {
  World world;
  const CudaDriver &cu = world.cu;
  const Shared shared = map_shared(world, peer_bytes);
  int raw = -1;
  CU_OK(cu.vmm_export(&raw, shared.handle, HandleType::posix_descriptor, 0));
  const FileDescriptor descriptor(raw);
  CU_OK(cu.vmm_release(shared.handle));  // the mapping keeps the memory
  CU_OK(cu.memset_d8_async(shared.address, parent_byte, peer_bytes, world.stream()));
  CU_OK(cu.stream_synchronize(world.stream()));
  PeerProcess peer("import-vmm", descriptor.get());
  peer.tell(uint64_t{shared.bytes});
  CHECK(peer.take<char>() == 'k');
  CHECK(peer.end() == 0);
  CHECK(holds(world, shared.address, peer_byte));
  CHECK(pointer_info(cu, reinterpret_cast<void *>(shared.address)).value().type == MemoryType::device);
  CHECK_FALSE(pointer_info(cu, reinterpret_cast<void *>(shared.address)).value().legacy_ipc_capable);
  CU_OK(cu.vmm_unmap(shared.address, shared.bytes));
  CU_OK(cu.vmm_address_free(shared.address, shared.bytes));
}

TEST_CASE("vmm memory: what is not granular, not reserved, mapped twice or no handle is refused") {
  World world;
  const CudaDriver &cu = world.cu;
  const Shared shared = map_shared(world, 1);
  MemoryProperties properties;
  MemoryHandle handle = 0;
  CU_FAILS(cu.vmm_create(&handle, 4097, &properties, 0), CuStatus::invalid_value);
  CU_FAILS(cu.vmm_map(shared.address, shared.bytes, 0, shared.handle, 0), CuStatus::invalid_value);
  CU_FAILS(cu.vmm_address_free(shared.address, shared.bytes), CuStatus::invalid_value);
  CU_OK(cu.vmm_unmap(shared.address, shared.bytes));
  CU_OK(cu.vmm_unmap(shared.address, shared.bytes));  // nothing is mapped there now
  CU_OK(cu.vmm_address_free(shared.address, shared.bytes));
  CU_OK(cu.vmm_release(shared.handle));
  CU_FAILS(cu.vmm_release(shared.handle), CuStatus::invalid_value);
  CU_FAILS(cu.vmm_import(&handle, reinterpret_cast<void *>(intptr_t{STDERR_FILENO}), HandleType::posix_descriptor),
           CuStatus::unknown);
}
