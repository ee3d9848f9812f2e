/* SPDX-License-Identifier: Apache-2.0
 *
 * This is a user's program in C++17. It is built with what pkg-config says of the installed library. Two ranks, each on
 * its own thread, use every handle of rondo.hpp. It prints one line, or what was wrong.
 */
#include <rondo/rondo.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void expect(bool holds, const char *what) {
  if (!holds) throw std::runtime_error(what);
}

void collectives(const rondo::Communicator &comm) {
  const int rank = comm.rank(), peer = 1 - rank;
  rondo::Memory<float> x(4);
  for (float &each : x) each = static_cast<float>(rank + 1);
  comm.all_reduce(x.data(), x.data(), x.size());
  comm.flush();
  expect(x[3] == 3.0F, "all_reduce");
  float factor = 0.5F, y = 4.0F;
  const rondo::PremulSum by_value(comm.get(), factor), by_address(comm.get(), &factor);
  factor = 0.25F;
  comm.all_reduce(&y, &y, 1, by_value);
  expect(y == 4.0F, "all_reduce by a premul sum");
  comm.all_reduce(&y, &y, 1, by_address);
  expect(y == 2.0F, "all_reduce by a premul sum whose factor is read when it runs");
  comm.reduce(x.data(), x.data(), x.size(), 1, RONDO_MAX);

  std::vector<std::int64_t> pair(2, 7), mine(1, rank);
  comm.all_gather(mine.data(), pair.data(), 1);
  expect(pair == std::vector<std::int64_t>{0, 1}, "all_gather");
  const std::size_t counts[] = {1, 1};
  comm.all_gather_v(mine.data(), pair.data(), counts);
  comm.reduce_scatter(pair.data(), mine.data(), 1);
  expect(mine[0] == 2 * rank, "reduce_scatter");
  comm.broadcast(mine.data(), 1, 1);
  expect(mine[0] == 2, "broadcast");
  comm.gather(mine.data(), pair.data(), 1, 0);
  comm.scatter(pair.data(), mine.data(), 1, 0);
  std::vector<std::int64_t> swapped(2);
  pair = {10 * rank, 10 * rank + 1};
  comm.all_to_all(pair.data(), swapped.data(), 1);
  expect(swapped[static_cast<std::size_t>(peer)] == 10 * peer + rank, "all_to_all");

  std::uint8_t sent = static_cast<std::uint8_t>(40 + rank), got = 0;
  rondo::Group group;
  comm.send(&sent, 1, peer);
  comm.recv(&got, 1, peer);
  group.end();
  expect(got == 40 + peer, "messages");
}

void handles(const rondo::Communicator &comm) {
  std::vector<double> x(1000, comm.rank());
  const rondo::Registration held = comm.register_buffer(x.data(), x.size() * sizeof(double));
  rondo::Stream stream;
  comm.all_reduce(x.data(), x.data(), x.size(), RONDO_SUM, stream);
  stream.synchronize();
  expect(x[999] == 1.0, "a stream");
  {
    int ignored = 0;
    rondo::Group dropped;
    comm.broadcast(&ignored, 1, 0);
  } // the group was dropped with its call, so both ranks have made equally many operations
  const rondo::Communicator alone = comm.split(comm.rank());
  expect(alone.size() == 1, "split");
  expect(comm.split(RONDO_NO_COLOR).get() == nullptr, "no color");
  try {
    comm.broadcast(x.data(), 1, 5);
    expect(false, "a root that is no rank was taken");
  } catch (const rondo::Error &error) {
    expect(error.status() == RONDO_ERROR_INVALID_ARGUMENT, "the status of a refused call");
    expect(std::string(error.what()).find("root") != std::string::npos, error.what());
  }
}

/* Rank 1 leaves its scope by an exception. That aborts its communicator, so that rank 0 does not wait. */
void unwinding(rondo::Communicator comm) {
  const int rank = comm.rank();
  try {
    const rondo::Communicator held = std::move(comm);
    held.barrier();
    if (rank == 1) throw std::runtime_error("leaves");
    float x = 0;
    held.all_reduce(&x, &x, 1);
    expect(false, "nobody has joined");
  } catch (const rondo::Error &error) {
    expect(error.status() == RONDO_ERROR_ABORTED || error.status() == RONDO_ERROR_REMOTE, error.what());
    expect(rank == 0, "the wrong rank has failed");
  } catch (const std::runtime_error &error) {
    expect(rank == 1, error.what());
  }
}

} // namespace

int main() {
  rondo_comm_t comms[2];
  std::string wrong[2];
  rondo::check(rondo_comm_init_all(comms, 2, nullptr));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&wrong, comm = comms[rank], rank] {
      try {
        rondo::Communicator held(comm);
        collectives(held);
        handles(held);
        unwinding(std::move(held));
      } catch (const std::exception &error) {
        wrong[rank] = error.what();
      }
    });
  }
  for (std::thread &rank : ranks) rank.join();
  rondo_unique_id_t id;
  rondo::check(rondo_get_unique_id(&id, nullptr));
  const rondo::Communicator one(id, 0, 1), job = rondo::Communicator::from_environment();
  one.finalize();
  job.abort();
  std::printf("%s%s%d rank alone\n", wrong[0].c_str(), wrong[1].c_str(), one.size());
  return wrong[0].empty() && wrong[1].empty() ? 0 : 1;
}
