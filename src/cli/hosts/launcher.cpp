// SPDX-License-Identifier: Apache-2.0
#include "src/cli/hosts/launcher.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "src/base/clock.h"
#include "src/base/names.h"
#include "src/bootstrap/launch/environment.h"
#include "src/cli/hosts/connection.h"
#include "src/cli/run/children.h"
#include "src/cli/run/launch.h"
#include "src/cli/run/streams.h"

namespace rondo::cli {
namespace {

constexpr uint64_t ready_limit_ns = 30'000'000'000;   // from starting ssh until all hosts are ready
constexpr uint64_t silence_limit_ns = 15'000'000'000;  // an agent sends something every alive_interval_ns
constexpr uint64_t farewell_ns = 2'000'000'000;       // for ssh to end after its agent, and for output to be read
constexpr size_t events_of_connection = 3;

class HostsLauncher {
 public:
  HostsLauncher(const RunOptions &options, std::vector<HostConnection> hosts, FileDescriptor signals, Job::Options job)
      : options_(options),
        hosts_(std::move(hosts)),
        signals_(std::move(signals)),
        streams_(LauncherStreams{}),
        job_(std::move(job), now_ns()),
        secret_(format_secret(random_secret())),
        ready_deadline_ns_(now_ns() + (options.timeout_ns == 0 ? ready_limit_ns
                                                               : std::min(ready_limit_ns, options.timeout_ns))) {}
  int run();

 private:
  void wait_for_events();
  void take_signals();
  void read_hosts();
  void take(HostConnection &host, const Frame &frame);
  void send_plan(HostConnection &host, const std::string &version);
  void host_failed(HostConnection &host, int status, const std::string &why);
  void host_lost(HostConnection &host, const std::string &why);
  void look_for_silence();
  void advance();
  void act();
  void send_all(FrameKind kind, ByteView body = {});
  void write_hosts();
  [[nodiscard]] bool finished();
  [[nodiscard]] uint32_t count(HostConnection::Phase phase) const;
  [[nodiscard]] std::string name_unready() const;

  const RunOptions &options_;
  std::vector<HostConnection> hosts_;
  FileDescriptor signals_;
  Streams streams_;
  Job job_;
  const std::string secret_;
  const uint64_t ready_deadline_ns_;
  std::vector<pollfd> events_;
  std::string store_;
  uint64_t next_alive_ns_ = 0;
  uint64_t leave_at_ns_ = run_no_deadline;
  uint32_t left_count_ = 0;
  std::optional<int> refused_status_;  ///< set if nothing was started, and nothing will be
  bool met_ = false;                   ///< the first host was asked to run the store
  bool started_ = false;
};

uint32_t HostsLauncher::count(HostConnection::Phase phase) const {
  return static_cast<uint32_t>(std::count_if(hosts_.begin(), hosts_.end(), [phase](const HostConnection &host) {
    return host.phase == phase;
  }));
}

void HostsLauncher::wait_for_events() {
  events_.clear();
  streams_.add_interests(&events_);
  events_.push_back({signals_.get(), POLLIN, 0});
  for (const HostConnection &host : hosts_) {
    events_.push_back({host.writer.pending() ? host.to.get() : -1, POLLOUT, 0});
    events_.push_back({streams_.output_full() ? -1 : host.from.get(), POLLIN, 0});
    events_.push_back({host.said.get(), POLLIN, 0});
  }
  const uint64_t now = now_ns();
  uint64_t deadline_ns = std::min({now + alive_interval_ns, leave_at_ns_, job_.next_deadline_ns()});
  if (!started_) deadline_ns = std::min(deadline_ns, ready_deadline_ns_);
  const uint64_t wait_time_ns = deadline_ns <= now ? 0 : deadline_ns - now;
  ::poll(events_.data(), events_.size(), static_cast<int>((wait_time_ns + 999'999) / 1'000'000));
}

void HostsLauncher::take_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    const bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    if (!started_ && ends) {
      refused_status_ = 128 + number;
    } else if (started_ && number != SIGCHLD) {
      if (job_.over() && ends) leave_at_ns_ = now_ns();
      job_.signal(number, now_ns());
    }
  }
}

/// Handles a failure of a host. Before the start, the host cannot take part in the job. After the start, the job
/// fails.
void HostsLauncher::host_failed(HostConnection &host, int status, const std::string &why) {
  if (started_) return job_.failed("host " + host.share.host + ": " + why, now_ns());
  if (!refused_status_ || host.phase != HostConnection::Phase::lost)
    streams_.say("host " + host.share.host + ": " + why);
  if (!refused_status_) refused_status_ = status;
}

void HostsLauncher::host_lost(HostConnection &host, const std::string &why) {
  if (!host.alive()) return;
  if (!(refused_status_ && host.phase == HostConnection::Phase::preparing)) host_failed(host, exit_failed, why);
  host.phase = HostConnection::Phase::lost;
  host.to.reset();
  host.from.reset();
  ::kill(host.ssh, SIGTERM);  // a hanging ssh would hold the connection, and the agent with it
}

void HostsLauncher::send_plan(HostConnection &host, const std::string &version) {
  if (version != version_text())
    return host_lost(host, "the rondo there has version " + version + ", this one " + version_text());
  HostPlan plan;
  plan.first_rank = host.first_rank;
  plan.rank_count = host.share.rank_count;
  plan.job_rank_count = options_.rank_count;
  plan.tag_output = options_.tag_output;
  plan.bind = options_.bind;
  plan.grace_ns = options_.grace_ns;
  plan.folder = std::filesystem::current_path();
  plan.secret = secret_;
  for (char **each = environ; *each != nullptr; ++each)
    if (is_setting_for_ranks(*each)) plan.environment.emplace_back(*each);
  plan.environment.insert(plan.environment.end(), options_.environment.begin(), options_.environment.end());
  plan.command = options_.command;
  host.writer.add(FrameKind::plan, encode(plan));
  host.phase = HostConnection::Phase::preparing;
}

void HostsLauncher::take(HostConnection &host, const Frame &frame) {
  ByteReader body(frame.body);
  switch (frame.kind) {
    case FrameKind::hello: return send_plan(host, text_of(body.rest()));
    case FrameKind::ready: host.phase = HostConnection::Phase::ready; return;
    case FrameKind::store: store_ = text_of(body.rest()); return;
    case FrameKind::output: return streams_.pass_on(text_of(body.rest()), /*is_error=*/false);
    case FrameKind::error: return streams_.pass_on(text_of(body.rest()), /*is_error=*/true);
    case FrameKind::say: return streams_.say("host " + host.share.host + ": " + text_of(body.rest()));
    case FrameKind::failed: {
      const auto status = static_cast<int>(body.number<uint32_t>());
      host_failed(host, status, text_of(body.rest()));
      if (!started_) host.phase = HostConnection::Phase::lost;
      return;
    }
    case FrameKind::ended:
      if (const auto end = decode_rank_end(frame.body); end && end->rank < options_.rank_count) {
        hosts_.front().writer.add(FrameKind::ended, frame.body);  // for the store, so that no rank waits for this one
        job_.rank_ended(*end, now_ns());
      }
      return;
    case FrameKind::all_ended:
      left_count_ += body.number<uint32_t>();
      host.phase = HostConnection::Phase::ended;
      return;
    default: return;
  }
}

void HostsLauncher::read_hosts() {
  const pollfd *events = &events_[streams_.interest_count() + 1];
  for (HostConnection &host : hosts_) {
    if (events[2].revents != 0) host.read_complaint();
    if (events[1].revents != 0 && host.from.valid()) {
      const bool open = host.reader.read_some(host.from.get());
      while (const auto frame = host.reader.next()) take(host, *frame);  // bounded by what was read
      host.heard_ns = now_ns();
      if (!open) {
        if (host.alive()) host_lost(host, host.why_lost(options_.remote_rondo));
        host.from.reset();
        host.to.reset();
      }
    }
    events += events_of_connection;
  }
}

/// Gives up on silent hosts. While the output is full, no host counts as silent, because the launcher does not read.
void HostsLauncher::look_for_silence() {
  const uint64_t now = now_ns();
  for (HostConnection &host : hosts_) {
    if (streams_.output_full()) host.heard_ns = now;
    if (started_ && host.alive() && now - host.heard_ns > silence_limit_ns)
      host_lost(host, "no answer for 15 s; is the network cut?");
  }
}

std::string HostsLauncher::name_unready() const {
  std::string names;
  for (const HostConnection &host : hosts_) {
    if (host.phase == HostConnection::Phase::ready) continue;
    std::string said = host.complaint.substr(0, host.complaint.find('\n'));
    names += (names.empty() ? "" : ", ") + host.share.host + (said.empty() ? "" : " (" + said + ")");
  }
  return names;
}

/// Continues once all hosts are ready: the first one starts the store, then all start their ranks.
void HostsLauncher::advance() {
  if (started_ || refused_status_) return;
  if (now_ns() >= ready_deadline_ns_) {
    streams_.say("these hosts were not ready in time: " + name_unready() +
                 "; nothing was started. Can ssh log in there without a question?");
    refused_status_ = options_.timeout_ns != 0 && options_.timeout_ns < ready_limit_ns ? run_exit_timeout : exit_failed;
    return;
  }
  if (!met_ && count(HostConnection::Phase::ready) == hosts_.size()) {
    met_ = true;
    hosts_.front().writer.add(FrameKind::serve);
  }
  if (store_.empty()) return;
  started_ = true;
  send_all(FrameKind::start, bytes_of(store_));
}

void HostsLauncher::send_all(FrameKind kind, ByteView body) {
  for (HostConnection &host : hosts_)
    if (host.alive()) host.writer.add(kind, body);
}

void HostsLauncher::act() {
  const JobActions actions = job_.take_actions();
  for (const std::string &message : actions.messages) streams_.say(message);
  for (const int number : actions.forward) {
    Bytes body;
    append_number(body, static_cast<uint32_t>(number));
    send_all(FrameKind::signal, body);
  }
  if (actions.end_grace_ns) {
    Bytes body;
    append_number(body, *actions.end_grace_ns);
    send_all(FrameKind::end, body);
  }
  if (actions.take_over) leave_at_ns_ = now_ns();  // the agents end everything when their connection closes
  if (now_ns() >= next_alive_ns_) {
    next_alive_ns_ = now_ns() + alive_interval_ns;
    send_all(FrameKind::alive);
  }
  if (actions.stop_self) send_all(FrameKind::rest);
  write_hosts();
  if (actions.stop_self) ::kill(::getpid(), SIGSTOP);
}

void HostsLauncher::write_hosts() {
  for (HostConnection &host : hosts_)
    if (host.to.valid() && !host.writer.write_some(host.to.get())) host.to.reset();  // a later read shows how it ended
}

bool HostsLauncher::finished() {
  if (refused_status_) {  // waits, so that all unsuitable hosts are named together
    const bool decided = count(HostConnection::Phase::connecting) + count(HostConnection::Phase::preparing) == 0;
    const bool signalled = *refused_status_ > 128 && count(HostConnection::Phase::lost) == 0;
    return (decided || signalled || now_ns() >= ready_deadline_ns_) && !streams_.output_pending();
  }
  const size_t done = count(HostConnection::Phase::ended) + count(HostConnection::Phase::lost);
  if (started_ && !job_.over() && done == hosts_.size()) job_.all_ended(left_count_);
  if (!job_.over()) return false;
  if (!streams_.output_pending() || now_ns() >= leave_at_ns_) return true;
  if (job_.was_cut_short() && leave_at_ns_ == run_no_deadline) leave_at_ns_ = now_ns() + farewell_ns;
  return false;
}

int HostsLauncher::run() {
  while (!finished()) {  // ends at the job's deadlines; without any, when the ranks end
    wait_for_events();
    take_signals();
    streams_.ready(events_.data());
    read_hosts();
    look_for_silence();
    advance();
    if (const int error_number = streams_.take_write_error(); error_number != 0)
      job_.failed(std::string("the output cannot be written: ") + std::strerror(error_number), now_ns());
    if (started_) job_.time_passed(now_ns());
    act();
  }
  for (HostConnection &host : hosts_) host.to.reset();  // this ends the agents, and with them ssh
  const uint64_t deadline_ns = now_ns() + farewell_ns;
  while (reap_children([](pid_t, int) {}) && now_ns() < deadline_ns) sleep_for_ns(2'000'000);
  [[maybe_unused]] const uint32_t left_count = kill_children(now_ns() + run_kill_limit_ns, [](pid_t, int) {});
  return refused_status_.value_or(job_.exit_status());
}

}  // namespace

int run_on_hosts(const RunOptions &options) {
  auto signals = prepare_launcher();
  if (!signals.ok()) return refuse_run("the job cannot be started: " + signals.error().message);
  Job::Options job{.rank_count = options.rank_count,
                   .program = options.command.front(),
                   .timeout_ns = options.timeout_ns,
                   .grace_ns = options.grace_ns,
                   .keep_going = options.keep_going};
  std::vector<HostConnection> hosts;
  uint32_t first_rank = 0;
  for (const HostShare &share : options.hosts) {
    auto host = connect_host(share, options.ssh, options.remote_rondo);
    if (!host.ok()) return refuse_run("host " + share.host + ": " + host.error().message);
    host.value().first_rank = first_rank;
    first_rank += share.rank_count;
    job.hosts.insert(job.hosts.end(), share.rank_count, share.host);
    hosts.push_back(std::move(host).value());
  }
  return HostsLauncher(options, std::move(hosts), std::move(signals).value(), std::move(job)).run();
}

}  // namespace rondo::cli
