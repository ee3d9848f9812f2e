// SPDX-License-Identifier: Apache-2.0
// In these tests ranks meet through a running store, at rank 0's port, by a file or by a unique id, or a rank is alone.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/launch/process_info.h"
#include "src/bootstrap/launch/rendezvous.h"
#include "src/bootstrap/launch/rendezvous_file.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/test_clock.h"
#include "tests/unit/held_port.h"
#include "tests/unit/soon.h"
#include "tests/unit/store_visitor.h"

using namespace rondo;

namespace {

/// A directory of this test's own, removed at the end with the one directory that rendezvous makes in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    char name[] = "/tmp/rondo-test-XXXXXX";
    path_ = ::mkdtemp(name);
    inner_ = path_ + "/rondo-" + std::to_string(::geteuid());
  }
  ~ScratchDirectory() {
    ::rmdir(inner_.c_str());
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] const std::string &inner() const { return inner_; }

 private:
  std::string path_, inner_;
};

/// Runs all ranks of `job` as threads. Each joins, and gathers once through the store. Returns how many gathered
/// correctly.
int ranks_that_met(const Job &job, uint32_t generation, bool serving = false) {
  std::vector<int> right(job.size, 0);
  std::vector<Rendezvous> met(job.size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < job.size; ++rank) {
    threads.emplace_back([&, rank] {
      Job mine = job;
      mine.rank = rank;
      auto joined = join_job(mine, generation, serving, "", soon());
      if (!joined.ok()) return;
      met[rank] = std::move(joined).value();
      const auto parts = met[rank].store->gather(met[rank].key_prefix + "x", rank, job.size,
                                                 bytes_of(std::to_string(rank)), soon());
      right[rank] = parts.ok() && parts.value().size() == job.size &&
                    text_of(parts.value()[rank]) == std::to_string(rank);
    });
  }
  for (auto &thread : threads) thread.join();
  int count = 0;
  for (const int each : right) count += each;
  return count;
}

}  // namespace

TEST_CASE("rendezvous: ranks of `rondo run` meet at the launcher's store, generation by generation") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  Job job;
  job.rendezvous = Job::RendezvousMethod::store;
  job.size = 4;
  job.endpoint = server.value()->endpoint();
  job.secret = secret;
  for (uint32_t generation = 0; generation < 3; ++generation) CHECK(ranks_that_met(job, generation) == 4);
}

TEST_CASE("rendezvous: ranks of torchrun meet at a port of rank 0, named by a host name") {
  const rondo_test::HeldPort held;
  const uint16_t port = held.number();
  Job job;
  job.rendezvous = Job::RendezvousMethod::listen;
  job.size = 3;
  job.endpoint = {"localhost", port};
  job.secret = random_secret();
  CHECK(ranks_that_met(job, 0) == 3);
  // A later generation meets at the same port, at the server that rank 0's process has kept.
  const auto kept = start_store_server({"127.0.0.1", port}, job.secret);
  REQUIRE(kept.ok());
  const auto refused = join_job(job, 1, false, "", soon());  // the port is taken, perhaps by strangers
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("RONDO_PORT") != std::string::npos);
  CHECK(ranks_that_met(job, 1, true) == 3);
}

TEST_CASE("rendezvous: ranks meet by a file, which is private and gone afterwards") {
  const ScratchDirectory scratch;
  Job job;
  job.rendezvous = Job::RendezvousMethod::file;
  job.size = 4;
  job.name = "test-job";
  job.directory = scratch.path();
  for (uint32_t generation = 0; generation < 2; ++generation) {
    CHECK(ranks_that_met(job, generation) == 4);
    CHECK(::access((scratch.inner() + "/test-job-" + std::to_string(generation)).c_str(), F_OK) != 0);
  }
  struct stat info {};
  REQUIRE(::stat(scratch.inner().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("rendezvous: a file of a dead process is passed over and replaced; one of a living stranger is not") {
  const ScratchDirectory scratch;
  auto file = RendezvousFile::open(scratch.path(), "job-0");
  REQUIRE(file.ok());
  RendezvousRecord record;
  record.boot = boot_digest();
  record.pid = ::getpid();
  record.start_ticks = 1;  // this pid, but of an earlier process
  const auto write_record = [&] {
    const Bytes bytes = encode(record);
    const std::string path = scratch.inner() + "/job-0";
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes.data()),
                                                static_cast<std::streamsize>(bytes.size()));
    ::chmod(path.c_str(), 0600);
  };
  write_record();
  const auto waited = file.value().wait(now_ns() + second_ns / 20);
  REQUIRE_FALSE(waited.ok());
  CHECK(waited.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(waited.error().peer == 0);
  const auto cancel = Cancel::make();
  REQUIRE(cancel.ok());
  cancel.value()->request();
  CHECK(file.value().wait(soon(), cancel.value().get()).error().status == RONDO_ERROR_ABORTED);
  rondo_unique_id_t id{};
  id.internal[0] = 'x';
  CHECK(file.value().publish(id).ok());
  const auto read = file.value().wait(soon());
  REQUIRE(read.ok());
  CHECK(read.value().internal[0] == 'x');

  record.pid = ::getppid();
  const auto parent = process_stat(record.pid);
  REQUIRE(parent);
  record.start_ticks = parent->start_ticks;
  write_record();
  CHECK(file.value().publish(id).error().status == RONDO_ERROR_MISMATCH);

  record.start_ticks = 0;  // the writer could not read /proc, so only its number counts
  write_record();
  CHECK(file.value().is_there().value());
  CHECK(file.value().publish(id).error().status == RONDO_ERROR_MISMATCH);
  record.pid = ::fork();
  if (record.pid == 0) ::_exit(0);
  REQUIRE(::waitpid(record.pid, nullptr, 0) == record.pid);
  write_record();
  CHECK_FALSE(file.value().is_there().value());
  CHECK(file.value().publish(id).ok());
}

TEST_CASE("rendezvous: a directory or file that others could have touched is refused") {
  const ScratchDirectory scratch;
  REQUIRE(::mkdir(scratch.inner().c_str(), 0755) == 0);
  REQUIRE(::chmod(scratch.inner().c_str(), 0755) == 0);
  const auto open_to_all = RendezvousFile::open(scratch.path(), "job-0");
  REQUIRE_FALSE(open_to_all.ok());
  CHECK(open_to_all.error().message.find("RONDO_RENDEZVOUS_DIR") != std::string::npos);
  REQUIRE(::rmdir(scratch.inner().c_str()) == 0);
  REQUIRE(::symlink("/tmp", scratch.inner().c_str()) == 0);
  CHECK_FALSE(RendezvousFile::open(scratch.path(), "job-0").ok());
  REQUIRE(::unlink(scratch.inner().c_str()) == 0);
  const auto file = RendezvousFile::open(scratch.path(), "job-0");
  REQUIRE(file.ok());
  const std::string path = scratch.inner() + "/job-0";
  std::ofstream(path) << "anything";
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(file.value().wait(soon()).error().status == RONDO_ERROR_SYSTEM);
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(::symlink("/etc/hostname", path.c_str()) == 0);
  CHECK(file.value().wait(soon()).error().status == RONDO_ERROR_SYSTEM);
  ::unlink(path.c_str());
}

TEST_CASE("rendezvous: ranks of a unique id meet once; a rank that is missing or came twice is named", "[id]") {
  const auto made = start_unique_id_server("lo");
  REQUIRE(made.ok());
  bool other_met = false;
  std::thread other([&] { other_met = join_unique_id(made.value().id, 1, 2, soon()).ok(); });
  const auto met = join_unique_id(made.value().id, 0, 2, soon());
  other.join();
  CHECK(other_met);
  REQUIRE(met.ok());
  CHECK_FALSE(join_unique_id(made.value().id, 0, 2, soon()).ok());

  const auto second = start_unique_id_server("lo");
  REQUIRE(second.ok());
  std::optional<rondo_test::HeldClock> clock(std::in_place);
  Result<Rendezvous> alone = Error{RONDO_ERROR_INTERNAL, ""};
  std::thread waits([&, deadline_ns = now_ns() + second_ns / 10] {
    alone = join_unique_id(second.value().id, 2, 4, deadline_ns);
  });
  const auto rank_0 = rondo_test::wait_until_missing(second.value().id, 0, 4, "ranks 1, 3 (2 of 4)");
  clock->advance(second_ns / 10);  // rank 2 has entered, and now its deadline passes
  waits.join();
  clock.reset();
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(alone.error().message.find("ranks 1, 3 (2 of 4)") != std::string::npos);
  const auto late = join_unique_id(second.value().id, 1, 4, soon());  // the group has failed, so joining ends at once
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(late.error().message.find("rank 2 failed") != std::string::npos);
}

TEST_CASE("rendezvous: a rank that comes twice, or with another size, ends the wait of all with one status", "[id]") {
  for (const bool twice : {true, false}) {
    CAPTURE(twice);
    const auto made = start_unique_id_server("lo");
    REQUIRE(made.ok());
    std::vector<Error> errors(3);
    std::vector<std::thread> ranks;  // ranks 0 and 1 of 4; then rank 1 again, or a rank of 5
    for (uint32_t at = 0; at < 3; ++at)
      ranks.emplace_back([&, at] {
        const bool wrong = at == 2;
        const auto met = join_unique_id(made.value().id, wrong && twice ? 1 : at, wrong && !twice ? 5 : 4, soon());
        if (!met.ok()) errors[at] = met.error();
      });
    for (std::thread &rank : ranks) rank.join();
    for (const Error &error : errors) {
      CHECK(error.status == RONDO_ERROR_MISMATCH);
      CHECK(error.message.find(twice ? "rank 1 joined twice" : "others say") != std::string::npos);
    }
  }
}

TEST_CASE("rendezvous: a store that has ended is not waited for by ranks that come to it", "[id]") {
  auto made = start_unique_id_server("lo");
  REQUIRE(made.ok());
  made.value().server.reset();
  const auto late = join_unique_id(made.value().id, 1, 2, soon());
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_REMOTE);  // not RONDO_ERROR_TIMEOUT
  CHECK(late.error().message.find("process " + std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("local store: ranks of one process gather without a socket, and deadlines hold") {
  auto stores = make_local_stores(4);
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      for (int round = 0; round < 50; ++round) {
        const auto parts = stores[rank]->gather("r" + std::to_string(round), rank, 4, bytes_of("part"), soon());
        right[rank] += parts.ok() && parts.value().size() == 4;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 50));
  CHECK(stores[0]->get("none", now_ns() + second_ns / 100).error().status == RONDO_ERROR_TIMEOUT);
  const auto nothing = stores[0]->try_get("later");
  REQUIRE(nothing.ok());
  CHECK_FALSE(nothing.value());
  REQUIRE(stores[1]->put("later", bytes_of("here"), soon()).ok());
  const auto something = stores[0]->try_get("later");
  REQUIRE(something.ok());
  REQUIRE(something.value());
  CHECK(text_of(*something.value()) == "here");
  Job job;
  const auto alone = join_job(job, 7, false, "", soon());
  REQUIRE(alone.ok());
  CHECK(alone.value().size == 1);
}
