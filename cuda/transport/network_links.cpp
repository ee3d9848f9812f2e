// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/network_links.h"

namespace rondo::cuda {

Result<NetworkLinks> NetworkLinks::connect(const PrimaryContext &context, const Links &links,
                                           const std::vector<uint32_t> &nodes, uint32_t rank) {
  NetworkLinks made;
  made.memory_ = links.network_memory();
  if (made.memory_.bytes.empty()) return made;
  made.links_ = &links;
  made.nodes_ = nodes;
  made.rank_ = rank;
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  void *const address = made.memory_.bytes.data();
  const std::string what = "cuMemHostRegister of " + std::to_string(made.memory_.bytes.size()) +
                           " bytes for links to other hosts (RONDO_SLOT_BYTES and RONDO_CHANNELS make them fewer)";
  RONDO_TRY(cuda_check(driver,
                       driver.mem_host_register(address, made.memory_.bytes.size(),
                                                host_register_portable | host_register_device_map),
                       what.c_str()));
  made.registration_ = HostRegistration({&driver, context.get().context, address});
  RONDO_TRY(cuda_check(driver, driver.mem_host_get_device_pointer(&made.address_, address, 0),
                       "cuMemHostGetDevicePointer of the links to other hosts"));
  return made;
}

}  // namespace rondo::cuda
