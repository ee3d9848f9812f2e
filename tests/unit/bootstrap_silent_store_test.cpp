// SPDX-License-Identifier: Apache-2.0
// In these tests a client makes calls while the server leaves a query unanswered, as a stopped process does.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "src/base/clock.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/store/session.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/timed.h"
#include "tests/unit/soon.h"

using namespace rondo;

namespace {

/// Accepts clients on loopback, one after the other. The server leaves their requests unanswered until the test allows
/// answers. Then it answers each request with `done`.
class SilentServer {
 public:
  explicit SilentServer(const Secret &secret)
      : secret_(secret), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto *const plain = reinterpret_cast<sockaddr *>(&address);
    REQUIRE(::bind(listener_.get(), plain, bytes) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    REQUIRE(::getsockname(listener_.get(), plain, &bytes) == 0);
    endpoint_ = {"127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this] { serve(); });
  }
  SilentServer(const SilentServer &) = delete;
  SilentServer &operator=(const SilentServer &) = delete;
  ~SilentServer() {
    ends_ = true;
    thread_.join();
  }

  [[nodiscard]] const Endpoint &endpoint() const { return endpoint_; }
  void answer() { answers_ = true; }

 private:
  /// Returns false if nothing arrived within 10 ms.
  static bool wait_for(int socket) {
    pollfd entry{socket, POLLIN, 0};
    return ::poll(&entry, 1, 10) > 0;
  }

  /// Serves clients. A client that is not greeted in time connects again.
  void serve() {
    while (!ends_)
      if (wait_for(listener_.get())) serve_one();
  }

  void serve_one() {
    const FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    StoreSession session(secret_, wire::random_challenge(), now_ns());
    std::vector<Request> requests;
    std::array<std::byte, 4096> buffer;
    while (!ends_) {
      if (wait_for(client.get())) {
        const ssize_t count = ::recv(client.get(), buffer.data(), buffer.size(), 0);
        if (count <= 0) return;
        session.receive(ByteView(buffer).first(static_cast<size_t>(count)), now_ns(), requests);
      }
      if (answers_) {
        for (const Request &request : requests) {
          Reply done;
          done.id = request.id;
          session.reply(done, now_ns());
        }
        requests.clear();
      }
      const ByteView output = session.output();
      if (output.empty()) continue;
      const ssize_t count = ::send(client.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (count > 0) session.sent(static_cast<size_t>(count), now_ns());
    }
  }

  const Secret secret_;
  FileDescriptor listener_;
  Endpoint endpoint_;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> answers_ = false;
  std::thread thread_;
};

/// A client that has sent a query to a silent server.
struct Asker {
  Secret secret = random_secret();
  SilentServer server{secret};
  std::unique_ptr<Cancel> cancel;
  std::unique_ptr<Store> store;

  Asker() {
    auto made = Cancel::make();
    REQUIRE(made.ok());
    cancel = std::move(made).value();
    auto connected = connect_store(server.endpoint(), secret, soon(), std::nullopt, {}, cancel.get());
    REQUIRE(connected.ok());
    store = std::move(connected).value();
    const auto nothing = store->try_get("question");  // returns although the server never answers
    REQUIRE(nothing.ok());
    CHECK_FALSE(nothing.value());
  }

  Result<void> put(uint64_t deadline_ns) { return store->put("own", bytes_of("part"), deadline_ns); }
};

/// Aborts a call that waits behind a query. Returns the time from the abort to the call's end, or the time of a later
/// call, whichever is longer. The deadlines of both calls are too far away to end them.
uint64_t abort_behind_a_question() {
  Asker asker;
  uint64_t aborted_ns = 0;
  std::thread aborter([&] {
    sleep_for_ns(second_ns / 5);
    aborted_ns = now_ns();
    asker.cancel->request();
  });
  const auto waiting = asker.put(soon());
  const uint64_t ended_ns = now_ns();
  aborter.join();
  REQUIRE_FALSE(waiting.ok());
  CHECK(waiting.error().status == RONDO_ERROR_ABORTED);
  const auto later = asker.put(soon());
  REQUIRE_FALSE(later.ok());
  CHECK(later.error().status == RONDO_ERROR_ABORTED);
  return std::max(ended_ns - aborted_ns, now_ns() - ended_ns);
}

}  // namespace

TEST_CASE("store: a call behind a question that is not answered waits until its own deadline, which names its key",
          "[question]") {
  Asker asker;
  const uint64_t begun_ns = now_ns();
  const auto late = asker.put(begun_ns + 4 * second_ns);
  CHECK(now_ns() - begun_ns >= 4 * second_ns);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(late.error().message.find("'own'") != std::string::npos);
}

TEST_CASE("store: a call behind a question goes on when the server answers after 3 s", "[question]") {
  Asker asker;
  std::thread later([&asker] {
    sleep_for_ns(3 * second_ns);
    asker.server.answer();
  });
  const auto put = asker.put(soon());
  later.join();
  INFO((put.ok() ? "" : put.error().message));
  CHECK(put.ok());
}

TEST_CASE("store: an abort ends a call behind a question that is not answered, and a later call") {
  static_cast<void>(abort_behind_a_question());
}

TEST_CASE("store: an abort ends a call behind a question within a second", "[.timed]") {
  rondo_test::check_timed("store: abort of a call behind a question", second_ns, abort_behind_a_question);
}
