// SPDX-License-Identifier: Apache-2.0
// This file declares the functions of UCX (libucp, version 1.13 or newer). The library is loaded at run time, so Rondo
// does not link it.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "src/base/result.h"

namespace rondo::ucx {

#define RONDO_UCX_FUNCTIONS(ENTRY)                                                                         \
  ENTRY(ucp_get_version)                                                                                   \
  ENTRY(ucp_get_version_string)                                                                            \
  ENTRY(ucp_config_read)                                                                                   \
  ENTRY(ucp_config_modify)                                                                                 \
  ENTRY(ucp_config_release)                                                                                \
  ENTRY(ucp_init_version)                                                                                  \
  ENTRY(ucp_cleanup)                                                                                       \
  ENTRY(ucp_context_query)                                                                                 \
  ENTRY(ucp_context_print_info)                                                                            \
  ENTRY(ucp_worker_create)                                                                                 \
  ENTRY(ucp_worker_destroy)                                                                                \
  ENTRY(ucp_worker_query)                                                                                  \
  ENTRY(ucp_worker_release_address)                                                                        \
  ENTRY(ucp_worker_get_efd)                                                                                \
  ENTRY(ucp_worker_arm)                                                                                    \
  ENTRY(ucp_worker_progress)                                                                               \
  ENTRY(ucp_worker_set_am_recv_handler)                                                                    \
  ENTRY(ucp_ep_create)                                                                                     \
  ENTRY(ucp_ep_close_nbx)                                                                                  \
  ENTRY(ucp_ep_flush_nbx)                                                                                  \
  ENTRY(ucp_am_send_nbx)                                                                                   \
  ENTRY(ucp_am_recv_data_nbx)                                                                              \
  ENTRY(ucp_request_check_status)                                                                          \
  ENTRY(ucp_request_free)                                                                                  \
  ENTRY(ucs_status_string)

struct Api {
#define RONDO_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  RONDO_UCX_FUNCTIONS(RONDO_UCX_MEMBER)
#undef RONDO_UCX_MEMBER
};

/// Loads UCX at the first call, and keeps it until the process ends. UCX installs signal handlers when it is loaded.
/// load_api() removes them again, because signals belong to the application. RONDO_ERROR_UNSUPPORTED says why UCX
/// cannot be used.
[[nodiscard]] Result<const Api *> load_api();

}  // namespace rondo::ucx
