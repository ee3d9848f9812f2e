// SPDX-License-Identifier: Apache-2.0
// These tests register memory through a table of functions of the test. They need no device and no library.
#include "transports/verbs/device.h"

#include <cerrno>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// A card, which is also its protection domain. It notes each registration that is tried.
struct Card : ibv_pd {
  bool takes_relaxed = true, takes_dmabufs = true, takes_addresses = true;
  std::vector<std::string> tried;
  ibv_mr region{};

  [[nodiscard]] static ibv_mr *answer(ibv_pd *domain, const std::string &function, int flags) {
    auto &card = *static_cast<Card *>(domain);
    const bool is_relaxed = (flags & IBV_ACCESS_RELAXED_ORDERING) != 0;
    CHECK((flags & ~IBV_ACCESS_RELAXED_ORDERING) == access);
    card.tried.push_back(function + (is_relaxed ? " relaxed" : ""));
    const bool takes = function == "dmabuf" ? card.takes_dmabufs : card.takes_addresses;
    if (takes && (card.takes_relaxed || !is_relaxed)) return &card.region;
    errno = EINVAL;
    return nullptr;
  }
};

/// Returns the functions of rdma-core. An old version has fewer of them.
verbs::Api functions(bool old) {
  verbs::Api api;
  api.reg_mr = [](ibv_pd *domain, void *, size_t, int flags) { return Card::answer(domain, "mr", flags); };
  if (old) return api;
  api.reg_mr_iova2 = [](ibv_pd *domain, void *memory, size_t, uint64_t address, unsigned flags) {
    CHECK(address == reinterpret_cast<uint64_t>(memory));
    return Card::answer(domain, "iova2", static_cast<int>(flags));
  };
  api.reg_dmabuf_mr = [](ibv_pd *domain, uint64_t offset, size_t, uint64_t, int, int flags) {
    CHECK(offset == 64);
    return Card::answer(domain, "dmabuf", flags);
  };
  return api;
}

class DeviceMemory final : public RdmaMemory {
 public:
  explicit DeviceMemory(int dmabuf) : dmabuf_(dmabuf) {}
  std::span<std::byte> bytes() const override { return bytes_; }
  bool is_in_reach_of_host() const override { return false; }
  int dmabuf() const override { return dmabuf_; }
  void run(const std::function<void()> &work) const override { work(); }
  Result<void> flush() const override { return {}; }

 private:
  const int dmabuf_;
  mutable std::vector<std::byte> bytes_ = std::vector<std::byte>(128);
};

/// Returns the message of a failed registration, or "".
std::string outcome(Result<verbs::MemoryRegion> made, const Card &card) {
  if (!made.ok()) return made.error().message;
  CHECK(made.value().release() == &card.region);  // not destroyed, since the library is not there
  return "";
}
std::string host(const verbs::Api &api, Card &card) {
  std::byte memory[64];
  return outcome(verbs::register_host(api, &card, memory, sizeof memory, access), card);
}
std::string device(const verbs::Api &api, Card &card, int dmabuf = 7) {
  const DeviceMemory memory(dmabuf);
  return outcome(verbs::register_in_device(api, "card0", &card, memory, memory.bytes().data() + 64, 64, access), card);
}

using Tried = std::vector<std::string>;

}  // namespace

TEST_CASE("verbs: memory of the host and of devices is registered with relaxed ordering", "[net]") {
  const verbs::Api api = functions(false);
  Card of_host, of_dmabuf, of_address;
  CHECK(host(api, of_host) == "");
  CHECK(of_host.tried == Tried{"iova2 relaxed"});
  CHECK(device(api, of_dmabuf) == "");
  CHECK(of_dmabuf.tried == Tried{"dmabuf relaxed"});
  CHECK(device(api, of_address, -1) == "");
  CHECK(of_address.tried == Tried{"iova2 relaxed"});
}

TEST_CASE("verbs: memory is registered without relaxed ordering where the card refuses that", "[net]") {
  const verbs::Api api = functions(false);
  Card of_host, of_dmabuf, of_address;
  for (Card *const card : {&of_host, &of_dmabuf, &of_address}) card->takes_relaxed = false;
  CHECK(host(api, of_host) == "");
  CHECK(of_host.tried == Tried{"iova2 relaxed", "iova2"});
  CHECK(device(api, of_dmabuf) == "");
  CHECK(of_dmabuf.tried == Tried{"dmabuf relaxed", "dmabuf"});
  of_address.takes_dmabufs = false;
  CHECK(device(api, of_address) == "");
  CHECK(of_address.tried == Tried{"dmabuf relaxed", "dmabuf", "iova2 relaxed", "iova2"});
}

TEST_CASE("verbs: an old library registers addresses in the plain order", "[net]") {
  const verbs::Api api = functions(true);
  Card of_host, of_device;
  CHECK(host(api, of_host) == "");
  CHECK(of_host.tried == Tried{"mr"});
  CHECK(device(api, of_device) == "");
  CHECK(of_device.tried == Tried{"mr"});
}

TEST_CASE("verbs: the error says what could not be registered", "[net]") {
  const verbs::Api api = functions(false);
  Card card;
  card.takes_dmabufs = card.takes_addresses = false;
  CHECK(host(api, card).find("registering 64 bytes for RDMA") != std::string::npos);
  const std::string message = device(api, card);
  CHECK(message.find("card0 cannot reach the memory of the CUDA device (it takes no dmabuf;") != std::string::npos);
}
