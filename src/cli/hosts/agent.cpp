// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/base/names.h"
#include "src/cli/commands.h"
#include "src/cli/hosts/frames.h"
#include "src/cli/run/children.h"
#include "src/cli/run/launch.h"
#include "src/cli/run/lines.h"
#include "src/cli/run/program.h"
#include "src/cli/run/recorder.h"
#include "src/cli/run/store.h"

namespace rondo::cli {
namespace {

constexpr uint64_t launcher_silence_ns = 60'000'000'000;  // long, because a stopped launcher is silent, too
constexpr uint64_t drain_limit_ns = 1'000'000'000;        // for pipes that an unkillable process holds open
constexpr size_t output_read_bytes = 16 * 1024;

/// One output or error stream of a rank.
struct RankPipe {
  FileDescriptor descriptor;
  FrameKind kind = FrameKind::output;
  std::optional<LineTagger> tagger;
};

class Agent {
 public:
  Agent(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}
  int run();

 private:
  void wait_for_events();
  void read_launcher();
  void obey(const Frame &frame);
  void prepare(const Frame &frame);
  void make_store();
  void start_ranks(const std::string &store);
  void give_order(Order::Kind kind, int signal, uint64_t grace_ns);
  void take_signals();
  void take_reports();
  void read_outputs();
  void read_output(RankPipe &pipe);
  void close_output(RankPipe &pipe);
  void tell_end();
  void keep_in_touch();
  void refuse(int exit_status, const std::string &message);
  void kill_all();

  FileDescriptor in_;
  FileDescriptor out_;
  FrameReader reader_{FrameReader::Start::at_once};
  FrameWriter writer_;
  HostPlan plan_;
  Launched launched_;
  std::vector<RankPipe> pipes_;
  std::deque<Order> orders_;
  std::unique_ptr<StoreServer> store_;
  std::vector<pollfd> events_;
  uint64_t heard_ns_ = now_ns();
  uint64_t next_alive_ns_ = 0;
  uint64_t drain_until_ns_ = 0;  ///< end of the wait for the last output; 0 while ranks run
  uint32_t left_count_ = 0;
  bool launcher_rests_ = false;
  bool told_end_ = false;
  bool over_ = false;
};

void Agent::wait_for_events() {
  events_.clear();
  events_.push_back({in_.get(), POLLIN, 0});
  events_.push_back({writer_.pending() ? out_.get() : -1, POLLOUT, 0});
  events_.push_back({launched_.control.get(), static_cast<short>(POLLIN | (orders_.empty() ? 0 : POLLOUT)), 0});
  events_.push_back({launched_.signals.get(), POLLIN, 0});
  for (const RankPipe &pipe : pipes_) events_.push_back({writer_.full() ? -1 : pipe.descriptor.get(), POLLIN, 0});
  const bool draining = drain_until_ns_ != 0 && !told_end_;
  ::poll(events_.data(), events_.size(), draining ? 20 : static_cast<int>(alive_interval_ns / 1'000'000));
}

void Agent::refuse(int exit_status, const std::string &message) {
  writer_.add(FrameKind::failed, encode_failure(exit_status, message));
}

void Agent::read_launcher() {
  if (events_[0].revents == 0) return;
  if (!reader_.read_some(in_.get())) {
    over_ = true;  // the launcher or the connection to it has ended
    return;
  }
  while (const auto frame = reader_.next()) {  // bounded by what was read
    heard_ns_ = now_ns();
    launcher_rests_ = frame->kind == FrameKind::rest;
    obey(*frame);
  }
}

void Agent::obey(const Frame &frame) {
  ByteReader body(frame.body);
  switch (frame.kind) {
    case FrameKind::plan: return prepare(frame);
    case FrameKind::serve: return make_store();
    case FrameKind::start: return start_ranks(text_of(body.rest()));
    case FrameKind::signal: return give_order(Order::Kind::signal, static_cast<int>(body.number<uint32_t>()), 0);
    case FrameKind::end:
      record_job(recorder_folder(plan_.environment),
                 [this](const std::string &message) { writer_.add(FrameKind::say, message); });
      return give_order(Order::Kind::end, 0, body.number<uint64_t>());
    case FrameKind::ended:
      if (const auto end = decode_rank_end(frame.body); end && store_ != nullptr) store_->rank_ended(end->rank);
      return;
    default: return;
  }
}

/// Checks everything that can be wrong on this host, before any rank is started on any host.
void Agent::prepare(const Frame &frame) {
  auto decoded = decode_plan(frame.body);
  if (!decoded || launched_.guard != 0) return refuse(exit_failed, "the launcher sent no plan of this version");
  plan_ = std::move(*decoded);
  for (const std::string &entry : plan_.environment) {
    const size_t name_size = std::min(entry.find('='), entry.size());
    ::setenv(entry.substr(0, name_size).c_str(), entry.substr(std::min(name_size + 1, entry.size())).c_str(), 1);
  }
  if (::chdir(plan_.folder.c_str()) != 0)
    return refuse(exit_failed, "cannot work in " + plan_.folder + ": " + std::strerror(errno) +
                                   "; start rondo run in a folder that all hosts have");
  const char *search_path = std::getenv("PATH");
  ProgramLookup program = find_program(plan_.command.front(), search_path != nullptr ? search_path : "/bin:/usr/bin");
  if (program.path.empty()) return refuse(program.exit_status, program.message);
  LaunchPlan plan;
  plan.options.rank_count = plan_.rank_count;
  plan.options.tag_output = true;  // so that the streams are pipes to this process
  plan.options.grace_ns = plan_.grace_ns;
  plan.options.environment = plan_.environment;
  plan.options.command = plan_.command;
  plan.options.bind = plan_.bind;
  plan.program_path = std::move(program.path);
  plan.first_rank = plan_.first_rank;
  plan.job_rank_count = plan_.job_rank_count;
  if (const auto divided = divide_processors(plan); !divided.ok())
    return refuse(exit_failed, divided.error().message);
  auto launched = launch_guard(std::move(plan));
  if (!launched.ok()) return refuse(exit_failed, "the job cannot be started: " + launched.error().message);
  launched_ = std::move(launched).value();
  for (uint32_t rank = 0; rank < plan_.rank_count; ++rank) {
    std::optional<LineTagger> tagger;
    if (plan_.tag_output) tagger.emplace("[" + std::to_string(plan_.first_rank + rank) + "] ");
    pipes_.push_back({std::move(launched_.streams.output[rank]), FrameKind::output, tagger});
    pipes_.push_back({std::move(launched_.streams.error[rank]), FrameKind::error, tagger});
  }
  writer_.add(FrameKind::ready);
}

void Agent::make_store() {
  auto store = start_job_store_for_hosts(plan_.secret);
  if (!store.ok())
    return refuse(exit_failed, "the store for the ranks cannot be started: " + store.error().message);
  store_ = std::move(store.value().server);
  writer_.add(FrameKind::store, std::string_view(store.value().start.store.data()));
}

void Agent::start_ranks(const std::string &store) {
  orders_.push_back(start_order(store, plan_.secret));
}

void Agent::give_order(Order::Kind kind, int signal, uint64_t grace_ns) {
  Order order;
  order.kind = kind;
  order.signal = signal;
  order.grace_ns = grace_ns;
  orders_.push_back(order);
}

void Agent::take_signals() {
  signalfd_siginfo info;
  while (launched_.signals.valid() &&
         ::read(launched_.signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    int status = 0;
    if (number == SIGCHLD && ::waitpid(launched_.guard, &status, WNOHANG | WUNTRACED) == launched_.guard &&
        WIFSTOPPED(status))
      ::kill(launched_.guard, SIGCONT);
    if (number != SIGTERM && number != SIGINT) continue;
    refuse(128 + number, std::string("rondo run was ended there: ") + ::strsignal(number));
    kill_all();
  }
}

void Agent::take_reports() {
  Report report;
  while (launched_.control.valid()) {  // ends when the queue, which is bounded, is empty
    const Received received = receive_report(launched_.control.get(), &report);
    if (received == Received::nothing) return;
    if (received == Received::closed) {
      launched_.control.reset();
      if (drain_until_ns_ != 0) return;
      refuse(137, "the guard process of that host was killed; its ranks are killed, too");
      return kill_all();
    }
    if (report.kind == Report::Kind::rank_ended) {
      report.end.rank += plan_.first_rank;
      writer_.add(FrameKind::ended, encode(report.end));
    } else {
      left_count_ = report.left_count;
      drain_until_ns_ = now_ns() + drain_limit_ns;
    }
  }
}

void Agent::close_output(RankPipe &pipe) {
  pipe.descriptor.reset();
  std::string lines;
  if (pipe.tagger) pipe.tagger->finish(&lines);
  if (!lines.empty()) writer_.add(pipe.kind, lines);
}

void Agent::read_output(RankPipe &pipe) {
  std::array<char, output_read_bytes> buffer;
  const ssize_t got_bytes = ::read(pipe.descriptor.get(), buffer.data(), buffer.size());
  if (got_bytes < 0 && is_temporary(errno)) return;
  if (got_bytes <= 0) return close_output(pipe);
  const std::string_view text(buffer.data(), static_cast<size_t>(got_bytes));
  std::string lines;
  if (pipe.tagger) pipe.tagger->take(text, &lines);
  if (!pipe.tagger) lines = text;
  if (!lines.empty()) writer_.add(pipe.kind, lines);
}

void Agent::read_outputs() {
  constexpr size_t first = 4;  // index of the first pipe's event
  for (size_t index = 0; index < pipes_.size() && first + index < events_.size(); ++index)
    if (pipes_[index].descriptor.valid() && events_[first + index].revents != 0) read_output(pipes_[index]);
}

/// Reports that all ranks have ended. Before that, it passes on their last output.
void Agent::tell_end() {
  if (drain_until_ns_ == 0 || told_end_) return;
  const bool open =
      std::any_of(pipes_.begin(), pipes_.end(), [](const RankPipe &pipe) { return pipe.descriptor.valid(); });
  if (writer_.full()) drain_until_ns_ = now_ns() + drain_limit_ns;  // the reader may be slow
  if (open && now_ns() < drain_until_ns_) return;
  for (RankPipe &pipe : pipes_)
    if (pipe.descriptor.valid()) close_output(pipe);
  Bytes body;
  append_number(body, left_count_);
  writer_.add(FrameKind::all_ended, body);
  told_end_ = true;  // the launcher closes the connection after all hosts have ended
}

void Agent::keep_in_touch() {
  const uint64_t now = now_ns();
  if (now >= next_alive_ns_) {
    next_alive_ns_ = now + alive_interval_ns;
    if (!writer_.full()) writer_.add(FrameKind::alive);
  }
  if (!launcher_rests_ && now - heard_ns_ > launcher_silence_ns) over_ = true;
}

void Agent::kill_all() {
  const uint32_t left_count = kill_children(now_ns() + run_kill_limit_ns, [](pid_t, int) {});
  if (drain_until_ns_ == 0) left_count_ = left_count;
  if (drain_until_ns_ == 0) drain_until_ns_ = now_ns() + drain_limit_ns;
}

int Agent::run() {
  writer_.greet();
  writer_.add(FrameKind::hello, version_text());
  while (!over_) {  // bounded by the launcher's life, or its silence
    wait_for_events();
    read_launcher();
    take_signals();
    take_reports();
    read_outputs();
    tell_end();
    keep_in_touch();
    while (!orders_.empty() && launched_.control.valid() && send_order(launched_.control.get(), orders_.front()))
      orders_.pop_front();
    if (!writer_.write_some(out_.get())) over_ = true;
  }
  kill_all();
  return 0;
}

}  // namespace

int run_agent() {
  FileDescriptor in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  FileDescriptor out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!in.valid() || !out.valid() || !null.valid()) return exit_failed;
  // The ranks inherit /dev/null in place of the connection to the launcher, so they cannot disturb its frames.
  if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(null.get(), STDOUT_FILENO) < 0) return exit_failed;
  for (const int descriptor : {in.get(), out.get()})
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  return Agent(std::move(in), std::move(out)).run();
}

}  // namespace rondo::cli
