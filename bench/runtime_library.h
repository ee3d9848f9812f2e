// SPDX-License-Identifier: Apache-2.0
// A library of the system that is looked for at run time, and its functions by name. It is never closed: it may have
// threads, and work that ends with the process.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <type_traits>

namespace rondo::bench {

class RuntimeLibrary {
 public:
  /// The named file; where `path` is empty, the first of `usual` that can be opened. False: none can, see why().
  bool open(const std::string &path, std::span<const char *const> usual) {
    if (!path.empty()) return try_open(path);
    for (const char *const name : usual)
      if (try_open(name)) return true;
    return false;
  }

  /// Null where the library lacks it: missing() names it then.
  template <class Function>
  void find(Function *&function, const char *name) {
    void *const found = ::dlsym(handle_, name);
    if (found == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    function = reinterpret_cast<Function *>(found);
  }

  /// The file that was opened, or tried last.
  [[nodiscard]] const std::string &path() const { return path_; }
  /// What was wrong with each file that could not be opened.
  [[nodiscard]] const std::string &why() const { return why_; }
  /// The functions that were not found; empty: none.
  [[nodiscard]] const std::string &missing() const { return missing_; }

 private:
  bool try_open(const std::string &name) {
    path_ = name;
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return true;
    const char *const text = ::dlerror();
    why_ += (why_.empty() ? "" : "; ") + std::string(text != nullptr ? text : "dlopen failed");
    return false;
  }

  void *handle_ = nullptr;
  std::string path_, why_, missing_;
};

}  // namespace rondo::bench
