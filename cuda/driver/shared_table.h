// SPDX-License-Identifier: Apache-2.0
// This file shares objects between the threads of a process. While one thread holds an object, other threads find the
// object by its key. Such a table is never destroyed, because a communicator may live until the process ends. Only code
// in cuda/ includes this header.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "src/base/result.h"

namespace rondo::cuda {

/// A table that any thread may use.
template <class Key, class Object>
class SharedTable {
 public:
  void add(const Key &key, const std::shared_ptr<Object> &object) {
    const std::lock_guard lock(mutex_);
    forget_the_gone();
    objects_[key] = object;
  }
  /// Returns the object, or null if no thread holds it.
  [[nodiscard]] std::shared_ptr<Object> find(const Key &key) {
    const std::lock_guard lock(mutex_);
    forget_the_gone();
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second.lock();
  }
  /// Returns the object, and makes it if no thread holds it. make() returns a Result<std::shared_ptr<Object>>. Other
  /// threads wait until make() has returned.
  template <class Make>
  [[nodiscard]] Result<std::shared_ptr<Object>> find_or_make(const Key &key, const Make &make) {
    const std::lock_guard lock(mutex_);
    forget_the_gone();
    auto &known = objects_[key];
    if (auto object = known.lock(); object != nullptr) return object;
    Result<std::shared_ptr<Object>> made = make();
    if (made.ok()) known = made.value();
    return made;
  }

 private:
  void forget_the_gone() {
    std::erase_if(objects_, [](const auto &entry) { return entry.second.expired(); });
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Object>> objects_;
};

}  // namespace rondo::cuda
