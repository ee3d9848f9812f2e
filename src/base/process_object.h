// SPDX-License-Identifier: Apache-2.0
// This class holds an object of which each process has one.
#pragma once

#include <atomic>

namespace rondo {

/// An object that is made at its first use. It is never destroyed, because threads may use it until the process has
/// ended. A child of fork() can forget its parent's object, and then makes one of its own. Any thread may call get().
template <class Object>
class ProcessObject {
 public:
  [[nodiscard]] Object &get() {
    Object *const made = made_.load(std::memory_order_acquire);  // pairs with the exchange in make()
    return made != nullptr ? *made : make();
  }
  /// Returns the object, or null if nothing has used it.
  [[nodiscard]] Object *find() { return made_.load(std::memory_order_acquire); }  // pairs with the exchange in make()
  /// Forgets the object. The only thread of a new process calls it.
  void forget() { before_ = made_.exchange(nullptr, std::memory_order_relaxed); }

 private:
  /// Makes the object without a lock. If a thread of the parent held a lock at a fork(), the child could never take it.
  Object &make() {
    auto *const own = new Object;
    Object *made = nullptr;
    if (made_.compare_exchange_strong(made, own, std::memory_order_acq_rel)) return *own;  // pairs with get()
    delete own;
    return *made;
  }

  std::atomic<Object *> made_ = nullptr;
  Object *before_ = nullptr;  ///< the forgotten object; the pointer keeps leak detectors quiet
};

}  // namespace rondo
