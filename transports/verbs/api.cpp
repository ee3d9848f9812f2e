// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/api.h"

#include <string>

#include "src/base/runtime_library.h"

namespace rondo::verbs {
namespace {

constexpr const char *library_name = "libibverbs.so.1";

Error unusable(const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED, "RDMA verbs cannot be used: " + why};
}

Result<Api> load() {
  RuntimeLibrary library;
  if (!library.open(library_name))
    return unusable(library.why() + "; install rdma-core (in Debian: ibverbs-providers), or set RONDO_NETWORK=tcp");
  Api api;
#define RONDO_VERBS_LOOK_UP(name) library.find(api.name, "ibv_" #name);
  RONDO_VERBS_FUNCTIONS(RONDO_VERBS_LOOK_UP)
#undef RONDO_VERBS_LOOK_UP
  library.find(api.query_gid_table, "_ibv_query_gid_table");
  library.find(api.reg_mr_iova2, "ibv_reg_mr_iova2", false);
  library.find(api.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", false);
  if (!library.missing().empty())
    return unusable(library.path() + " has no " + library.missing() + "; Rondo needs rdma-core 33 or newer");
  return api;
}

}  // namespace

Result<const Api *> load_api() {
  static const Result<Api> *const loaded = new Result<Api>(load());  // never destroyed: threads may use it to the end
  if (!loaded->ok()) return loaded->error();
  return &loaded->value();
}

}  // namespace rondo::verbs
