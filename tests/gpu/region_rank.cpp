// SPDX-License-Identifier: Apache-2.0
// One rank of a job in which processes share registered memory of devices, for region_process_test.py: `region_rank
// STEP...`. Each step is a word of the list below. All ranks do it, or, as `1:STEP`, only rank 1. Rank r is on device r
// modulo REGION_RANK_DEVICES. It has a buffer to send and one to receive, of REGION_RANK_COUNT float32. If
// REGION_RANK_THREADS is set, each process has this number of ranks as threads, which find each other by the file
// REGION_RANK_ID. Then all of them do each step.
//     register, deregister    registers or deregisters both buffers; what a peer still has open stays registered
//     register_send           registers the send buffer alone; register_recv registers the other one
//     count=COUNT             makes later sums have this number of elements, fewer than before
//     collective=NAME         replaces later sums by the collective NAME, with as many elements; the last rank is root
//     replace                 deregisters both for good, frees them, and allocates others of another size instead
//     sum=LABEL               an all-reduce, whose result must have the bits of a sum in rank order; prints what its
//                             kernels have moved as "moved LABEL" and a figure for each pair of devices
//     plan                    prints which algorithm and kernel a sum has: "plan ALGORITHM KERNEL"
//     shared                  sums until a sum works in the buffers themselves; all ranks see this at the same sum
//     capture, replay=LABEL   captures a sum as a graph; replays the graph
//     launch                  launches that graph, and does not wait for it
//     behind                  launches that graph after a host function that takes 2 s
//     start                   begins an all-reduce, and does not wait for its end
//     end                     waits for the stream, and checks the result
//     busy                    keeps the device busy on another stream, until `idle`, for a minute at most
//     idle                    releases the device a moment later
//     failing                 a sum that fails; prints "failing STATUS SECONDS DEVICE MESSAGE" with the call's time
//     failing=NAME            does the same, and makes that file when the call begins
//     failing_end             does `end`, which must fail, and prints a line like that of `failing`
//     abort_behind=NAME       aborts the communicator a second after that file exists, while the steps continue
//     again                   destroys the communicator, whose buffers are not registered then, and makes another one
//     hold                    deregisters the first buffer, which a peer still has open
//     other                   makes another communicator
//     other_start, other_end  begins an all-reduce on the other communicator; waits for its end
//     suspend, resume         suspends or resumes the communicator
//     abort                   aborts the communicator
//     destroy                 destroys the communicator, as its last step; prints the time and the blocks of its device
//                             that the process still claims: "destroyed SECONDS DEVICE BLOCKS"
//     return                  ends the process, and does not destroy the communicator
//     kill, sleep, nap        kills the process, or sleeps; a nap takes 0.2 s
//     not_quiet               waits until something of this process is in flight, or it opens or closes peers' memory
//     post=NAME, await=NAME   makes a file of that name in the folder REGION_RANK_FOLDER; waits until it exists
// After a failure the rank deregisters both buffers and prints "at the end, deregister: STATUS".
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "cuda/driver/budget.h"
#include "src/base/names.h"
#include "src/engine/device_executor.h"
#include "tests/gpu/region_rank.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

constexpr uint32_t timeout_ms = 60'000;
constexpr std::chrono::milliseconds between_looks{20};
constexpr std::chrono::seconds event_patience{120};
constexpr int looks_not_quiet = 5;  ///< polls in sequence, because the end of work may be noticed late
constexpr std::chrono::seconds ahead_of_graph{2};
constexpr std::chrono::milliseconds before_idle{300}, before_abort{1000}, nap{200};
constexpr double in_buffers_max = 2.1;  ///< moves of each byte: 2 in buffers, 2.25 through places

int number(const char *name, int otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Waits until `ready()`. Returns a status other than RONDO_OK if it did not become true.
template <class Ready>
int wait_until(const Ready &ready) {
  const auto end = std::chrono::steady_clock::now() + event_patience;
  while (!ready()) {
    if (std::chrono::steady_clock::now() >= end) return wrong_value;
    std::this_thread::sleep_for(between_looks);
  }
  return RONDO_OK;
}

int sum_until_shared(RegionRank &it) {
  int status = RONDO_OK;
  const int waited = wait_until([&] {
    status = sum(it, nullptr, false);
    return status != RONDO_OK || it.process->moved <= in_buffers_max * it.process->thread_count;
  });
  return status != RONDO_OK ? status : waited;
}

int capture(RegionRank &it) {
  const CudaDriver &cu = *it.self.cu;
  auto *const stream = it.self.stream.get().object;
  if (cu.stream_begin_capture(stream, CaptureMode::thread_local_) != CuStatus::success) return driver_failed;
  const int status = call(it);
  CuGraph graph = nullptr;
  if (cu.stream_end_capture(stream, &graph) != CuStatus::success) return driver_failed;
  const Graph captured({&cu, it.self.context.get().context, graph});
  CuGraphExec made = nullptr;
  if (status != RONDO_OK || cu.graph_instantiate(&made, graph, 0) != CuStatus::success) return driver_failed;
  it.graph = GraphExec({&cu, it.self.context.get().context, made});
  return cu.graph_upload(made, stream) == CuStatus::success && cu.stream_synchronize(stream) == CuStatus::success
             ? int{RONDO_OK}
             : driver_failed;
}

int launch(const RegionRank &it) {
  const CuStatus launched = it.self.cu->graph_launch(it.graph.get().object, it.self.stream.get().object);
  return launched == CuStatus::success ? int{RONDO_OK} : driver_failed;
}

int launch_behind(const RegionRank &it) {
  const auto wait = [](void *) { std::this_thread::sleep_for(ahead_of_graph); };
  const CuStatus enqueued = it.self.cu->launch_host_func(it.self.stream.get().object, wait, nullptr);
  return enqueued == CuStatus::success ? launch(it) : driver_failed;
}

std::filesystem::path path_of(const char *name) {
  const char *const folder = std::getenv("REGION_RANK_FOLDER");
  return std::filesystem::path(folder == nullptr ? "" : folder) / name;
}

int post(const char *name) { return std::ofstream(path_of(name)) ? int{RONDO_OK} : wrong_value; }

int tell_failing(const RegionRank &it, int status, std::chrono::duration<double> taken) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status > RONDO_OK) static_cast<void>(rondo_comm_last_error(it.self.comm, &error));
  std::printf("failing %d %.3f %s %s\n", status, taken.count(), it.busy.is_busy() ? "busy" : "idle", error.message);
  return status > RONDO_OK ? int{RONDO_OK} : wrong_value;
}

/// Runs a sum that must fail. Unless `name` is null, makes a file of that name when the call begins.
int fail_sum(RegionRank &it, const char *name) {
  if (const int filled = fill(it); filled != RONDO_OK) return filled;
  const auto begun = std::chrono::steady_clock::now();
  if (name != nullptr && post(name) != RONDO_OK) return driver_failed;
  const int called = call(it);
  const auto taken = std::chrono::steady_clock::now() - begun;
  return tell_failing(it, called == RONDO_OK ? check(it) : called, taken);
}

int fail_end(RegionRank &it) {
  const auto begun = std::chrono::steady_clock::now();
  const int status = check(it);
  return tell_failing(it, status, std::chrono::steady_clock::now() - begun);
}

int make_again(RegionRank &it) {
  const int ended = rondo_comm_destroy(std::exchange(it.self.comm, nullptr));
  it.registrations[0] = it.registrations[1] = nullptr;
  return ended == RONDO_OK ? int{join(it.self, timeout_ms)} : ended;
}

int destroy(RegionRank &it) {
  const auto begun = std::chrono::steady_clock::now();
  const int ended = rondo_comm_destroy(std::exchange(it.self.comm, nullptr));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
  const bool busy = it.busy.is_busy();
  DeviceUuid uuid{};
  if (it.self.cu->device_get_uuid(&uuid, it.self.device) != CuStatus::success) return driver_failed;
  std::printf("destroyed %.3f %s %llu\n", taken.count(), busy ? "busy" : "idle",
              static_cast<unsigned long long>(claimed_blocks(uuid)));
  return ended;
}

int show_plan(const RegionRank &it) {
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  const rondo_status_t status =
      rondo_comm_query_plan(it.self.comm, it.collective, it.a_call().count, RONDO_FLOAT32, &plan);
  if (status == RONDO_OK)
    std::printf("plan %s %s\n", rondo_algorithm_string(plan.algorithm), rondo_kernel_string(plan.kernel));
  return status;
}

int choose(RegionRank &it, const std::string &name) {
  const auto collective = rondo::parse_name(name, rondo_collective_string, "collective");
  if (collective.ok()) it.collective = collective.value();
  return collective.ok() ? int{RONDO_OK} : driver_failed;
}

int register_one(RegionRank &it, int which) {
  const DeviceMemory &memory = which == 0 ? it.self.buffer : it.recv;
  return rondo_comm_register(it.self.comm, it.pointer(memory), it.bytes(), 0, &it.registrations[which]);
}

int register_both(RegionRank &it) {
  const int status = register_one(it, 0);
  return status == RONDO_OK ? register_one(it, 1) : status;
}

enum class Patience { once, until_ready };

/// Ends both registrations. With `once`, one that is not ready is kept, and tried again before its memory is freed.
int deregister_both(RegionRank &it, Patience patience) {
  for (rondo_registration_t &registration : it.registrations) {
    if (registration == nullptr) continue;
    int status = rondo_comm_deregister(it.self.comm, registration);
    if (status == RONDO_NOT_READY && patience == Patience::once) continue;
    static_cast<void>(wait_until([&] {
      if (status == RONDO_NOT_READY) status = rondo_comm_deregister(it.self.comm, registration);
      return status != RONDO_NOT_READY;
    }));
    if (status != RONDO_OK) return status;
    registration = nullptr;
  }
  return RONDO_OK;
}

int replace(RegionRank &it) {
  if (const int ended = deregister_both(it, Patience::until_ready); ended != RONDO_OK) return ended;
  it.self.count += 1'000;
  for (DeviceMemory *const memory : {&it.self.buffer, &it.recv}) {
    memory->reset();
    auto made = allocate_device_memory(it.self.context, it.bytes());
    if (!made.ok()) return driver_failed;
    *memory = std::move(made).value();
  }
  return RONDO_OK;
}

/// Checks that a peer that waits in a collective for this rank cannot close the memory that this rank has shared.
int hold(RegionRank &it) {
  const int first = rondo_comm_deregister(it.self.comm, it.registrations[0]);
  std::printf("deregister: %s\n", rondo_status_string(static_cast<rondo_status_t>(first)));
  return first == RONDO_NOT_READY ? int{RONDO_OK} : wrong_value;
}

int make_other(RegionRank &it) {
  auto stream = make_stream(it.self.context);
  auto buffer = allocate_device_memory(it.self.context, it.bytes());
  if (!stream.ok() || !buffer.ok()) return driver_failed;
  it.other_stream = std::move(stream).value();
  it.other_buffer = std::move(buffer).value();
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = it.self.device;
  return rondo_comm_init_env(&it.other, &config);
}

int start_other(const RegionRank &it) {
  void *const pointer = it.pointer(it.other_buffer);
  return rondo_all_reduce(pointer, pointer, it.self.count, RONDO_FLOAT32, RONDO_SUM, it.other,
                          it.other_stream.get().object);
}

int end_other(const RegionRank &it) {
  const CuStatus ended = it.self.cu->stream_synchronize(it.other_stream.get().object);
  rondo_status_t state = RONDO_OK;
  if (rondo_comm_get_async_error(it.other, &state) != RONDO_OK || state != RONDO_OK) return state;
  return ended == CuStatus::success ? int{RONDO_OK} : driver_failed;
}

int wait_until_not_quiet() {
  int looks = 0;
  return wait_until([&] {
    looks = rondo::Launches::of_process().try_quiet().owns_lock() ? 0 : looks + 1;
    return looks == looks_not_quiet;
  });
}

int wait_for(const char *name) {
  return wait_until([name] { return std::filesystem::exists(path_of(name)); });
}

int abort_behind(RegionRank &it, const std::string &name) {
  it.busy.run_later({}, [name, comm = it.self.comm] {
    static_cast<void>(wait_for(name.c_str()));
    std::this_thread::sleep_for(before_abort);
    rondo_comm_abort(comm);
  });
  return RONDO_OK;
}

int run_step(RegionRank &it, const std::string &step) {
  const auto label = [&] { return step.c_str() + step.find('=') + 1; };
  if (step == "register") return register_both(it);
  if (step == "register_send") return register_one(it, 0);
  if (step == "register_recv") return register_one(it, 1);
  if (step == "deregister") return deregister_both(it, Patience::once);
  if (step.starts_with("count=")) return it.self.count = std::strtoull(label(), nullptr, 10), int{RONDO_OK};
  if (step.starts_with("collective=")) return choose(it, label());
  if (step == "replace") return replace(it);
  if (step.starts_with("sum=")) return sum(it, label(), false);
  if (step == "plan") return show_plan(it);
  if (step == "shared") return sum_until_shared(it);
  if (step == "capture") return capture(it);
  if (step.starts_with("replay=")) return sum(it, label(), true);
  if (step == "launch") return launch(it);
  if (step == "behind") return launch_behind(it);
  if (step == "start") return fill(it) == RONDO_OK ? call(it) : driver_failed;
  if (step == "end") return check(it);
  if (step == "busy") return it.busy.begin(*it.self.cu, it.self.context) ? int{RONDO_OK} : driver_failed;
  if (step == "idle") return it.busy.run_later(before_idle, [&it] { it.busy.go_on(); }), int{RONDO_OK};
  if (step == "failing") return fail_sum(it, nullptr);
  if (step.starts_with("failing=")) return fail_sum(it, label());
  if (step == "failing_end") return fail_end(it);
  if (step.starts_with("abort_behind=")) return abort_behind(it, label());
  if (step == "again") return make_again(it);
  if (step == "hold") return hold(it);
  if (step == "other") return make_other(it);
  if (step == "other_start") return start_other(it);
  if (step == "other_end") return end_other(it);
  if (step == "suspend") return rondo_comm_suspend(it.self.comm, RONDO_SUSPEND_MEMORY);
  if (step == "resume") return rondo_comm_resume(it.self.comm);
  if (step == "abort") return rondo_comm_abort(it.self.comm);
  if (step == "destroy") return destroy(it);
  if (step == "return") return std::fflush(stdout), std::_Exit(0), int{RONDO_OK};
  if (step == "kill") return ::raise(SIGKILL);
  if (step == "not_quiet") return wait_until_not_quiet();
  if (step.starts_with("post=")) return post(label());
  if (step.starts_with("await=")) return wait_for(label());
  if (step == "nap") return std::this_thread::sleep_for(nap), int{RONDO_OK};
  if (step == "sleep") return std::this_thread::sleep_for(std::chrono::seconds(1)), int{RONDO_OK};
  std::fprintf(stderr, "unknown step %s\n", step.c_str());
  return driver_failed;
}

/// Joins ranks that are threads, by an id that the first process writes.
int join_threads(DeviceProcess &self, int rank, int size, const std::string &path) {
  rondo_unique_id_t id{};
  if (rank == 0) {
    if (const rondo_status_t made = rondo_get_unique_id(&id, nullptr); made != RONDO_OK) return made;
    std::ofstream(path + ".new", std::ios::binary).write(reinterpret_cast<const char *>(&id), sizeof id);
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) return driver_failed;
  }
  const int read = wait_until([&] {
    return static_cast<bool>(std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(&id), sizeof id));
  });
  if (read != RONDO_OK) return read;
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = self.device;
  config.timeout_ms = timeout_ms;
  self.rank = rank;
  self.size = size;
  return rondo_comm_init(&self.comm, &id, rank, size, &config);
}

/// Runs a rank from its beginning to its end.
int run_rank(Process &process, int thread, const std::vector<std::string> &steps) {
  RegionRank it;
  it.process = &process;
  it.thread = thread;
  DeviceProcess &self = it.self;
  const int rank = number("RANK", number("RONDO_RANK", 0)) * process.thread_count + thread;
  self.device = rank % number("REGION_RANK_DEVICES", 1);
  if (!set_up(self, static_cast<size_t>(number("REGION_RANK_COUNT", 300'001))).ok()) return 2;
  const char *const id_path = std::getenv("REGION_RANK_ID");
  int outcome = id_path == nullptr
                    ? join(self, static_cast<uint32_t>(number("REGION_RANK_TIMEOUT_MS", timeout_ms)))
                    : join_threads(self, rank, number("WORLD_SIZE", 1) * process.thread_count, id_path);
  const bool made = outcome == RONDO_OK;
  const ContextGuard guard(*self.cu, self.context.get().context);
  auto recv = allocate_device_memory(self.context, it.bytes());
  if (!recv.ok()) return 2;
  it.recv = std::move(recv).value();
  for (std::string step : steps) {
    if (outcome != RONDO_OK) break;
    if (const auto colon = step.find(':'); colon != std::string::npos) {
      if (std::atoi(step.c_str()) != self.rank) continue;
      step.erase(0, colon + 1);
    }
    outcome = run_step(it, step);
    if (outcome != RONDO_OK) std::printf("at the step %s\n", step.c_str());
  }
  report(self, outcome);
  it.busy.go_on();
  if (made && outcome != RONDO_OK)
    std::printf("at the end, deregister: %s\n",
                rondo_status_string(static_cast<rondo_status_t>(deregister_both(it, Patience::until_ready))));
  for (rondo_comm_t comm : {self.comm, it.other})
    if (comm != nullptr) static_cast<void>(rondo_comm_destroy(comm));
  return outcome == RONDO_OK ? 0 : 1;
}

}  // namespace

int main(int argument_count, char **arguments) {
  const std::vector<std::string> steps(arguments + 1, arguments + argument_count);
  Process process(number("REGION_RANK_THREADS", 1));
  std::atomic<int> status = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < process.thread_count; ++thread)
    threads.emplace_back([&, thread] {
      const int own = run_rank(process, thread, steps);
      if (own == 0) return;
      status = own;
      process.together.arrive_and_drop();  // the other ranks continue without it
    });
  for (std::thread &thread : threads) thread.join();
  return status;
}
