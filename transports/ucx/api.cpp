// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/api.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstring>

#include "src/base/runtime_library.h"

namespace rondo::ucx {
namespace {

constexpr const char *library_name = "libucp.so.0";
constexpr unsigned major_version = 1;
constexpr unsigned minor_version_min = 13;
constexpr int signal_count = 65;

/// Removes the signal handlers that UCX always installs when it is loaded, for crashes and SIGHUP. A handler that
/// another thread installed meanwhile stays, because its code is not in UCX.
class SignalGuard {
 public:
  SignalGuard() {
    for (int number = 1; number < signal_count; ++number)
      known_[index(number)] = ::sigaction(number, nullptr, &actions_[index(number)]) == 0;
  }
  SignalGuard(const SignalGuard &) = delete;
  SignalGuard &operator=(const SignalGuard &) = delete;
  ~SignalGuard() {
    for (int number = 1; number < signal_count; ++number) {
      struct sigaction now {};
      if (!known_[index(number)] || ::sigaction(number, nullptr, &now) != 0) continue;
      if (now.sa_handler != actions_[index(number)].sa_handler && lies_in_ucx(now))
        ::sigaction(number, &actions_[index(number)], nullptr);
    }
  }

 private:
  static size_t index(int number) { return static_cast<size_t>(number); }
  static bool lies_in_ucx(const struct sigaction &action) {
    Dl_info found{};
    const auto *const handler = reinterpret_cast<const void *>(action.sa_handler);
    return ::dladdr(handler, &found) != 0 && found.dli_fname != nullptr &&
           std::strstr(found.dli_fname, "libucs") != nullptr;
  }

  std::array<struct sigaction, signal_count> actions_{};
  std::array<bool, signal_count> known_{};
};

Error unusable(const std::string &why) { return {RONDO_ERROR_UNSUPPORTED, "UCX cannot be used: " + why}; }

Result<Api> load() {
  RuntimeLibrary library;
  {
    const SignalGuard guard;
    if (!library.open(library_name))
      return unusable(library.why() + "; install UCX (in Debian: libucx0), or set RONDO_NETWORK=tcp");
  }
  Api api;
#define RONDO_UCX_LOOK_UP(name) library.find(api.name, #name);
  RONDO_UCX_FUNCTIONS(RONDO_UCX_LOOK_UP)
#undef RONDO_UCX_LOOK_UP
  if (!library.missing().empty())
    return unusable(library.path() + " has no " + library.missing() + "; Rondo needs UCX 1.13 or newer");
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  api.ucp_get_version(&major, &minor, &release);
  if (major != major_version || minor < minor_version_min)
    return unusable("it is version " + std::string(api.ucp_get_version_string()) + "; Rondo needs 1.13 or newer");
  return api;
}

}  // namespace

Result<const Api *> load_api() {
  static const Result<Api> *const loaded = new Result<Api>(load());  // never destroyed: threads may use it to the end
  if (!loaded->ok()) return loaded->error();
  return &loaded->value();
}

}  // namespace rondo::ucx
