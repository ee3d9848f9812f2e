// SPDX-License-Identifier: Apache-2.0
// Ownership of a C handle. Traits: `using Handle`, `static constexpr Handle invalid`, `static void close(Handle)`.
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
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle &&other) noexcept : handle_(other.release()) {}
  UniqueHandle &operator=(UniqueHandle &&other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueHandle(const UniqueHandle &) = delete;
  UniqueHandle &operator=(const UniqueHandle &) = delete;
  ~UniqueHandle() { reset(); }

  [[nodiscard]] const Handle &get() const { return handle_; }
  [[nodiscard]] bool valid() const { return !(handle_ == Traits::invalid); }
  [[nodiscard]] Handle release() { return std::exchange(handle_, Traits::invalid); }
  void reset(Handle handle = Traits::invalid) {
    const Handle old = std::exchange(handle_, handle);
    if (!(old == Traits::invalid)) Traits::close(old);
  }

 private:
  Handle handle_ = Traits::invalid;
};

struct FileDescriptorTraits {
  using Handle = int;
  static constexpr Handle invalid = -1;
  static void close(Handle handle) { ::close(handle); }
};
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

}  // namespace rondo
