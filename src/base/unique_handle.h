// SPDX-License-Identifier: Apache-2.0
// This class owns a C handle. Its traits have `using Handle`, `static constexpr Handle invalid` and
// `static void close(Handle)`. If a handle needs work when it is taken or forgotten, they also have
// `static Handle take(Handle)` and `static void forget(Handle)`.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include <sys/mman.h>

namespace rondo {

template <class Traits>
class UniqueHandle {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(taken(handle)) {}
  UniqueHandle(UniqueHandle &&other) noexcept : handle_(std::exchange(other.handle_, Traits::invalid)) {}
  UniqueHandle &operator=(UniqueHandle &&other) noexcept {
    if (this != &other) replace(std::exchange(other.handle_, Traits::invalid));
    return *this;
  }
  UniqueHandle(const UniqueHandle &) = delete;
  UniqueHandle &operator=(const UniqueHandle &) = delete;
  ~UniqueHandle() { reset(); }

  [[nodiscard]] const Handle &get() const { return handle_; }
  [[nodiscard]] bool valid() const { return !(handle_ == Traits::invalid); }
  [[nodiscard]] Handle release() {
    if constexpr (requires(Handle handle) { Traits::forget(handle); })
      if (valid()) Traits::forget(handle_);
    return std::exchange(handle_, Traits::invalid);
  }
  void reset(Handle handle = Traits::invalid) { replace(taken(handle)); }

 private:
  static Handle taken(Handle handle) {
    if constexpr (requires { Traits::take(handle); }) return Traits::take(handle);
    else return handle;
  }
  void replace(Handle handle) {
    const Handle old = std::exchange(handle_, handle);
    if (!(old == Traits::invalid)) Traits::close(old);
  }

  Handle handle_ = Traits::invalid;
};

/// Takes ownership of a descriptor that the system has just returned, and registers it for
/// close_inherited_descriptors(). Returns the descriptor, or -1 with errno. If `descriptor` is -1, it stays -1. A
/// descriptor of 0 to 2 is moved above 2, so that the output of a program without standard streams cannot go into
/// Rondo's files or sockets.
[[nodiscard]] int take_descriptor(int descriptor);
/// Removes a descriptor from the register and leaves it open, because another object owns it from now on.
void forget_descriptor(int descriptor);
/// Removes a descriptor from the register and closes it. If the descriptor is not registered any more, does nothing:
/// the child of a fork() may have opened another file with the same number.
void close_descriptor(int descriptor);
/// Closes every registered descriptor. The child handler of fork() calls it, because a socket that stays open in a
/// child hides the death of its rank from the other ranks. The only system call that it makes is close().
void close_inherited_descriptors();

struct FileDescriptorTraits {
  using Handle = int;
  static constexpr Handle invalid = -1;
  static Handle take(Handle handle) { return take_descriptor(handle); }
  static void forget(Handle handle) { forget_descriptor(handle); }
  static void close(Handle handle) { close_descriptor(handle); }
};
/// A descriptor of the library, always above 2. Once the library is in use, fork() closes it in the child.
using FileDescriptor = UniqueHandle<FileDescriptorTraits>;

struct MappedRange {
  std::byte *address = nullptr;
  size_t bytes = 0;

  bool operator==(const MappedRange &) const = default;
};

struct MappingTraits {
  using Handle = MappedRange;
  static constexpr Handle invalid{};
  static void close(Handle handle) { ::munmap(handle.address, handle.bytes); }
};
using Mapping = UniqueHandle<MappingTraits>;

/// Excludes a mapping of shared memory from children of fork(), which would keep the memory after the ranks have ended.
/// A failure is harmless: the child has a mapping that it does not use.
inline void keep_from_children(const Mapping &mapping) {
  static_cast<void>(::madvise(mapping.get().address, mapping.get().bytes, MADV_DONTFORK));
}

}  // namespace rondo
