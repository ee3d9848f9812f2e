// SPDX-License-Identifier: Apache-2.0
// The other process of driver_process_test.cpp: driver_peer ROLE. It reads handles from standard input and answers on
// standard output. It exits with 0 if all checks passed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/driver/handles.h"
#include "src/base/config.h"
#include "tests/gpu/driver_peer.h"

using namespace rondo;
using namespace rondo::cuda;

namespace {

void check(bool good, const char *what) {
  if (good) return;
  std::fprintf(stderr, "driver_peer: %s\n", what);
  std::_Exit(1);
}

void check(CuStatus status, const char *what) {
  if (status != CuStatus::success) std::fprintf(stderr, "status %d: ", static_cast<int>(status));
  check(status == CuStatus::success, what);
}

template <class Value>
Value take() {
  Value value{};
  check(::read(STDIN_FILENO, &value, sizeof value) == static_cast<ssize_t>(sizeof value), "no value on standard input");
  return value;
}

template <class Value>
void tell(const Value &value) {
  check(::write(STDOUT_FILENO, &value, sizeof value) == static_cast<ssize_t>(sizeof value), "standard output is gone");
}

struct Peer {
  const CudaDriver &cu;
  PrimaryContext context = retain_primary_context(cu, 0).value();
  ContextGuard guard{cu, context.get().context};
  Stream stream = make_stream(context).value();

  /// Checks the values that the parent wrote, and writes the values that the parent expects.
  void exchange(DevicePointer pointer) const {
    std::vector<unsigned char> seen(peer_bytes);
    const CuStream on = stream.get().object;
    check(cu.memcpy_dtoh_async(seen.data(), pointer, peer_bytes, on), "copy from the parent's memory");
    check(cu.stream_synchronize(on), "synchronise");
    check(std::all_of(seen.begin(), seen.end(), [](unsigned char byte) { return byte == parent_byte; }),
          "bytes differ");
    check(cu.memset_d8_async(pointer, peer_byte, peer_bytes, on), "write to the parent's memory");
    check(cu.stream_synchronize(on), "synchronise");
  }

  void import_ipc() const {
    const auto handle = take<IpcMemoryHandle>();
    DevicePointer pointer = 0;
    DevicePointer again = 0;
    check(cu.ipc_open_mem_handle(&pointer, handle, 0) == CuStatus::invalid_value, "opened without the flag");
    check(cu.ipc_open_mem_handle(&pointer, handle, ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle");
    check(cu.ipc_open_mem_handle(&again, handle, ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle again");
    check(again == pointer, "opened twice at two addresses");
    check(pointer_info(cu, reinterpret_cast<void *>(pointer)).value().type == MemoryType::device, "no device memory");
    check(cu.ipc_close_mem_handle(pointer), "cuIpcCloseMemHandle");
    exchange(pointer);
    check(cu.ipc_close_mem_handle(pointer), "cuIpcCloseMemHandle");
    check(cu.ipc_close_mem_handle(pointer) == CuStatus::invalid_value, "closed too often");
    tell('k');
  }

  /// Exports memory, and waits until the parent kills this process.
  void export_ipc() const {
    const DeviceMemory memory = allocate_device_memory(context, peer_bytes).value();
    check(cu.memset_d8_async(memory.get().object, peer_byte, peer_bytes, stream.get().object), "memset");
    check(cu.stream_synchronize(stream.get().object), "synchronise");
    IpcMemoryHandle handle{};
    check(cu.ipc_get_mem_handle(&handle, memory.get().object), "cuIpcGetMemHandle");
    tell(handle);
    (void)take<char>();
  }

  /// Imports memory by the descriptor, which is inherited.
  void import_vmm() const {
    MemoryHandle handle = 0;
    check(cu.vmm_import(&handle, reinterpret_cast<void *>(intptr_t{peer_descriptor}), HandleType::posix_descriptor),
          "cuMemImportFromShareableHandle");
    const auto bytes = take<uint64_t>();
    DevicePointer address = 0;
    check(cu.vmm_address_reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    check(cu.vmm_map(address, bytes, 0, handle, 0), "cuMemMap");
    check(cu.vmm_release(handle), "cuMemRelease");
    const MemoryAccess access{{LocationType::device, 0}, AccessFlags::read_write};
    check(cu.vmm_set_access(address, bytes, &access, 1), "cuMemSetAccess");
    exchange(address);
    check(cu.vmm_unmap(address, bytes), "cuMemUnmap");
    check(cu.vmm_address_free(address, bytes), "cuMemAddressFree");
    tell('k');
  }

  void import_event() const {
    CuEvent event = nullptr;
    check(cu.ipc_open_event_handle(&event, take<IpcEventHandle>()), "cuIpcOpenEventHandle");
    check(cu.stream_wait_event(stream.get().object, event, 0), "cuStreamWaitEvent");
    tell('w');
    check(cu.stream_synchronize(stream.get().object), "synchronise");
    check(cu.event_query(event), "cuEventQuery");
    tell('k');
    check(cu.event_destroy(event), "cuEventDestroy");
  }
};

}  // namespace

int main(int argc, char **argv) {
  ::alarm(300);  // limits waits in the driver after the parent's end
  check(argc == 2, "driver_peer ROLE");
  const auto driver = cuda_driver(read_config().value().cuda_library);
  if (!driver.ok()) std::fprintf(stderr, "%s\n", driver.error().message.c_str());
  check(driver.ok(), "no driver");
  const Peer peer{*driver.value()};
  const std::string role = argv[1];
  if (role == "import-ipc")
    peer.import_ipc();
  else if (role == "export-ipc")
    peer.export_ipc();
  else if (role == "import-vmm")
    peer.import_vmm();
  else if (role == "import-event")
    peer.import_event();
  else
    check(false, "unknown role");
  return 0;
}
