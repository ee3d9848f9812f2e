// SPDX-License-Identifier: Apache-2.0
// A Task is a callable that is stored in place, for queues that must not allocate on their steady path. The captures
// must fit into Task::capture_bytes and may own objects, such as a shared_ptr. They are destroyed with the task, even
// if it never runs.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "src/base/result.h"

namespace rondo {

class Task {
 public:
  static constexpr size_t capture_bytes = 256;

  Task() = default;

  template <class Function>
    requires(!std::same_as<Function, Task> && std::is_nothrow_move_constructible_v<Function> &&
             std::same_as<std::invoke_result_t<Function &>, Result<void>>)
  Task(Function function) : operations_(&operations_of<Function>) {  // NOLINT: implicit on purpose
    static_assert(sizeof(Function) <= capture_bytes, "capture less, or a pointer to what lives elsewhere");
    static_assert(alignof(Function) <= alignof(std::max_align_t));
    ::new (static_cast<void *>(capture_)) Function(std::move(function));
  }

  Task(Task &&other) noexcept { take(other); }
  Task &operator=(Task &&other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Task(const Task &) = delete;
  Task &operator=(const Task &) = delete;
  ~Task() { reset(); }

  /// Runs the task. An empty task does nothing.
  Result<void> operator()() { return operations_ == nullptr ? Result<void>() : operations_->run(capture_); }

  /// Destroys the captures.
  void reset() noexcept {
    if (const Operations *operations = std::exchange(operations_, nullptr)) operations->destroy(capture_);
  }

 private:
  struct Operations {
    Result<void> (*run)(void *);
    void (*move)(void *to, void *from) noexcept;  // also destroys `from`
    void (*destroy)(void *) noexcept;
  };

  template <class Function>
  static constexpr Operations operations_of = {
      [](void *capture) -> Result<void> { return (*static_cast<Function *>(capture))(); },
      [](void *to, void *from) noexcept {
        auto *function = static_cast<Function *>(from);
        ::new (to) Function(std::move(*function));
        function->~Function();
      },
      [](void *capture) noexcept { static_cast<Function *>(capture)->~Function(); }};

  void take(Task &other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(capture_, other.capture_);
  }

  const Operations *operations_ = nullptr;
  alignas(std::max_align_t) std::byte capture_[capture_bytes];
};

}  // namespace rondo
