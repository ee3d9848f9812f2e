// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device.h"

#include <errno.h>

namespace rondo::verbs {
namespace {

/// Calls `registers` with relaxed ordering, and then without it if that fails.
template <class Register>
MemoryRegion register_relaxed(int access, const Register &registers) {
  MemoryRegion region(registers(access | IBV_ACCESS_RELAXED_ORDERING));
  if (!region.valid()) region.reset(registers(access));
  return region;
}

MemoryRegion register_address(const Api &api, ibv_pd *domain, void *memory, size_t bytes, int access) {
  if (api.reg_mr_iova2 == nullptr) return MemoryRegion(api.reg_mr(domain, memory, bytes, access));
  return register_relaxed(access, [&](int flags) {
    return api.reg_mr_iova2(domain, memory, bytes, address_of(memory), static_cast<unsigned>(flags));
  });
}

}  // namespace

Result<MemoryRegion> register_host(const Api &api, ibv_pd *domain, void *memory, size_t bytes, int access) {
  MemoryRegion region = register_address(api, domain, memory, bytes, access);
  if (region.valid()) return region;
  return system_error("registering " + std::to_string(bytes) +
                          " bytes for RDMA (is the limit of locked memory, ulimit -l, too low?)",
                      errno);
}

Result<MemoryRegion> register_in_device(const Api &api, const std::string &card, ibv_pd *domain,
                                        const RdmaMemory &memory, std::byte *first, size_t bytes, int access) {
  MemoryRegion region;
  if (memory.dmabuf() >= 0 && api.reg_dmabuf_mr != nullptr) {
    const auto offset = static_cast<uint64_t>(first - memory.bytes().data());
    region = register_relaxed(access, [&](int flags) {
      return api.reg_dmabuf_mr(domain, offset, bytes, address_of(first), memory.dmabuf(), flags);
    });
  }
  if (!region.valid()) region = register_address(api, domain, first, bytes, access);
  if (region.valid()) return region;
  return system_error(card + " cannot reach the memory of the CUDA device (" +
                          (memory.dmabuf() >= 0 ? "it takes no dmabuf" : "there is no dmabuf of it") +
                          "; is the kernel's module nvidia-peermem loaded?)",
                      errno);
}

}  // namespace rondo::verbs
