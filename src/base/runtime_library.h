// SPDX-License-Identifier: Apache-2.0
// This class opens a system library at run time, and finds its functions by name. It never closes the library. The
// library may have threads, and may have work to do when the process ends.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>
#include <type_traits>

namespace rondo {

class RuntimeLibrary {
 public:
  /// Opens the named file. Returns false if it cannot be opened; why() has the reason.
  bool open(const std::string &path) { return try_open(path); }
  /// Opens the named file. If `path` is empty, opens the first file of `usual` that can be opened.
  bool open(const std::string &path, std::span<const char *const> usual) {
    if (!path.empty()) return try_open(path);
    for (const char *const name : usual)
      if (try_open(name)) return true;
    return false;
  }

  /// Opens the library only if the process has loaded it already.
  bool open_loaded(const std::string &path) {
    path_ = path;
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return handle_ != nullptr;
  }

  /// Finds a function. If it is missing, sets `function` to null. missing() names needed functions that are missing.
  template <class Function>
  void find(Function *&function, const char *name, bool needed = true) {
    void *const found = ::dlsym(handle_, name);
    if (found == nullptr && needed) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
    function = reinterpret_cast<Function *>(found);
  }

  /// Returns the file that was opened, or the last one that was tried.
  [[nodiscard]] const std::string &path() const { return path_; }
  /// Returns the error of each file that could not be opened.
  [[nodiscard]] const std::string &why() const { return why_; }
  /// Returns the needed functions that were not found, or "".
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
