// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/network_links.h"

namespace rondo::cuda {

Result<NetworkLinks::Registered> NetworkLinks::register_links(const PrimaryContext &context,
                                                              std::span<std::byte> bytes) {
  Registered made;
  if (bytes.empty()) return made;
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  const std::string what = "cuMemHostRegister of " + std::to_string(bytes.size()) +
                           " bytes for links to other hosts (RONDO_SLOT_BYTES and RONDO_CHANNELS make them fewer)";
  RONDO_TRY(cuda_check(driver,
                       driver.mem_host_register(bytes.data(), bytes.size(),
                                                host_register_portable | host_register_device_map),
                       what.c_str()));
  made.bytes = bytes;
  made.registration = HostRegistration({&driver, context.get().context, bytes.data()});
  RONDO_TRY(cuda_check(driver, driver.mem_host_get_device_pointer(&made.address, bytes.data(), 0),
                       "cuMemHostGetDevicePointer of the links to other hosts"));
  return made;
}

Result<NetworkLinks> NetworkLinks::connect(const PrimaryContext &context, const Links &links,
                                           const std::vector<uint32_t> &nodes, uint32_t rank) {
  NetworkLinks made;
  made.memory_ = links.network_memory();
  if (made.memory_.bytes.empty()) return made;
  made.links_ = &links;
  made.nodes_ = nodes;
  made.rank_ = rank;
  RONDO_TRY_ASSIGN(made.collectives_, register_links(context, made.memory_.bytes));
  RONDO_TRY_ASSIGN(made.messages_, register_links(context, made.memory_.message_bytes));
  return made;
}

}  // namespace rondo::cuda
