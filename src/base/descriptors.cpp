// SPDX-License-Identifier: Apache-2.0
// This file registers the library's own descriptors. The register has a bit for each descriptor number, so that the
// child of a fork() can read it without a lock.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "src/base/unique_handle.h"

namespace rondo {
namespace {

constexpr int word_bits = 64;
constexpr int tracked_max = 1 << 20;  // the kernel's default limit (fs.nr_open)

/// All accesses are relaxed. Threads synchronise otherwise when they pass descriptors. A fork()'s child has one thread.
struct Register {
  std::array<std::atomic<uint64_t>, tracked_max / word_bits> words{};
  std::atomic<int> words_used{0};
};

Register &descriptors() {
  static constinit Register instance;
  return instance;
}

uint64_t bit_of(int descriptor) { return uint64_t{1} << (descriptor % word_bits); }

void enter(int descriptor) {
  if (descriptor >= tracked_max) return;
  const int word = descriptor / word_bits;
  descriptors().words[static_cast<size_t>(word)].fetch_or(bit_of(descriptor), std::memory_order_relaxed);
  int used = descriptors().words_used.load(std::memory_order_relaxed);
  while (used <= word && !descriptors().words_used.compare_exchange_weak(used, word + 1, std::memory_order_relaxed)) {
  }
}

/// Removes a descriptor. Returns false if it was not registered, but true if its number is too large for the register.
bool remove(int descriptor) {
  if (descriptor >= tracked_max) return true;
  const uint64_t bit = bit_of(descriptor);
  auto &word = descriptors().words[static_cast<size_t>(descriptor / word_bits)];
  return (word.fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
}

}  // namespace

int take_descriptor(int descriptor) {
  if (descriptor < 0) return descriptor;
  if (descriptor <= STDERR_FILENO) {
    const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int why = errno;
    ::close(descriptor);
    errno = why == EINVAL ? EMFILE : why;  // EINVAL means that the limit on descriptors is 3 or less
    descriptor = moved;
  }
  if (descriptor >= 0) enter(descriptor);
  return descriptor;
}

void forget_descriptor(int descriptor) { static_cast<void>(remove(descriptor)); }

void close_descriptor(int descriptor) {
  // The descriptor is removed first: once it is closed, its number may belong to a file of the program.
  if (remove(descriptor)) ::close(descriptor);
}

void close_inherited_descriptors() {
  const int used = descriptors().words_used.load(std::memory_order_relaxed);
  for (int word = 0; word < used; ++word) {
    uint64_t bits = descriptors().words[static_cast<size_t>(word)].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) ::close(word * word_bits + __builtin_ctzll(bits));
  }
}

}  // namespace rondo
