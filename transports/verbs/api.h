// SPDX-License-Identifier: Apache-2.0
// This file declares the functions of libibverbs (rdma-core 33 or newer). The library is loaded at run time, so Rondo
// does not link it. Functions that post and poll are inline in its header, and call the device's provider.
#pragma once

#include <infiniband/verbs.h>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo::verbs {

#define RONDO_VERBS_FUNCTIONS(ENTRY) \
  ENTRY(get_device_list)             \
  ENTRY(free_device_list)            \
  ENTRY(get_device_name)             \
  ENTRY(open_device)                 \
  ENTRY(close_device)                \
  ENTRY(query_device)                \
  ENTRY(alloc_pd)                    \
  ENTRY(dealloc_pd)                  \
  ENTRY(reg_mr)                      \
  ENTRY(dereg_mr)                    \
  ENTRY(create_comp_channel)         \
  ENTRY(destroy_comp_channel)        \
  ENTRY(create_cq)                   \
  ENTRY(destroy_cq)                  \
  ENTRY(get_cq_event)                \
  ENTRY(ack_cq_events)               \
  ENTRY(create_qp)                   \
  ENTRY(modify_qp)                   \
  ENTRY(destroy_qp)                  \
  ENTRY(get_async_event)             \
  ENTRY(ack_async_event)             \
  ENTRY(wc_status_str)               \
  ENTRY(event_type_str)

struct Api {
#define RONDO_VERBS_MEMBER(name) decltype(&::ibv_##name) name = nullptr;
  RONDO_VERBS_FUNCTIONS(RONDO_VERBS_MEMBER)
#undef RONDO_VERBS_MEMBER
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;
  /// This function works like reg_mr, but ignores optional flags of `access` that the kernel does not know, such as
  /// relaxed ordering. Null if this rdma-core does not have the function.
  ibv_mr *(*reg_mr_iova2)(ibv_pd *domain, void *memory, size_t bytes, uint64_t address, unsigned access) = nullptr;
  /// Only rdma-core 34 or newer has this function; otherwise it is null.
  ibv_mr *(*reg_dmabuf_mr)(ibv_pd *domain, uint64_t offset, size_t bytes, uint64_t address, int descriptor,
                           int access) = nullptr;
};

/// Loads libibverbs at the first call, and keeps it until the process ends. RONDO_ERROR_UNSUPPORTED says why it cannot
/// be used.
[[nodiscard]] Result<const Api *> load_api();

/// Destroys an object. Objects exist only if load_api() has succeeded.
template <class Object, int (*Api::*destroy)(Object *)>
struct ObjectTraits {
  using Handle = Object *;
  static constexpr Handle invalid = nullptr;
  static void close(Handle handle) {
    if (const auto api = load_api(); api.ok()) (api.value()->*destroy)(handle);
  }
};

using Context = UniqueHandle<ObjectTraits<ibv_context, &Api::close_device>>;
using ProtectionDomain = UniqueHandle<ObjectTraits<ibv_pd, &Api::dealloc_pd>>;
using MemoryRegion = UniqueHandle<ObjectTraits<ibv_mr, &Api::dereg_mr>>;
using CompletionChannel = UniqueHandle<ObjectTraits<ibv_comp_channel, &Api::destroy_comp_channel>>;
using CompletionQueue = UniqueHandle<ObjectTraits<ibv_cq, &Api::destroy_cq>>;
using QueuePair = UniqueHandle<ObjectTraits<ibv_qp, &Api::destroy_qp>>;

}  // namespace rondo::verbs
