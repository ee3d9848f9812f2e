// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/supervisor.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/cli/run/children.h"
#include "src/cli/run/launch.h"
#include "src/cli/run/recorder.h"
#include "src/cli/run/store.h"

namespace rondo::cli {
namespace {

constexpr uint64_t quiet_limit_ns = 1'000'000'000;     // for pipes that an unkillable process holds open
constexpr uint64_t cut_short_limit_ns = 2'000'000'000;  // for a reader of the output, after the user ended the job
constexpr size_t order_count_max = 64;                  // signals for a guard that does not read; more are dropped

Order signal_order(int number) {
  Order order;
  order.kind = Order::Kind::signal;
  order.signal = number;
  return order;
}

Order end_order(uint64_t grace_ns) {
  Order order;
  order.kind = Order::Kind::end;
  order.grace_ns = grace_ns;
  return order;
}

class Supervisor {
 public:
  Supervisor(Launched launched, Job::Options options, std::string recorder_folder, StoreServer &store)
      : launched_(std::move(launched)),
        streams_(std::move(launched_.streams)),
        job_(std::move(options), now_ns()),
        recorder_folder_(std::move(recorder_folder)),
        store_(store) {}

  int run(const Order &start);

 private:
  void wait_for_events();
  void take_signals();
  void take_reports();
  void look_after_guard();
  void lose_guard();
  void act();
  void send_orders();
  void take_over();
  [[nodiscard]] bool finished();
  [[nodiscard]] uint64_t next_deadline_ns() const;

  Launched launched_;
  Streams streams_;
  Job job_;
  std::string recorder_folder_;  // empty: no recording, or there is one already
  StoreServer &store_;
  std::vector<pollfd> events_;
  std::deque<Order> orders_;  // not yet sent
  std::optional<int> guard_status_;
  uint64_t over_deadline_ns_ = run_no_deadline;
  bool output_abandoned_ = false;
};

void Supervisor::wait_for_events() {
  events_.clear();
  events_.push_back({launched_.control.get(), static_cast<short>(POLLIN | (orders_.empty() ? 0 : POLLOUT)), 0});
  events_.push_back({launched_.signals.get(), POLLIN, 0});
  streams_.add_interests(&events_);
  const uint64_t deadline_ns = next_deadline_ns();
  const uint64_t now = now_ns();
  constexpr uint64_t longest_ns = 60'000'000'000;
  const uint64_t wait_time_ns = deadline_ns <= now ? 0 : std::min(deadline_ns - now, longest_ns);
  ::poll(events_.data(), events_.size(), static_cast<int>((wait_time_ns + 999'999) / 1'000'000));
}

uint64_t Supervisor::next_deadline_ns() const {
  return job_.over() ? over_deadline_ns_ : job_.next_deadline_ns();
}

/// Continues a guard that was stopped, because a stopped guard notices nothing and ends nothing.
void Supervisor::look_after_guard() {
  int status = 0;
  if (guard_status_.has_value() || ::waitpid(launched_.guard, &status, WNOHANG | WUNTRACED) != launched_.guard) return;
  if (WIFSTOPPED(status))
    ::kill(launched_.guard, SIGCONT);
  else
    guard_status_ = status;
}

void Supervisor::take_signals() {
  signalfd_siginfo info;
  while (::read(launched_.signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      look_after_guard();
      continue;
    }
    if (number == SIGCONT) streams_.resume_input();
    if (job_.over() && number != SIGCONT && number != SIGTSTP) output_abandoned_ = true;
    job_.signal(number, now_ns());
  }
}

/// Handles a closed control socket. Before all_ended, this means that the guard died; its status says how.
void Supervisor::lose_guard() {
  launched_.control.reset();
  if (job_.over()) return;
  take_over();
  job_.guard_lost(guard_status_.value_or(SIGKILL));
}

void Supervisor::take_reports() {
  Report report;
  while (launched_.control.valid()) {  // ends when the queue, which is bounded, is empty
    switch (receive_report(launched_.control.get(), &report)) {
      case Received::nothing: return;
      case Received::closed: lose_guard(); return;
      case Received::message: break;
    }
    if (report.kind == Report::Kind::rank_ended) {
      store_.rank_ended(report.end.rank);  // ranks that wait for this one to initialise must fail
      job_.rank_ended(report.end, now_ns());
    } else {
      job_.all_ended(report.left_count);
    }
  }
}

/// Ends the guard and all processes below this process, which inherits the processes that the guard leaves.
void Supervisor::take_over() {
  const uint32_t left_count = kill_children(now_ns() + run_kill_limit_ns, [this](pid_t pid, int status) {
    if (pid == launched_.guard) guard_status_ = status;
  });
  if (left_count != 0) streams_.say(std::to_string(left_count) + " processes of the job could not be killed");
}

void Supervisor::send_orders() {
  while (!orders_.empty() && send_order(launched_.control.get(), orders_.front())) orders_.pop_front();
}

void Supervisor::act() {
  const JobActions actions = job_.take_actions();
  for (const std::string &message : actions.messages) streams_.say(message);
  for (const int number : actions.forward)
    if (orders_.size() < order_count_max) orders_.push_back(signal_order(number));
  if (actions.end_grace_ns.has_value()) {
    record_job(std::exchange(recorder_folder_, {}), [this](const std::string &message) { streams_.say(message); });
    orders_.push_back(end_order(*actions.end_grace_ns));
  }
  send_orders();
  if (actions.take_over) take_over();
  if (actions.stop_self) ::kill(::getpid(), SIGSTOP);
}

/// Says whether all output has been passed on. A reader may take any time to read it, unless the job was cut short. If
/// only open pipes are left, they get one more second, because no rank is left.
bool Supervisor::finished() {
  if (!job_.over()) return false;
  const bool pending = streams_.output_pending();
  if (output_abandoned_ || (!pending && !streams_.pipes_open())) return true;
  const uint64_t now = now_ns();
  if (pending && !job_.was_cut_short()) {
    over_deadline_ns_ = run_no_deadline;
  } else if (over_deadline_ns_ == run_no_deadline) {
    over_deadline_ns_ = now + (pending ? cut_short_limit_ns : quiet_limit_ns);
  }
  if (now < over_deadline_ns_) return false;
  if (pending || !streams_.pipes_open()) return true;
  streams_.finish_pipes();
  over_deadline_ns_ = run_no_deadline;
  return false;
}

int Supervisor::run(const Order &start) {
  orders_.push_back(start);
  send_orders();
  while (!finished()) {  // ends at the job's deadlines; without any, when the ranks end
    wait_for_events();
    take_signals();
    take_reports();
    streams_.ready(&events_[2]);
    if (const int error_number = streams_.take_write_error(); error_number != 0)
      job_.failed(std::string("the output cannot be written: ") + std::strerror(error_number), now_ns());
    job_.time_passed(now_ns());
    act();
  }
  // The guard is about to exit. The launcher waits for that, so that it does not end before the guard.
  [[maybe_unused]] const uint32_t left_count = kill_children(now_ns() + run_kill_limit_ns, [](pid_t, int) {});
  return job_.exit_status();
}

}  // namespace

int supervise(LaunchPlan plan) {
  const Job::Options options{.rank_count = plan.options.rank_count,
                             .program = plan.program_path,
                             .timeout_ns = plan.options.timeout_ns,
                             .grace_ns = plan.options.grace_ns,
                             .keep_going = plan.options.keep_going};
  std::string folder = recorder_folder(plan.options.environment);
  auto launched = launch_guard(std::move(plan));
  if (!launched.ok()) return refuse_run("the job cannot be started: " + launched.error().message);
  const auto store = start_job_store();  // its thread starts after the fork; a guard without a launcher ends itself
  if (!store.ok()) return refuse_run("the store for the ranks cannot be started: " + store.error().message);
  Supervisor supervisor(std::move(launched).value(), options, std::move(folder), *store.value().server);
  return supervisor.run(store.value().start);
}

}  // namespace rondo::cli
