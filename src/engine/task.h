// SPDX-License-Identifier: Apache-2.0
// Task: a callable that is kept in place, for queues whose steady path must not allocate. What it captures must fit
// into Task::capture_bytes and may own things (a shared_ptr); it is destroyed with the task, run or not.
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

  /// Runs it; a task that is empty does nothing.
  Result<void> operator()() { return operations_ == nullptr ? Result<void>() : operations_->run(capture_); }

  /// Destroys what was captured.
  void reset() noexcept {
    if (const Operations *operations = std::exchange(operations_, nullptr)) operations->destroy(capture_);
  }

 private:
  struct Operations {
    Result<void> (*run)(void *);
    void (*move)(void *to, void *from) noexcept;  // and destroys `from`
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
