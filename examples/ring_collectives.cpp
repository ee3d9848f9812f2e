/* SPDX-License-Identifier: Apache-2.0
 * This example gives programs the interface of baidu-allreduce, and runs one of them. Its three functions are all that
 * such a program calls, so the program is linked with this file in place of that library, without MPI.
 *
 *     $ rondo run -n 3 -- ring_collectives
 *     rank 0 of 3: the sum is 60 120, and the ranks sent 0 1 1 2 2 2
 *     rank 1 of 3: the sum is 60 120, and the ranks sent 0 1 1 2 2 2
 *     rank 2 of 3: the sum is 60 120, and the ranks sent 0 1 1 2 2 2
 */
#include <rondo/rondo.hpp>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#define NO_DEVICE (-1)

namespace {

std::optional<rondo::Communicator> world;

const rondo::Communicator &communicator() {
  if (!world) throw std::logic_error("call InitCollectives() first");
  return *world;
}

} // namespace

/* Joins the ranks of the job. rondo run, torchrun, mpirun or srun describes this rank in the environment. */
void InitCollectives(int device) {
  // On a device, the two functions below would allocate their output by cudaMalloc().
  if (device != NO_DEVICE) throw std::invalid_argument("this example has buffers in host memory: pass NO_DEVICE");
  world.emplace(rondo::Communicator::from_environment());
}

/* Sums the vectors of all ranks. The caller frees `*output` by delete[]. */
void RingAllreduce(float *data, size_t length, float **output) {
  auto sum = std::make_unique<float[]>(length);
  communicator().all_reduce(data, sum.get(), length);
  *output = sum.release();
}

/* Collects the vectors of all ranks, whose lengths may differ. The caller frees `*output` by delete[]. */
void RingAllgather(float *data, size_t length, float **output) {
  const rondo::Communicator &comm = communicator();
  const std::uint64_t mine = length;
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&mine, lengths.data(), 1);
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  auto all = std::make_unique<float[]>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  comm.all_gather_v(data, all.get(), counts.data());
  *output = all.release();
}

/* Uses that interface as a program would. */
static int run() {
  InitCollectives(NO_DEVICE);
  const int rank = communicator().rank(), size = communicator().size();

  float data[] = {10.0F * static_cast<float>(rank + 1), 20.0F * static_cast<float>(rank + 1)}, *sum = nullptr;
  RingAllreduce(data, 2, &sum);
  std::string line = "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": the sum is " +
                     std::to_string(static_cast<int>(sum[0])) + " " + std::to_string(static_cast<int>(sum[1]));
  delete[] sum;

  std::vector<float> own(static_cast<std::size_t>(rank) + 1, static_cast<float>(rank)); // rank r sends r + 1 numbers
  float *all = nullptr;
  RingAllgather(own.data(), own.size(), &all);
  line += ", and the ranks sent";
  for (int i = 0; i < size * (size + 1) / 2; ++i) line += " " + std::to_string(static_cast<int>(all[i]));
  delete[] all;

  std::printf("%s\n", line.c_str());
  communicator().finalize();
  world.reset();
  return 0;
}

int main() {
  try {
    return run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
