// SPDX-License-Identifier: Apache-2.0
// A system library that is opened at run time, and its functions by name. It is never closed: it may have threads, and
// work that ends with the process.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <type_traits>

namespace rondo {

class RuntimeLibrary {
 public:
  /// Opens the named file. False: it cannot be opened, see why().
  bool open(const std::string &path) { return try_open(path); }
  /// Opens the named file, or if `path` is empty the first of `usual` that can be opened.
  bool open(const std::string &path, std::span<const char *const> usual) {
    if (!path.empty()) return try_open(path);
    for (const char *const name : usual)
      if (try_open(name)) return true;
    return false;
  }

  /// Opens the library only if something has loaded it already.
  bool open_loaded(const std::string &path) {
    path_ = path;
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return handle_ != nullptr;
  }

  /// Finds a function, or sets null if the library lacks it. If it is needed, missing() names it then.
  template <class Function>
  void find(Function *&function, const char *name, bool needed = true) {
    void *const found = ::dlsym(handle_, name);
    if (found == nullptr && needed) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    function = reinterpret_cast<Function *>(found);
  }

  /// Returns the file that was opened, or tried last.
  [[nodiscard]] const std::string &path() const { return path_; }
  /// Returns the error of each file that could not be opened.
  [[nodiscard]] const std::string &why() const { return why_; }
  /// Returns the functions that were not found; empty if none.
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

}  // namespace rondo
