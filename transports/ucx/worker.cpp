// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/worker.h"

namespace rondo::ucx {
namespace {

constexpr const char *keepalive_interval = "1s";  // UCX's default is 20 s; the control plane is still faster

}  // namespace

Result<std::unique_ptr<Worker>> Worker::open() {
  RONDO_TRY_ASSIGN(const Api *const api, load_api());
  std::unique_ptr<Worker> worker(new Worker(*api));
  RONDO_TRY(worker->open_context());
  RONDO_TRY(worker->open_worker());
  return worker;
}

Result<void> Worker::open_context() {
  ucp_config_t *config = nullptr;
  ucs_status_t status = api_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return error("reading UCX's configuration", status);
  status = api_.ucp_config_modify(config, "KEEPALIVE_INTERVAL", keepalive_interval);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "rondo";
  if (status == UCS_OK) status = api_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  api_.ucp_config_release(config);
  if (status != UCS_OK) return error("opening UCX (check UCX_TLS and UCX_NET_DEVICES)", status);
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE | UCP_ATTR_FIELD_MEMORY_TYPES;
  status = api_.ucp_context_query(context_, &attributes);
  if (status != UCS_OK) return error("ucp_context_query", status);
  request_bytes_ = attributes.request_size;
  takes_cuda_memory_ = (attributes.memory_types >> UCS_MEMORY_TYPE_CUDA & 1) != 0;
  return {};
}

Result<void> Worker::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = api_.ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return error("opening a UCX worker (check UCX_TLS and UCX_NET_DEVICES)", status);
  status = api_.ucp_worker_get_efd(worker_, &event_descriptor_);
  if (status != UCS_OK) return error("ucp_worker_get_efd", status);
  return {};
}

Worker::~Worker() {
  if (worker_ != nullptr) api_.ucp_worker_destroy(worker_);
  if (context_ != nullptr) api_.ucp_cleanup(context_);
}

/// Returns an error if UCX does not support CUDA. Such a UCX would copy on the host, which ends the process if the host
/// cannot reach the memory.
Result<void> Worker::check_device_memory(const RdmaMemory *memory) const {
  if (memory == nullptr || memory->is_in_reach_of_host() || takes_cuda_memory_) return {};
  return Error{RONDO_ERROR_UNSUPPORTED, "this UCX (" + std::string(api_.ucp_get_version_string()) +
                                            ") takes no memory of CUDA devices; use one that was built with CUDA, and "
                                            "let UCX_TLS have cuda"};
}

Result<Bytes> Worker::address() const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  const ucs_status_t status = api_.ucp_worker_query(worker_, &attributes);
  if (status != UCS_OK) return error("ucp_worker_query", status);
  const auto *const first = reinterpret_cast<const std::byte *>(attributes.address);
  Bytes bytes(first, first + attributes.address_length);
  api_.ucp_worker_release_address(worker_, attributes.address);
  return bytes;
}

Result<ucp_ep_h> Worker::connect(ByteView address, ucp_err_handler_cb_t on_failure, void *argument) const {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t *>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, argument};
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = api_.ucp_ep_create(worker_, &params, &endpoint);
  if (status != UCS_OK) return error("ucp_ep_create", status);
  return endpoint;
}

Result<void> Worker::handle_messages(unsigned id, ucp_am_recv_callback_t handler, void *argument) const {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = handler;
  params.arg = argument;
  const ucs_status_t status = api_.ucp_worker_set_am_recv_handler(worker_, &params);
  if (status != UCS_OK) return error("ucp_worker_set_am_recv_handler", status);
  return {};
}

Error Worker::error(const char *what, ucs_status_t status) const {
  return {status == UCS_ERR_NO_MEMORY ? RONDO_ERROR_OUT_OF_RESOURCES : RONDO_ERROR_SYSTEM,
          std::string(what) + ": " + api_.ucs_status_string(status)};
}

}  // namespace rondo::ucx
