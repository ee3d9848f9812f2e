// SPDX-License-Identifier: Apache-2.0
// These tests move a buffer's pages in place into memory that peers can map, and back.
#include <alloca.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/memory/region.h"
#include "tests/catch.h"
#include "tests/unit/region_tools.h"

using namespace rondo;

namespace {

/// Maps anonymous pages of the test's own.
Mapping map_pages(size_t count, int protection = PROT_READ | PROT_WRITE, int flags = MAP_PRIVATE | MAP_ANONYMOUS) {
  void *address = ::mmap(nullptr, count * page_bytes(), protection, flags, -1, 0);
  REQUIRE(address != MAP_FAILED);
  return Mapping({static_cast<std::byte *>(address), count * page_bytes()});
}

void fill(std::byte *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i * 31 + i / 4096);
}

bool filled(const std::byte *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (memory[i] != static_cast<std::byte>(i * 31 + i / 4096)) return false;
  return true;
}

std::string refused(void *pointer, size_t bytes, rondo_status_t status = RONDO_ERROR_UNSUPPORTED) {
  RegionTable table;
  const int descriptors = descriptor_count();
  const auto moved = move_pages(table, pointer, bytes);
  REQUIRE_FALSE(moved.ok());
  CHECK(moved.error().status == status);
  CHECK(table.count() == 0);
  CHECK(descriptor_count() == descriptors);
  return moved.error().message;
}

bool mentions(const std::string &message, const char *what) { return message.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("move pages: a malloc'ed buffer keeps address and contents, there and back, and can then be freed") {
  const int descriptors = descriptor_count();
  for (const size_t bytes : {size_t{20'000}, size_t{3} << 20}) {  // in the heap, and in a separate mapping
    CAPTURE(bytes);
    RegionTable table;
    const std::unique_ptr<std::byte, decltype(&std::free)> owner(static_cast<std::byte *>(std::malloc(bytes)),
                                                                  &std::free);
    std::byte *buffer = owner.get();
    fill(buffer, bytes);
    {
      const auto moved = move_pages(table, buffer, bytes);
      REQUIRE(moved.ok());
      const std::byte *pages = moved.value().address();
      const size_t page_count = moved.value().bytes() / page_bytes();
      CHECK(pages >= buffer);
      CHECK(pages - buffer < static_cast<ptrdiff_t>(page_bytes()));
      CHECK(moved.value().bytes() % page_bytes() == 0);
      CHECK(page_count >= bytes / page_bytes() - 1);
      CHECK(filled(buffer, bytes));
      CHECK(permissions_at(pages) == "rw-s");
      const auto found = table.find(pages, moved.value().bytes());
      REQUIRE(found);
      CHECK(found->id == moved.value().region());
      CHECK(found->offset == 0);
      CHECK(table.find(buffer, bytes).has_value() == (pages == buffer && moved.value().bytes() == bytes));
      buffer[bytes / 2] = std::byte{99};
    }
    CHECK(buffer[bytes / 2] == std::byte{99});
    buffer[bytes / 2] = static_cast<std::byte>((bytes / 2) * 31 + bytes / 2 / 4096);
    CHECK(filled(buffer, bytes));
    CHECK(permissions_at(buffer + bytes / 2) == "rw-p");
    CHECK(table.count() == 0);
    CHECK(descriptor_count() == descriptors);
  }
}

TEST_CASE("move pages: another process sees the buffer and writes to it; what it wrote stays after moving back") {
  RegionTable table;
  const Mapping memory = map_pages(5);
  std::byte *base = memory.get().address;
  const size_t page = page_bytes();
  std::memset(base, 0x33, 5 * page);
  {
    auto moved = move_pages(table, base + 1, 5 * page - 2);  // a byte short at each end: three whole pages
    REQUIRE(moved.ok());
    CHECK(moved.value().address() == base + page);
    CHECK(moved.value().bytes() == 3 * page);
    const auto found = table.find(base + page, 3 * page);
    REQUIRE(found);
    CHECK(peer_sees_and_writes(found->descriptor, 3 * page, std::byte{0x33}, std::byte{0x44}));
    CHECK(all_equal(base + page, 3 * page, std::byte{0x44}));
    CHECK(moved.value().move_back().ok());
    CHECK(moved.value().move_back().ok());  // a second time does nothing
  }
  CHECK(all_equal(base, page, std::byte{0x33}));
  CHECK(all_equal(base + page, 3 * page, std::byte{0x44}));
  CHECK(all_equal(base + 4 * page, page, std::byte{0x33}));
  CHECK(permissions_at(base + page) == "rw-p");
}

TEST_CASE("move pages: after moving back, a child of fork has a copy of its own again") {
  RegionTable table;
  const Mapping memory = map_pages(2);
  auto *word = reinterpret_cast<volatile int *>(memory.get().address);
  *word = 1;
  const auto write_in_child = [&] {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      *word = 2;
      ::_exit(0);
    }
    REQUIRE(::waitpid(child, nullptr, 0) == child);
  };
  {
    const auto moved = move_pages(table, memory.get().address, memory.get().bytes);
    REQUIRE(moved.ok());
    write_in_child();
    CHECK(*word == 2);  // the child shares moved pages, as rondo.h warns
    *word = 1;
  }
  write_in_child();
  CHECK(*word == 1);
}

TEST_CASE("move pages: a buffer across mappings of different protections keeps each one's") {
  RegionTable table;
  const Mapping memory = map_pages(6);
  std::byte *base = memory.get().address;
  const size_t page = page_bytes();
  fill(base, 6 * page);
  REQUIRE(::mprotect(base + 2 * page, 2 * page, PROT_READ) == 0);
  const auto protections = [&] {
    std::string all;
    for (size_t i = 0; i < 6; ++i) all += permissions_at(base + i * page) + " ";
    return all;
  };
  {
    const auto moved = move_pages(table, base, 6 * page);
    REQUIRE(moved.ok());
    CHECK(protections() == "rw-s rw-s r--s r--s rw-s rw-s ");
    CHECK(filled(base, 6 * page));
    CHECK(table.find(base, 6 * page));
  }
  CHECK(protections() == "rw-p rw-p r--p r--p rw-p rw-p ");
  CHECK(filled(base, 6 * page));
}

TEST_CASE("move pages: a buffer without a whole page, null, or beyond the address space is refused") {
  const Mapping memory = map_pages(3);
  std::byte *base = memory.get().address;
  const size_t page = page_bytes();
  CHECK(mentions(refused(base + 1, 2 * page - 2), "no whole page"));
  CHECK(mentions(refused(base, page - 1), "no whole page"));
  CHECK(mentions(refused(base, 0), "no whole page"));
  refused(nullptr, 100 * page, RONDO_ERROR_INVALID_ARGUMENT);
  refused(base, SIZE_MAX, RONDO_ERROR_INVALID_ARGUMENT);
  refused(base, UINTPTR_MAX - reinterpret_cast<uintptr_t>(base), RONDO_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("move pages: stacks are refused, the main thread's and another's own") {
  const size_t bytes = 64 * 1024;
  void *on_main = ::alloca(bytes);
  std::memset(on_main, 1, bytes);
  CHECK(mentions(refused(on_main, bytes), "stack"));
  rondo_status_t status = RONDO_OK;
  std::thread([&] {
    RegionTable table;
    void *here = ::alloca(bytes);
    std::memset(here, 1, bytes);
    const auto moved = move_pages(table, here, bytes);
    status = moved.ok() ? RONDO_OK : moved.error().status;
  }).join();
  CHECK(status == RONDO_ERROR_UNSUPPORTED);
  CHECK(all_equal(on_main, bytes, std::byte{1}));
}

TEST_CASE("move pages: memory of files, shared, locked, unreadable, pinned and missing memory is refused and stays") {
  const size_t page = page_bytes();
  FileDescriptor program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  void *address = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, program.get(), 0);
  REQUIRE(address != MAP_FAILED);
  const Mapping of_file({static_cast<std::byte *>(address), 2 * page});
  CHECK(mentions(refused(of_file.get().address, 2 * page), "file"));
  CHECK(permissions_at(of_file.get().address) == "rw-p");

  const Mapping shared = map_pages(2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  CHECK(mentions(refused(shared.get().address, 2 * page), "shared"));

  const Mapping memory = map_pages(4);
  std::byte *base = memory.get().address;
  fill(base, 4 * page);
  REQUIRE(::mprotect(base + page, page, PROT_NONE) == 0);
  CHECK(mentions(refused(base, 4 * page), "cannot be read"));
  REQUIRE(::mprotect(base + page, page, PROT_READ | PROT_WRITE) == 0);
  REQUIRE(::syscall(SYS_mlock, base + page, page) == 0);  // not mlock(), which sanitizers disable
  CHECK(mentions(refused(base, 4 * page), "locked"));
  REQUIRE(::syscall(SYS_munlock, base + page, page) == 0);
  REQUIRE(::madvise(base + page, page, MADV_DONTFORK) == 0);  // as libibverbs does with registered memory
  CHECK(mentions(refused(base, 4 * page), "DONTFORK"));
  REQUIRE(::madvise(base + page, page, MADV_DOFORK) == 0);
  CHECK(filled(base, 4 * page));
  CHECK(permissions_at(base + page) == "rw-p");
  REQUIRE(::munmap(base + page, page) == 0);
  CHECK(mentions(refused(base, 4 * page, RONDO_ERROR_INVALID_ARGUMENT), "no memory at"));
}

TEST_CASE("move pages: memory that peers can map already, allocated or moved, is refused") {
  RegionTable table;
  void *allocated = table.allocate(3 * page_bytes()).value();
  CHECK(mentions(refused(allocated, 3 * page_bytes()), "shared"));
  const Mapping memory = map_pages(3);
  const auto moved = move_pages(table, memory.get().address, 3 * page_bytes());
  REQUIRE(moved.ok());
  CHECK(mentions(refused(memory.get().address, 3 * page_bytes()), "shared"));
  CHECK_FALSE(table.free(memory.get().address).ok());
  CHECK(table.find(memory.get().address, 3 * page_bytes()));
}

TEST_CASE("move pages: a failure halfway is undone: contents, protections and kind of memory are as before") {
  RegionTable table;
  const size_t page = page_bytes();
  const Mapping memory = map_pages(4);
  std::byte *base = memory.get().address;
  fill(base, 4 * page);
  REQUIRE(::mprotect(base + page, page, PROT_READ) == 0);
  // The table wrongly has some of these addresses, so the last step, which enters the pages, fails.
  const auto in_the_way = table.add(base + 3 * page, page, 0);
  REQUIRE(in_the_way.ok());
  const int descriptors = descriptor_count();
  CHECK_FALSE(move_pages(table, base, 4 * page).ok());
  CHECK(filled(base, 4 * page));
  CHECK(permissions_at(base) == "rw-p");
  CHECK(permissions_at(base + page) == "r--p");
  CHECK(permissions_at(base + 2 * page) == "rw-p");
  CHECK(descriptor_count() == descriptors);
  table.remove(in_the_way.value());
  CHECK(move_pages(table, base, 4 * page).ok());
  CHECK(filled(base, 4 * page));
}
