// SPDX-License-Identifier: Apache-2.0
// These tests cover memory that peers can map: rondo_mem_alloc, rondo_mem_free, and the search for a buffer's region.
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "src/api/boundary.h"
#include "src/core/process.h"
#include "src/memory/region.h"
#include "tests/catch.h"
#include "tests/unit/region_tools.h"

using namespace rondo;

namespace {

std::byte *allocate(RegionTable &table, size_t bytes) {
  return static_cast<std::byte *>(table.allocate(bytes).value());
}

}  // namespace

TEST_CASE("mem_alloc: gives zeroed, aligned memory of any size, and takes it back without a trace") {
  const int before = descriptor_count();
  for (const size_t bytes : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, (size_t{2} << 20) - 1,
                             size_t{2} << 20, (size_t{2} << 20) + 1, (size_t{5} << 20) + 12'345}) {
    CAPTURE(bytes);
    void *pointer = nullptr;
    REQUIRE(rondo_mem_alloc(&pointer, bytes) == RONDO_OK);
    const size_t alignment = bytes >= RegionTable::huge_page_bytes ? RegionTable::huge_page_bytes : page_bytes();
    CHECK(reinterpret_cast<uintptr_t>(pointer) % alignment == 0);
    CHECK(all_equal(pointer, bytes, std::byte{0}));
    std::memset(pointer, 0x5A, bytes);
    CHECK(permissions_at(pointer) == "rw-s");
    CHECK(descriptor_count() == before + 1);
    CHECK(rondo_mem_free(pointer) == RONDO_OK);
    CHECK(permissions_at(pointer) != "rw-s");
    CHECK(descriptor_count() == before);
  }
}

TEST_CASE("mem_alloc: refuses nothing, null and more than the machine has, and leaves the pointer alone") {
  void *pointer = &pointer;
  CHECK(rondo_mem_alloc(nullptr, 10) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_mem_alloc(&pointer, 0) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_mem_alloc(&pointer, size_t{1} << 60) == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(rondo_mem_alloc(&pointer, SIZE_MAX) == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(rondo_mem_alloc(&pointer, SIZE_MAX - 4096) == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(pointer == &pointer);
}

TEST_CASE("mem_alloc: says that descriptors ran out, and works again when there are some") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{static_cast<rlim_t>(::dup(0)), before.rlim_max};
  ::close(static_cast<int>(low.rlim_cur));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  void *pointer = nullptr;
  const rondo_status_t refused = rondo_mem_alloc(&pointer, 100);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(last_error().message.find("ulimit -n") != std::string::npos);
  CHECK(pointer == nullptr);
  REQUIRE(rondo_mem_alloc(&pointer, 100) == RONDO_OK);
  CHECK(rondo_mem_free(pointer) == RONDO_OK);
}

TEST_CASE("mem_free: a pointer that is not the start of an allocation frees nothing; null is nothing to free") {
  void *pointer = nullptr;
  REQUIRE(rondo_mem_alloc(&pointer, 3 * page_bytes()) == RONDO_OK);
  int local = 0;
  for (void *wrong : {static_cast<void *>(&local), static_cast<void *>(static_cast<std::byte *>(pointer) + 1),
                      static_cast<void *>(static_cast<std::byte *>(pointer) + page_bytes()),
                      reinterpret_cast<void *>(UINTPTR_MAX), reinterpret_cast<void *>(8)})
    CHECK(rondo_mem_free(wrong) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_mem_free(nullptr) == RONDO_OK);
  std::memset(pointer, 1, 3 * page_bytes());
  CHECK(rondo_mem_free(pointer) == RONDO_OK);
  CHECK(rondo_mem_free(pointer) == RONDO_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("regions: a buffer is found where it lies wholly inside of one, up to its last byte and no further") {
  RegionTable table;
  const size_t whole = 2 * page_bytes();
  std::byte *one = allocate(table, whole - 10);  // rounded up to whole pages
  const auto start = table.find(one, 1);
  REQUIRE(start);
  CHECK(start->offset == 0);
  CHECK(start->region_bytes == whole);
  CHECK(table.find(one, whole) == start);
  CHECK_FALSE(table.find(one, whole + 1));
  CHECK_FALSE(table.find(one, SIZE_MAX));
  CHECK_FALSE(table.find(one, 0));
  CHECK_FALSE(table.find(one - 1, 1));
  CHECK_FALSE(table.find(one - 1, 2));
  CHECK(table.find(one + whole - 1, 1)->offset == whole - 1);
  CHECK_FALSE(table.find(one + whole - 1, 2));
  CHECK_FALSE(table.find(one + whole, 1));
  std::byte *two = allocate(table, page_bytes());
  CHECK(table.find(two, 1)->id != start->id);
  CHECK(table.find(two, 1)->descriptor != start->descriptor);
  CHECK_FALSE(table.find(nullptr, 1));
  CHECK_FALSE(table.find(reinterpret_cast<void *>(UINTPTR_MAX), 1));
  CHECK(table.free(one).ok());
  CHECK_FALSE(table.find(one, 1));
  CHECK(table.find(two, 1));
}

TEST_CASE("regions: an id is never used again, also where address and descriptor are") {
  RegionTable table;
  uint64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    std::byte *pointer = allocate(table, 100);
    const auto found = table.find(pointer, 100);
    REQUIRE(found);
    CHECK(found->id > last);
    last = found->id;
    CHECK(table.free(pointer).ok());
  }
  CHECK(table.count() == 0);
}

TEST_CASE("regions: added pages must not overlap others, and only their adder ends them") {
  RegionTable table;
  std::byte *base = allocate(table, 4 * page_bytes());
  const size_t page = page_bytes();
  CHECK_FALSE(table.add(base, page, 0).ok());
  CHECK_FALSE(table.add(base + 3 * page, 2 * page, 0).ok());
  CHECK_FALSE(table.add(base - page, 2 * page, 0).ok());
  CHECK_FALSE(table.add(base - page, 6 * page, 0).ok());
  const auto before = table.add(base - page, page, 17);  // adjacent without overlap; never dereferenced
  REQUIRE(before.ok());
  CHECK(table.find(base - 1, 1)->descriptor == 17);
  CHECK_FALSE(table.find(base - 1, 2));  // across two regions
  CHECK_FALSE(table.free(base - page).ok());
  table.remove(table.find(base, 1)->id);  // an allocation is not removed here; only free() ends it
  CHECK(table.find(base, 1));
  table.remove(before.value());
  CHECK_FALSE(table.find(base - 1, 1));
}

TEST_CASE("regions: another process sees what is written here, and the other way round") {
  RegionTable table;
  const size_t bytes = 3 * page_bytes();
  std::byte *pointer = allocate(table, bytes);
  std::memset(pointer, 0x11, bytes);
  CHECK(peer_sees_and_writes(table.find(pointer, bytes)->descriptor, bytes, std::byte{0x11}, std::byte{0x22}));
  CHECK(all_equal(pointer, bytes, std::byte{0x22}));
}

TEST_CASE("regions: no peer can cut a region short, and a child of fork does not have it") {
  RegionTable table;
  std::byte *pointer = allocate(table, 2 * page_bytes());
  const int descriptor = table.find(pointer, 1)->descriptor;
  CHECK(::ftruncate(descriptor, 0) != 0);
  CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(::msync(pointer, page_bytes(), MS_ASYNC) != 0 && errno == ENOMEM ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("regions: a file that has got a region's descriptor is neither emptied nor closed") {
  RegionTable table;
  std::byte *const pointer = allocate(table, page_bytes());
  const int descriptor = table.find(pointer, 1)->descriptor;
  const FileDescriptor other(::memfd_create("other", MFD_CLOEXEC));
  REQUIRE(::pwrite(other.get(), "content", 7, 0) == 7);
  REQUIRE(::dup2(other.get(), descriptor) == descriptor);
  CHECK(table.find(pointer, 1)->inode != identify(descriptor).inode);
  REQUIRE(table.free(pointer).ok());
  std::array<char, 7> seen{};
  CHECK(::pread(descriptor, seen.data(), seen.size(), 0) == 7);
  CHECK(std::memcmp(seen.data(), "content", 7) == 0);
  ::close(descriptor);
}

TEST_CASE("regions: memory that was mapped anew at a region's address is told where the two differ") {
  RegionTable table;
  const size_t bytes = 3 * page_bytes();
  std::byte *const pointer = allocate(table, bytes);
  std::memset(pointer, 0x11, bytes);
  CHECK_FALSE(table.find(pointer, bytes)->replaced);
  REQUIRE(::mmap(pointer + page_bytes(), page_bytes(), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pointer + page_bytes());
  CHECK(table.find(pointer, bytes)->replaced);
  CHECK(table.find(pointer + page_bytes(), 1)->replaced);
  CHECK_FALSE(table.find(pointer, page_bytes())->replaced);
  std::memset(pointer + page_bytes(), 0x11, page_bytes());
  CHECK_FALSE(table.find(pointer, bytes)->replaced);  // equal contents hide the difference
}

TEST_CASE("regions: eight threads allocate, find and free at once; each finds its own") {
  RegionTable table;
  const int before = descriptor_count();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int i = 0; i < 100; ++i) {
        const size_t bytes = 1 + random() % 20'000;
        const auto made = table.allocate(bytes);
        if (!made.ok()) {
          ++wrong;
          continue;
        }
        auto *pointer = static_cast<std::byte *>(made.value());
        pointer[bytes - 1] = std::byte{1};
        const size_t offset = random() % bytes;
        const auto found = table.find(pointer + offset, bytes - offset);
        if (!found || found->offset != offset) ++wrong;
        if (!table.free(pointer).ok()) ++wrong;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(table.count() == 0);
  CHECK(descriptor_count() == before);
}
