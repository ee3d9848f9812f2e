// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/api.h"

#include <dlfcn.h>

#include <string>

namespace rondo::verbs {
namespace {

constexpr const char *library = "libibverbs.so.1";

Error unusable(const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED, "RDMA verbs cannot be used: " + why};
}

Result<Api> load() {
  void *const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);  // never closed: its providers may have threads
  if (handle == nullptr) {
    const char *const why = ::dlerror();
    return unusable(std::string(why != nullptr ? why : library) +
                    "; install rdma-core (in Debian: ibverbs-providers), or set RONDO_NETWORK=tcp");
  }
  Api api;
#define RONDO_VERBS_LOOK_UP_AS(member, symbol)                                      \
  api.member = reinterpret_cast<decltype(api.member)>(::dlsym(handle, symbol));     \
  if (api.member == nullptr)                                                        \
    return unusable(std::string(library) + " has no " symbol "; Rondo needs rdma-core 33 or newer");
#define RONDO_VERBS_LOOK_UP(name) RONDO_VERBS_LOOK_UP_AS(name, "ibv_" #name)
  RONDO_VERBS_FUNCTIONS(RONDO_VERBS_LOOK_UP)
  RONDO_VERBS_LOOK_UP_AS(query_gid_table, "_ibv_query_gid_table")
#undef RONDO_VERBS_LOOK_UP
#undef RONDO_VERBS_LOOK_UP_AS
  return api;
}

}  // namespace

Result<const Api *> load_api() {
  static const Result<Api> *const loaded = new Result<Api>(load());  // never destroyed: threads may use it to the end
  if (!loaded->ok()) return loaded->error();
  return &loaded->value();
}

}  // namespace rondo::verbs
