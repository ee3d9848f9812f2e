// SPDX-License-Identifier: Apache-2.0
// These tests cover the decisions of `rondo run` without a system call: options, lines, outcome.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "src/base/unique_handle.h"
#include "src/cli/hosts/frames.h"
#include "src/cli/hosts/host_list.h"
#include "src/cli/run/job.h"
#include "src/cli/run/lines.h"
#include "src/cli/run/options.h"
#include "src/cli/run/program.h"
#include "src/topo/host.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/seeds.h"

using namespace rondo;
using namespace rondo::cli;

namespace {

RunOptions parsed(std::vector<const char *> args) {
  auto result = parse_run_options(args);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<RunOptions>(result.value()));
  return std::get<RunOptions>(result.value());
}

std::string refused(std::vector<const char *> args) {
  const auto result = parse_run_options(args);
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

int exit_with(int status) { return status << 8; }

RankEnd rank_end(uint32_t rank, int wait_status) { return {rank, static_cast<pid_t>(100 + rank), wait_status, {}, 0}; }

Job make_job(uint32_t rank_count, uint64_t timeout_ns = 0) {
  return Job({.rank_count = rank_count, .program = "/bin/p", .timeout_ns = timeout_ns, .grace_ns = 2 * second_ns}, 0);
}

}  // namespace

TEST_CASE("run options: defaults, and every option") {
  const RunOptions plain = parsed({"-n", "3", "prog", "-n", "7", "--", "x"});
  CHECK(plain.rank_count == 3);
  CHECK_FALSE(plain.tag_output);
  CHECK(plain.timeout_ns == 0);
  CHECK(plain.grace_ns == 2 * second_ns);
  CHECK(plain.bind == Bind::share);
  CHECK(plain.command == std::vector<std::string>{"prog", "-n", "7", "--", "x"});

  CHECK_FALSE(plain.keep_going);
  const RunOptions full = parsed({"-n", "2", "--keep-going", "--tag-output", "--timeout", "1.5", "--grace", "0",
                                  "--bind", "core", "--env", "A=1", "--env", "B=x=y", "--", "-prog", "--help"});
  CHECK((full.keep_going && full.tag_output));
  CHECK(full.timeout_ns == second_ns * 3 / 2);
  CHECK(full.grace_ns == 0);
  CHECK(full.bind == Bind::core);
  CHECK(full.environment == std::vector<std::string>{"A=1", "B=x=y"});
  CHECK(full.command == std::vector<std::string>{"-prog", "--help"});
}

TEST_CASE("run options: what is wrong is said") {
  CHECK(refused({"prog"}).find("--ranks is required") != std::string::npos);
  CHECK(refused({"-n", "2"}).find("no program given") != std::string::npos);
  CHECK(refused({"-n", "2", "--"}).find("no program given") != std::string::npos);
  CHECK(refused({"-n", "2", "--tags", "prog"}).find("unknown option '--tags'") != std::string::npos);
  CHECK(refused({"-n", "1025", "prog"}).find("1025") != std::string::npos);
  CHECK(refused({"-n", "2", "--env", "=x", "prog"}).find("NAME=VALUE") != std::string::npos);
  CHECK(refused({"-n", "2", "--env", "RONDO_SECRET=x", "prog"}).find("RONDO_SECRET") != std::string::npos);
  CHECK(refused({"-n", "2", "--timeout", "0", "prog"}).find("--timeout") != std::string::npos);
  CHECK(refused({"-n", "2", "--timeout", "nan", "prog"}).find("--timeout") != std::string::npos);
  CHECK(refused({"-n", "4", "--hosts", "a:2,b", "prog"}).find("--hosts has 3 ranks") != std::string::npos);
  CHECK(refused({"--hosts", "a:1000,b:1000", "prog"}).find("2000") != std::string::npos);
  CHECK(refused({"-n", "1", "--ssh", "x", "prog"}).find("for --hosts") != std::string::npos);
  CHECK(refused({"--hosts", "a:2", "--ssh", " ", "prog"}).find("--ssh takes") != std::string::npos);
  const std::vector<const char *> help{"--help"};
  const auto asked = parse_run_options(help);
  REQUIRE(asked.ok());
  CHECK(std::get<HelpText>(asked.value()).text.find("--tag-output") != std::string::npos);
}

TEST_CASE("run options: hosts, and what starts a command on them") {
  const RunOptions plain = parsed({"--hosts", "a:2,me@b", "prog", "--hosts", "c"});
  CHECK(plain.rank_count == 3);
  REQUIRE(plain.hosts.size() == 2);
  CHECK((plain.hosts[0].host == "a" && plain.hosts[0].rank_count == 2));
  CHECK((plain.hosts[1].host == "me@b" && plain.hosts[1].rank_count == 1));
  CHECK(plain.ssh == std::vector<std::string>{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"});
  CHECK(plain.command == std::vector<std::string>{"prog", "--hosts", "c"});
  const RunOptions own =
      parsed({"-n", "4", "--hosts", "[2001:db8::1]:4", "--ssh", "my rsh", "--remote-rondo", "/r", "x"});
  CHECK(own.hosts[0].host == "2001:db8::1");
  CHECK(own.ssh == std::vector<std::string>{"my", "rsh"});
  CHECK(own.remote_rondo == "/r");
  CHECK(is_setting_for_ranks("RONDO_LOG=debug"));
  for (const char *entry : {"RONDO_RANK=1", "RONDO_SECRET=x", "PATH=/bin", "RONDO_LOG"})
    CHECK_FALSE(is_setting_for_ranks(entry));
}

TEST_CASE("run hosts: what is no list of hosts is refused, and never reaches ssh") {
  for (const char *list : {"", ",", "a,", "a,,b", "a:0", "a:1025", "a:x", "a:", "a:1:2", "-oProxyCommand=x", "a b",
                           "a;b", "$x", "[::1", "[::1]2", "a:1,a:2"})
    CHECK_FALSE(parse_hosts(list).ok());
}

TEST_CASE("run frames: arrive whole however the bytes come, behind whatever a login shell prints") {
  HostPlan plan{3, 2, 8, true, Bind::core, 5, "/a folder", "secret", {"A=1"}, {"prog", "", "x y"}};
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const FileDescriptor read(ends[0]);
  const FileDescriptor write(ends[1]);
  FrameWriter writer;
  writer.greet();
  writer.add(FrameKind::plan, encode(plan));
  writer.add(FrameKind::ended, encode(RankEnd{7, 99, 256, StartFailure::bind, 13}));
  writer.add(FrameKind::alive);
  const std::string noise = "Welcome!\nrondo\n";
  REQUIRE(::write(write.get(), noise.data(), noise.size()) == static_cast<ssize_t>(noise.size()));
  REQUIRE(writer.write_some(write.get()));
  CHECK_FALSE(writer.pending());
  std::string all(4096, '\0');
  all.resize(static_cast<size_t>(::read(read.get(), all.data(), all.size())));
  for (size_t step_bytes = 1; step_bytes <= all.size(); step_bytes += 7) {
    FrameReader reader(FrameReader::Start::behind_greeting);
    std::vector<Frame> frames;
    for (size_t at = 0; at < all.size(); at += step_bytes) {
      const std::string piece = all.substr(at, step_bytes);
      REQUIRE(::write(write.get(), piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
      REQUIRE(reader.read_some(read.get()));
      while (auto frame = reader.next()) frames.push_back(std::move(*frame));
    }
    REQUIRE(frames.size() == 3);
    const auto decoded = decode_plan(frames[0].body);
    REQUIRE(decoded);
    CHECK((decoded->first_rank == 3 && decoded->rank_count == 2 && decoded->job_rank_count == 8));
    CHECK((decoded->tag_output && decoded->bind == Bind::core && decoded->folder == "/a folder"));
    CHECK((decoded->environment == plan.environment && decoded->command == plan.command));
    const auto end = decode_rank_end(frames[1].body);
    REQUIRE(end);
    CHECK((end->rank == 7 && end->pid == 99 && end->wait_status == 256 && end->start_errno == 13));
    CHECK(frames[2].kind == FrameKind::alive);
  }
}

TEST_CASE("run frames: what is no frame ends the connection, and a torn plan is none") {
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const FileDescriptor read(ends[0]);
  FileDescriptor write(ends[1]);
  FrameReader reader(FrameReader::Start::at_once);
  CHECK(reader.read_some(read.get()));  // no data has arrived yet
  REQUIRE(::write(write.get(), "\xff\xff\xff\xff\x01", 5) == 5);
  CHECK_FALSE(reader.read_some(read.get()));
  write.reset();
  CHECK_FALSE(FrameReader(FrameReader::Start::at_once).read_some(read.get()));
  const Bytes whole = encode(HostPlan{0, 1, 1, false, Bind::none, 0, "/", "s", {}, {"p"}});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) CHECK_FALSE(decode_plan(ByteView(whole).first(bytes)));
  CHECK(decode_plan(whole));
}

TEST_CASE("run job: on several hosts the message names the host") {
  Job job({.rank_count = 2, .program = "/bin/p", .grace_ns = second_ns, .hosts = {"a", "b"}}, 0);
  job.rank_ended(rank_end(1, exit_with(3)), 5);
  CHECK(job.take_actions().messages ==
        std::vector<std::string>{"rank 1 (host b, pid 101) exited with status 3; ending the other ranks"});
}

TEST_CASE("run lines: whole lines are tagged however the bytes arrive") {
  const std::string text = "one\n\ntwo\r\nunfinished";
  for (size_t step_bytes = 1; step_bytes <= text.size(); ++step_bytes) {
    LineTagger tagger("[7] ");
    std::string out;
    for (size_t at = 0; at < text.size(); at += step_bytes) tagger.take(text.substr(at, step_bytes), &out);
    CHECK(out == "[7] one\n[7] \n[7] two\r\n");
    tagger.finish(&out);
    CHECK(out == "[7] one\n[7] \n[7] two\r\n[7] unfinished\n");
    tagger.finish(&out);
    CHECK(out == "[7] one\n[7] \n[7] two\r\n[7] unfinished\n");
  }
}

TEST_CASE("run lines: a line beyond the limit is passed on in pieces, one at the limit whole") {
  for (const size_t extra_bytes : {size_t{0}, size_t{1}, run_line_bytes_max, run_line_bytes_max + 1}) {
    const std::string line(run_line_bytes_max + extra_bytes, 'x');
    for (const size_t first_bytes : {size_t{0}, size_t{1}, run_line_bytes_max, line.size()}) {
      LineTagger tagger("");
      std::string out;
      tagger.take(std::string_view(line).substr(0, first_bytes), &out);
      tagger.take(std::string_view(line).substr(first_bytes), &out);
      tagger.take("\nnext\n", &out);
      std::string expected;
      for (size_t at = 0; at < line.size(); at += run_line_bytes_max)
        expected += line.substr(at, run_line_bytes_max) + "\n";
      CHECK((out == expected + "next\n"));
    }
  }
}

TEST_CASE("run job: the first failure is the status, told once, and ends the others") {
  Job job = make_job(3);
  job.rank_ended(rank_end(1, 0), 5);
  CHECK_FALSE(job.take_actions().end_grace_ns.has_value());
  job.rank_ended(rank_end(2, exit_with(7)), 10);
  const JobActions actions = job.take_actions();
  CHECK(actions.end_grace_ns == 2 * second_ns);
  CHECK(actions.messages == std::vector<std::string>{"rank 2 (pid 102) exited with status 7; ending the other ranks"});
  job.rank_ended(rank_end(0, SIGTERM), 20);
  CHECK(job.take_actions().messages.empty());
  CHECK_FALSE(job.over());
  job.all_ended(0);
  CHECK(job.over());
  CHECK(job.exit_status() == 7);
}

TEST_CASE("run job: with keep_going, ranks that fail are told, and the status is 0 if any rank's is") {
  for (const bool succeeds : {true, false}) {
    Job job({.rank_count = 3, .program = "/bin/p", .keep_going = true}, 0);
    job.rank_ended(rank_end(1, SIGKILL), 5);
    job.rank_ended(rank_end(0, succeeds ? 0 : exit_with(4)), 10);
    job.rank_ended(rank_end(2, exit_with(3)), 20);
    const JobActions actions = job.take_actions();
    CHECK_FALSE(actions.end_grace_ns.has_value());
    CHECK(actions.messages.front() == "rank 1 (pid 101) was killed by signal 9 (Killed); the others go on");
    CHECK(actions.messages.back() == "rank 2 (pid 102) exited with status 3");
    CHECK(job.exit_status() == (succeeds ? 0 : 3));
  }
  Job job({.rank_count = 2, .program = "/bin/p", .keep_going = true}, 0);
  job.rank_ended({.rank = 0, .start_failure = StartFailure::execute, .start_errno = ENOENT}, 5);
  CHECK(job.take_actions().end_grace_ns.has_value());  // a program that does not start does not count as a dead rank
}

TEST_CASE("run job: the last rank's failure has no others to end") {
  Job job = make_job(1);
  job.rank_ended(rank_end(0, SIGKILL), 5);
  const JobActions actions = job.take_actions();
  CHECK_FALSE(actions.end_grace_ns.has_value());
  CHECK(actions.messages == std::vector<std::string>{"rank 0 (pid 100) was killed by signal 9 (Killed)"});
  CHECK(job.exit_status() == 137);
}

TEST_CASE("run job: the timeout strikes at its time, not before, and never after the end") {
  Job job = make_job(2, second_ns / 4);
  CHECK(job.next_deadline_ns() == second_ns / 4);
  job.time_passed(second_ns / 4 - 1);
  CHECK_FALSE(job.take_actions().end_grace_ns.has_value());
  job.time_passed(second_ns / 4);
  const JobActions actions = job.take_actions();
  CHECK(actions.end_grace_ns.has_value());
  CHECK(actions.messages == std::vector<std::string>{"the job did not end within 0.25 s; ending all ranks"});
  CHECK(job.exit_status() == run_exit_timeout);

  Job ended = make_job(1, second_ns);
  ended.rank_ended(rank_end(0, 0), 1);
  ended.time_passed(2 * second_ns);
  CHECK(ended.exit_status() == 0);

  Job failed = make_job(2, second_ns);
  failed.rank_ended(rank_end(0, exit_with(3)), 1);
  failed.time_passed(2 * second_ns);
  CHECK(failed.exit_status() == 3);
}

TEST_CASE("run job: time during which the job was stopped does not count") {
  Job job = make_job(2, 10 * second_ns);
  job.signal(SIGTSTP, second_ns);
  const JobActions stop = job.take_actions();
  CHECK(stop.stop_self);
  CHECK(stop.forward == std::vector<int>{SIGTSTP});
  job.time_passed(50 * second_ns);
  job.signal(SIGCONT, 101 * second_ns);
  CHECK(job.take_actions().forward == std::vector<int>{SIGCONT});
  job.time_passed(110 * second_ns - 1);
  CHECK(job.exit_status() == 0);
  job.time_passed(110 * second_ns);
  CHECK(job.exit_status() == run_exit_timeout);
}

TEST_CASE("run job: first ending signal forwarded, second ends, third kills at once") {
  Job job = make_job(2);
  job.signal(SIGUSR1, 1);
  job.signal(SIGTERM, 1);
  CHECK(job.take_actions().forward == std::vector<int>{SIGUSR1, SIGTERM});
  job.signal(SIGINT, 2);
  CHECK(job.take_actions().end_grace_ns == 2 * second_ns);
  CHECK(job.was_cut_short());
  job.signal(SIGINT, 3);
  CHECK(job.take_actions().end_grace_ns == 0u);
  CHECK(job.exit_status() == 130);
}

TEST_CASE("run job: one signal while a failed job ends kills at once and keeps the failure") {
  Job job = make_job(2);
  job.rank_ended(rank_end(0, exit_with(4)), 1);
  CHECK(job.take_actions().end_grace_ns == 2 * second_ns);
  job.signal(SIGINT, 2);
  CHECK(job.take_actions().end_grace_ns == 0u);
  CHECK(job.exit_status() == 4);
}

TEST_CASE("run job: a guard that dies or does not answer is replaced") {
  Job lost = make_job(2);
  lost.guard_lost(SIGKILL);
  CHECK(lost.take_actions().take_over);
  CHECK(lost.over());
  CHECK(lost.exit_status() == 137);

  Job silent = make_job(2);
  silent.rank_ended(rank_end(0, exit_with(4)), 0);
  const uint64_t deadline_ns = silent.next_deadline_ns();
  CHECK(deadline_ns == 2 * second_ns + run_kill_limit_ns + run_guard_slack_ns);
  silent.time_passed(deadline_ns - 1);
  CHECK_FALSE(silent.take_actions().take_over);
  silent.time_passed(deadline_ns);
  CHECK(silent.take_actions().take_over);
  CHECK(silent.exit_status() == 4);
}

TEST_CASE("run job: any order of endings gives the first failure's status") {
  const uint64_t seed = rondo_test::seed_from_environment();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int turn = 0; turn < 1000; ++turn) {
    const auto rank_count = static_cast<uint32_t>(1 + random() % 6);
    Job job = make_job(rank_count);
    int expected = 0;
    size_t end_count = 0;
    size_t message_count = 0;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      const int status = random() % 2 == 0 ? 0 : static_cast<int>(random() % 64 + 1);
      const bool by_signal = random() % 2 == 0;
      if (expected == 0 && status != 0) expected = by_signal ? 128 + status : status;
      job.rank_ended(rank_end(rank, by_signal ? status : exit_with(status)), turn);
      const JobActions actions = job.take_actions();
      end_count += actions.end_grace_ns.has_value() ? 1 : 0;
      message_count += actions.messages.size();
    }
    job.all_ended(0);
    CHECK(job.exit_status() == expected);
    CHECK(message_count == (expected == 0 ? 0 : 1));
    CHECK(end_count <= message_count);
  }
}

TEST_CASE("run job: a program that cannot be started has a shell's status") {
  RankEnd end = rank_end(0, exit_with(run_exit_not_executable));
  end.start_failure = StartFailure::execute;
  end.start_errno = ENOENT;
  CHECK(exit_status_of(end) == 127);
  end.start_errno = ENOEXEC;
  CHECK(exit_status_of(end) == 126);
  CHECK(describe(end, "/bin/p").find("cannot execute /bin/p: Exec format error") != std::string::npos);
  end.start_failure = StartFailure::fork;
  end.start_errno = EAGAIN;
  CHECK(exit_status_of(end) == 126);
}

TEST_CASE("run program: looked for as a shell does") {
  CHECK(find_program("sh", "/no/such/folder:/bin").path == "/bin/sh");
  CHECK(find_program("/bin/sh", "").path == "/bin/sh");
  CHECK(find_program("", "/bin").exit_status == run_exit_not_found);
  CHECK(find_program("sh", "/no/such/folder").exit_status == run_exit_not_found);
  CHECK(find_program("passwd", "/etc").exit_status == run_exit_not_executable);
  CHECK(find_program("/etc/passwd/x", "").exit_status == run_exit_not_found);
  CHECK(find_program("/etc", "").exit_status == run_exit_not_executable);
}

TEST_CASE("run binding: ranks share the cores, neighbours among neighbours") {
  const std::vector<Processors> cores{{0, 4}, {1, 5}, {6}};
  CHECK(share_cores(cores, 3) == cores);
  CHECK(share_cores(cores, 2) == std::vector<Processors>{{0, 4, 1, 5}, {6}});
  CHECK(share_cores(cores, 1).empty());  // a single rank has all cores
  CHECK(share_cores(cores, 4).empty());
  std::vector<Processors> many;
  for (uint32_t core = 0; core < 67; ++core) many.push_back({core});
  for (uint32_t ranks = 2; ranks <= 67; ++ranks) {
    std::vector<uint32_t> taken;
    for (const Processors &share : share_cores(many, ranks)) {
      CHECK((share.size() == 67 / ranks || share.size() == 67 / ranks + 1));
      taken.insert(taken.end(), share.begin(), share.end());
    }
    CHECK(taken.size() == 67);
    CHECK(std::is_sorted(taken.begin(), taken.end()));
  }
  const auto allowed = allowed_cores();
  REQUIRE(allowed.ok());
  CHECK_FALSE(allowed.value().empty());
}
