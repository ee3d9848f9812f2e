// SPDX-License-Identifier: Apache-2.0
// This part of the test program uses host memory as buffers that devices reach: pinned, registered and managed memory.
#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

constexpr size_t buffer_bytes = (2 * half_bytes + 4095) / 4096 * 4096;

/// A kind of memory. The device is current when the memory is made.
struct MemoryKind {
  const char *name;
  unsigned char *(*make)();
  void (*end)(unsigned char *);
};

unsigned char *pinned() {
  void *made = nullptr;
  CU(host_alloc(&made, buffer_bytes, 0));
  return static_cast<unsigned char *>(made);
}

unsigned char *managed() {
  constexpr unsigned attach_global = 1;
  Address made = 0;
  CU(managed_alloc(&made, buffer_bytes, attach_global));
  return reinterpret_cast<unsigned char *>(made);
}

unsigned char *registered() {
  void *const made = std::aligned_alloc(4096, buffer_bytes);
  CHECK(made != nullptr);
  CU(host_register(made, buffer_bytes, 0));
  return static_cast<unsigned char *>(made);
}

constexpr MemoryKind kinds[] = {
    {"pinned", pinned, [](unsigned char *memory) { CU(host_free(memory)); }},
    {"managed", managed, [](unsigned char *memory) { CU(free(reinterpret_cast<Address>(memory))); }},
    {"registered", registered, [](unsigned char *memory) {
       CU(host_unregister(memory));
       std::free(memory);
     }}};

/// Host memory of one kind, and a stream of `device`. The memory is made on the device `maker`, which may differ.
class HostPart {
 public:
  HostPart(const MemoryKind &kind, int device, int maker) : kind_(kind), part_(device, 64), maker_(maker) {
    const OnDevice current(maker_);
    memory_ = kind_.make();
  }
  HostPart(const HostPart &) = delete;
  HostPart &operator=(const HostPart &) = delete;
  ~HostPart() {
    const OnDevice current(maker_);
    kind_.end(memory_);
  }
  [[nodiscard]] Stream stream() const { return part_.stream(); }
  [[nodiscard]] unsigned char *at(size_t offset) const { return memory_ + offset; }
  void write(const std::vector<unsigned char> &from) const { std::copy(from.begin(), from.end(), memory_); }
  [[nodiscard]] std::vector<unsigned char> read() const {
    part_.wait();
    return {memory_, memory_ + 2 * half_bytes};
  }

 private:
  const MemoryKind &kind_;
  const DevicePart part_;
  const int maker_;
  unsigned char *memory_ = nullptr;
};

/// Makes the call of each rank on this thread, all in one group.
void in_a_group(int rank_count, const std::function<ncclResult_t(int)> &call) {
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < rank_count; ++rank) NCCL(call(rank));
  NCCL(ncclGroupEnd());
}

void check_kind(const MemoryKind &kind, int devices, ncclComm_t *comms) {
  std::printf("%s\n", kind.name);
  const HostPart parts[] = {{kind, 0, 0}, {kind, 1 % devices, 0}};
  for (const Kind which : all_kinds)
    for (const bool in_place : {false, true}) {
      Case it{which, ncclFloat32, ncclSum, case_count_max};
      it.rank_count = 2;
      it.root = 1;
      it.in_place = in_place && it.can_be_in_place();
      for (int rank = 0; rank < 2; ++rank) parts[rank].write(before(it, rank));
      in_a_group(2, [&](int rank) { return call(it, rank, parts[rank], comms[rank]); });
      for (int rank = 0; rank < 2; ++rank) check_after(it, rank, parts[rank]);
    }
  // Such memory also works in a message, and as the place of an operation's factor.
  Case it;
  it.count = 1000;
  it.rank_count = 2;
  for (int rank = 0; rank < 2; ++rank) parts[rank].write(before(it, rank));
  in_a_group(2, [&](int rank) {
    NCCL(ncclSend(parts[rank].at(0), it.count, it.type, 1 - rank, comms[rank], parts[rank].stream()));
    return ncclRecv(parts[rank].at(half_bytes), it.count, it.type, 1 - rank, comms[rank], parts[rank].stream());
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto found = parts[rank].read(), sent = before(it, 1 - rank);
    CHECK(std::equal(sent.begin(), sent.begin() + 4000, found.begin() + half_bytes));
  }
  ncclRedOp_t ops[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    parts[rank].write(before(it, rank));
    put(ncclFloat32, 2, parts[rank].at(2 * half_bytes - 8));
    NCCL(ncclRedOpCreatePreMulSum(&ops[rank], parts[rank].at(2 * half_bytes - 8), ncclFloat32, ncclScalarDevice,
                                  comms[rank]));
  }
  in_a_group(2, [&](int rank) {
    it.op = ops[rank];
    return call(it, rank, parts[rank], comms[rank]);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto found = parts[rank].read();
    unsigned char wanted[4];
    put(ncclFloat32, 2 * reduced(ncclFloat32, ncclSum, 2, 999), wanted);
    CHECK(std::equal(wanted, wanted + 4, found.begin() + half_bytes + 4 * 999));
    NCCL(ncclRedOpDestroy(ops[rank], comms[rank]));
  }
}

}  // namespace

/// Checks all kinds of memory with two ranks, which are on one device, or on two if CLIENT_DEVICES is 2.
void compat_test::check_buffers() {
  const char *const text = std::getenv("CLIENT_DEVICES");
  const int devices = text == nullptr ? 1 : std::atoi(text);
  const int places[] = {0, 1 % devices};
  ncclComm_t comms[2] = {};
  NCCL(ncclCommInitAll(comms, 2, places));
  for (const MemoryKind &kind : kinds) check_kind(kind, devices, comms);
  // Memory of the host that is not pinned is refused.
  const DevicePart part(0, 64);
  std::vector<float> ordinary(16);
  CHECK_REFUSED(ncclAllReduce(ordinary.data(), part.at(0), 16, ncclFloat32, ncclSum, comms[0], part.stream()),
                ncclInvalidArgument, "send is host memory that is not pinned");
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
}
