// SPDX-License-Identifier: Apache-2.0
// This file has the scenarios of rank_program with special buffers: exported, registered, allocated, replaced or large.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/proc/rank_program.h"

/// exports KIND RANK ROUND: sums in allocated or registered buffers. RANK kills itself in the middle of ROUND.
int run_lend(const Rank &self, const Arguments &args) {
  constexpr size_t count = 1'000'000;
  void *memory = nullptr;
  rondo_registration_t registration = nullptr;
  rondo_status_t status = RONDO_OK;
  if (args[0] == "alloc") {
    status = rondo_mem_alloc(&memory, count * sizeof(int32_t));
  } else {
    memory = std::malloc(count * sizeof(int32_t));
    status = rondo_comm_register(self.comm, memory, count * sizeof(int32_t), 0, &registration);
  }
  int outcome = status;
  for (int round = 1; outcome == RONDO_OK; ++round) {
    if (self.rank == std::stoi(args[1]) && round == std::stoi(args[2]))
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        ::raise(SIGKILL);
      }).detach();
    outcome = sum_once(self, memory, count, round);
  }
  return finish(self, outcome);
}

namespace {

/// Returns the descriptor of the one region that this process has.
int region_descriptor() {
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    std::array<char, 64> target{};
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    if (::readlink(path.c_str(), target.data(), target.size() - 1) > 0 &&
        std::strstr(target.data(), "memfd:rondo-region") != nullptr)
      return descriptor;
  }
  return -1;
}

}  // namespace

/// replace WHAT KIND COUNT RANK: that rank has an alloc, moved or registered buffer. With WHAT = descriptor, another
/// file of the rank replaces the region's descriptor before the first sum, and the file must not change. With WHAT =
/// memory, other memory replaces the buffer after the second sum.
int run_replace(const Rank &self, const Arguments &args) {
  const size_t count = std::stoul(args[2]);
  const size_t bytes = count * sizeof(int32_t);
  const bool mine = self.rank == std::stoi(args[3]);
  void *memory = nullptr;
  rondo_registration_t registration = nullptr;
  const bool registered = args[1] != "alloc";
  rondo_status_t status = registered ? RONDO_OK : rondo_mem_alloc(&memory, bytes);
  if (registered) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    status = rondo_comm_register(self.comm, memory, bytes, args[1] == "moved" ? RONDO_REGISTER_MOVE_PAGES : 0,
                                 &registration);
  }
  if (status != RONDO_OK) return report(self, status);
  const int file = ::memfd_create("own", 0);
  const int descriptor = region_descriptor();
  std::vector<char> content(bytes, 7);
  const bool descriptor_goes = mine && args[0] == "descriptor";
  if (descriptor_goes && descriptor < 0) return 4;
  if (::write(file, content.data(), bytes) != static_cast<ssize_t>(bytes)) return 4;
  if (descriptor_goes) ::dup2(file, descriptor);
  int outcome = RONDO_OK;
  for (int round = 1; round <= 4 && outcome == RONDO_OK; ++round) {
    if (round == 3 && mine && args[0] == "memory" &&
        ::mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != memory)
      return 4;
    outcome = sum_once(self, memory, count, round);
  }
  const int result = finish(self, outcome);
  if (registered) static_cast<void>(rondo_comm_deregister(self.comm, registration));
  if (!registered) static_cast<void>(rondo_mem_free(memory));
  if (descriptor_goes &&
      (::pread(descriptor, content.data(), bytes, 0) != static_cast<ssize_t>(bytes) ||
       std::any_of(content.begin(), content.end(), [](char byte) { return byte != 7; })))
    std::printf("rank %d: WRONG: its own file was changed or closed\n", self.rank);
  return result;
}

/// buffers KIND COUNT: prints the communicator's abilities, and sums in private, alloc, registered or moved buffers.
int run_buffers(const Rank &self, const Arguments &args) {
  const size_t count = std::stoul(args[1]);
  const size_t bytes = count * sizeof(int32_t);
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  static_cast<void>(rondo_comm_get_properties(self.comm, &properties));
  void *memory = nullptr;
  rondo_registration_t registration = nullptr;
  rondo_status_t status = RONDO_OK;
  if (args[0] == "alloc") {
    status = rondo_mem_alloc(&memory, bytes);
  } else {
    memory = std::malloc(bytes);
    if (args[0] == "registered") status = rondo_comm_register(self.comm, memory, bytes, 0, &registration);
    if (args[0] == "moved")
      status = rondo_comm_register(self.comm, memory, bytes, RONDO_REGISTER_MOVE_PAGES, &registration);
  }
  int outcome = status;
  for (int round = 0; round < 5 && outcome == RONDO_OK; ++round) outcome = sum_once(self, memory, count, round);
  if (registration != nullptr && rondo_comm_deregister(self.comm, registration) != RONDO_OK) outcome = -1;
  if (outcome == RONDO_OK) outcome = sum_once(self, memory, count, 77);
  std::printf("rank %d: mapped %d cross %d local ranks %d\n", self.rank, properties.mapped_buffers,
              properties.cross_memory, properties.local_rank_count);
  if (args[0] == "alloc" && rondo_mem_free(memory) != RONDO_OK) outcome = -1;
  if (args[0] != "alloc") std::free(memory);
  return finish(self, outcome);
}

namespace {

/// Returns whole periods of a pattern of 251 bytes. Its value at `i` is `factor * (i % 251 / 8) + summand`. Copying or
/// comparing such bytes takes much less time than computing each of them.
std::vector<uint8_t> pattern(size_t factor, size_t summand) {
  std::vector<uint8_t> values(size_t{251} << 12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(factor * (i % 251 / 8) + summand);
  return values;
}

}  // namespace

/// huge: reduces more than 2^32 bytes, one byte an element, in place.
int run_huge(const Rank &self, const Arguments &) {
  const size_t count = (size_t{1} << 32) + 12'345;
  void *memory = nullptr;
  rondo_status_t status = rondo_mem_alloc(&memory, count);
  if (status != RONDO_OK) return report(self, status);
  auto *values = static_cast<uint8_t *>(memory);
  const std::vector<uint8_t> own = pattern(1, static_cast<size_t>(self.rank));
  for (size_t i = 0; i < count; i += own.size()) std::memcpy(values + i, own.data(), std::min(own.size(), count - i));
  status = rondo_all_reduce(values, values, count, RONDO_UINT8, RONDO_SUM, self.comm, nullptr);
  if (status != RONDO_OK) return report(self, status);
  const size_t ranks = static_cast<size_t>(self.size);
  const std::vector<uint8_t> sum = pattern(ranks, ranks * (ranks - 1) / 2);
  for (size_t i = 0; i < count; i += sum.size())
    if (std::memcmp(values + i, sum.data(), std::min(sum.size(), count - i)) != 0) return finish(self, -1);
  static_cast<void>(rondo_mem_free(memory));
  return report(self, status);
}
