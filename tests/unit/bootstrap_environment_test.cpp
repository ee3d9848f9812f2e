// SPDX-License-Identifier: Apache-2.0
// These tests read each launcher's environment, with and without mistakes, and run the launchers that are installed.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>

#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/environment.h"
#include "src/bootstrap/launch/process_info.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

using Environment = std::map<std::string, std::string>;
using RendezvousMethod = Job::RendezvousMethod;

const std::string digits(64, 'a');

Result<Job> detect(const Environment &environment, const std::string &launcher_address = "10.0.0.1:4000") {
  const auto lookup = [&environment](const char *name) -> const char * {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  return detect_job({lookup, [] { return std::string("12-345"); }, [launcher_address] { return launcher_address; }});
}

Environment with(Environment environment, const std::string &name, const std::string &value) {
  environment[name] = value;
  return environment;
}

const Environment rondo_run{{"RONDO_RANK", "2"}, {"RONDO_SIZE", "4"}, {"RONDO_LOCAL_RANK", "2"},
                            {"RONDO_STORE", "127.0.0.1:4000"}, {"RONDO_SECRET", digits}};
const Environment torchrun{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "localhost"},
                           {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RUN_ID", "none"}};
const Environment open_mpi{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "1518600193"}};
const Environment mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}};
const Environment slurm{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "1"},
                        {"SLURM_LOCALID", "5"}};

const Environment flux{{"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_JOB_ID", "f2bXw9"},
                       {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_NNODES", "1"}, {"FLUX_KVS_NAMESPACE", "job-77"},
                       {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};

const Environment pmi2 = [] {
  Environment step = slurm;
  step.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_JOBID", "77.1"}, {"PMI_FD", "9"}});
  return step;
}();

struct Expected {
  Environment environment;
  std::string launcher;
  uint32_t rank, size;
  int32_t local_rank;
  RendezvousMethod rendezvous;
  std::string where;  // endpoint or name
};

/// Runs a shell command. Returns its standard output, or "" if it failed.
std::string output_of(const std::string &command) {
  FILE *pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t count = ::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), count);
  return ::pclose(pipe) == 0 ? text : "";
}

/// Returns the "NAME=value" lines after each "BEGIN".
std::vector<Environment> environments_in(const std::string &text) {
  std::vector<Environment> all;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line == "BEGIN") all.emplace_back();
    const size_t equals = line.find('=');
    if (equals != std::string::npos && !all.empty()) all.back()[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return all;
}

void check_real_launcher(const std::string &program, const std::string &options, const std::string &launcher) {
  if (output_of("command -v " + program).empty()) {
    std::printf("skipped: environment of %s: %s is not installed\n", launcher.c_str(), program.c_str());
    std::fflush(stdout);
    return;
  }
  // Each rank writes to its own file, because on a busy machine MPICH's mpiexec loses lines. If a launcher does not
  // end, `timeout` ends it, and the test fails.
  const std::string text = output_of("said=$(mktemp -d); timeout 240 " + program + " " + options +
                                     " -n 2 sh -c '(echo BEGIN; env | grep -E \"^(OMPI|PMI|MPI_|PMIX)\") "
                                     ">\"$(mktemp \"$0/XXXXXX\")\"' \"$said\" >/dev/null 2>&1 </dev/null; "
                                     "cat \"$said\"/*; rm -r \"$said\"");
  const auto environments = environments_in(text);
  REQUIRE(environments.size() == 2);
  std::vector<std::string> names;
  uint32_t ranks = 0;
  for (const Environment &environment : environments) {
    const auto job = detect(environment);
    REQUIRE(job.ok());
    CHECK(job.value().launcher == launcher);
    CHECK(job.value().size == 2);
    CHECK(job.value().local_rank == static_cast<int32_t>(job.value().rank));
    CHECK(job.value().rendezvous == RendezvousMethod::file);
    ranks |= 1u << job.value().rank;
    names.push_back(job.value().name);
  }
  CHECK(ranks == 3);
  CHECK(names[0] == names[1]);
}

}  // namespace

TEST_CASE("environment: each launcher's variables give rank, size and the place to meet, in order of precedence") {
  Environment all = rondo_run;
  for (const Environment &each : {torchrun, open_mpi, mpich, slurm}) all.insert(each.begin(), each.end());
  const std::vector<Expected> table{
      {{}, "none", 0, 1, -1, RendezvousMethod::alone, ""},
      {{{"RONDO_RANK", ""}}, "none", 0, 1, -1, RendezvousMethod::alone, ""},
      {rondo_run, "rondo run", 2, 4, 2, RendezvousMethod::store, "127.0.0.1:4000"},
      {with(rondo_run, "RONDO_STORE", "[::1]:9"), "rondo run", 2, 4, 2, RendezvousMethod::store, "[::1]:9"},
      {torchrun, "torchrun", 1, 2, 1, RendezvousMethod::listen, "localhost:29501"},
      {with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "False"), "torchrun", 1, 2, 1, RendezvousMethod::listen,
       "localhost:29500"},
      {with(torchrun, "RONDO_PORT", "7"), "torchrun", 1, 2, 1, RendezvousMethod::listen, "localhost:7"},
      {with(with(torchrun, "MASTER_ADDR", "10.1.2.3"), "LOCAL_WORLD_SIZE", "2"), "torchrun", 1, 2, 1,
       RendezvousMethod::listen, "127.0.0.1:29501"},
      {with(with(torchrun, "MASTER_ADDR", "10.1.2.3"), "LOCAL_WORLD_SIZE", "1"), "torchrun", 1, 2, 1,
       RendezvousMethod::listen, "10.1.2.3:29501"},
      {with(torchrun, "MASTER_ADDR", "::1"), "torchrun", 1, 2, 1, RendezvousMethod::listen, "[::1]:29501"},
      {with(torchrun, "MASTER_ADDR", "[::1]"), "torchrun", 1, 2, 1, RendezvousMethod::listen, "[::1]:29501"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "torchrun", 0, 1, -1, RendezvousMethod::alone, ""},
      {{{"WORLD_SIZE", "1"}}, "none", 0, 1, -1, RendezvousMethod::alone, ""},
      {open_mpi, "Open MPI", 0, 2, 0, RendezvousMethod::file, "openmpi-1518600193"},
      {mpich, "MPICH", 1, 3, 1, RendezvousMethod::file, "mpich-12-345"},
      {slurm, "Slurm", 5, 8, 5, RendezvousMethod::file, "slurm-77-1"},
      {with(slurm, "SLURM_STEP_NUM_TASKS", "6"), "Slurm", 5, 6, 5, RendezvousMethod::file, "slurm-77-1"},
      {with(slurm, "SLURM_RESTART_COUNT", "2"), "Slurm", 5, 8, 5, RendezvousMethod::file, "slurm-77-1-restart-2"},
      {with(slurm, "SLURM_STEP_ID", "4294967291"), "none", 0, 1, -1, RendezvousMethod::alone,
       ""},  // the batch script itself
      {pmi2, "Slurm", 5, 8, 5, RendezvousMethod::file, "slurm-77-1"},
      {with(pmi2, "PMI_JOBID", "77.0"), "MPICH", 5, 8, -1, RendezvousMethod::file,
       "mpich-12-345"},  // mpiexec in an allocation
      {with(with(mpich, "MPI_LOCALNRANKS", "2"), "RONDO_RENDEZVOUS_DIR", "/shared"), "MPICH", 1, 3, 1,
       RendezvousMethod::file, "mpich-10.0.0.1_4000-55b94487bb24c099aad4978286d38ab1"},
      {flux, "Flux", 3, 4, 1, RendezvousMethod::file, "flux-f2bXw9-job-77"},
      {with(with(flux, "FLUX_JOB_NNODES", "2"), "RONDO_RENDEZVOUS_DIR", "/shared"), "Flux", 3, 4, 1,
       RendezvousMethod::file, "flux-f2bXw9-job-77"},
      {with(with(flux, "PMI_SIZE", "2"), "PMI_RANK", "1"), "MPICH", 1, 2, -1, RendezvousMethod::file, "mpich-12-345"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "MPICH", 0, 1, -1, RendezvousMethod::alone, "mpich-12-345"},
      {all, "rondo run", 2, 4, 2, RendezvousMethod::store, "127.0.0.1:4000"},
  };
  for (const Expected &each : table) {
    CAPTURE(each.launcher, each.where);
    const auto job = detect(each.environment);
    REQUIRE(job.ok());
    CHECK(job.value().launcher == each.launcher);
    CHECK(job.value().rank == each.rank);
    CHECK(job.value().size == each.size);
    CHECK(job.value().local_rank == each.local_rank);
    CHECK(job.value().rendezvous == each.rendezvous);
    CHECK((job.value().name.empty() && !each.where.empty() ? format_endpoint(job.value().endpoint)
                                                           : job.value().name) == each.where);
  }
  for (const char *name : {"RONDO_RANK", "RONDO_SIZE", "RONDO_STORE"}) all.erase(name);
  for (const auto &[first_variable, next] : std::vector<std::pair<std::string, std::string>>{
           {"", "torchrun"}, {"WORLD_SIZE", "Open MPI"}, {"OMPI_COMM_WORLD_", "MPICH"}, {"PMI_", "Slurm"}}) {
    if (!first_variable.empty())
      std::erase_if(all, [&first = first_variable](const auto &item) { return item.first.starts_with(first); });
    const auto job = detect(all);
    REQUIRE(job.ok());
    CHECK(job.value().launcher == next);
  }
}

TEST_CASE("environment: what is missing, garbage or inconsistent is refused by name, with what is allowed") {
  const std::vector<std::tuple<Environment, std::string, std::string>> table{
      {with(rondo_run, "RONDO_RANK", "4"), "RONDO_RANK", "0 to 3"},
      {with(rondo_run, "RONDO_RANK", "-1"), "RONDO_RANK", "'-1'"},
      {with(rondo_run, "RONDO_RANK", "two"), "RONDO_RANK", "'two'"},
      {with(rondo_run, "RONDO_RANK", ""), "RONDO_RANK", "not set"},
      {with(rondo_run, "RONDO_SIZE", "0"), "RONDO_SIZE", "1 to 4096"},
      {with(rondo_run, "RONDO_SIZE", "99999999999999999999"), "RONDO_SIZE", "1 to 4096"},
      {with(rondo_run, "RONDO_STORE", "127.0.0.1"), "RONDO_STORE", "HOST:PORT"},
      {with(rondo_run, "RONDO_STORE", "127.0.0.1:0"), "RONDO_STORE", "HOST:PORT"},
      {with(rondo_run, "RONDO_STORE", "::1:80"), "RONDO_STORE", "[IPV6]:PORT"},
      {with(rondo_run, "RONDO_STORE", ""), "RONDO_STORE", "not set"},
      {with(rondo_run, "RONDO_SECRET", ""), "RONDO_SECRET", "not set"},
      {with(rondo_run, "RONDO_SECRET", "xyzzy"), "RONDO_SECRET", "64 hexadecimal digits"},
      {with(rondo_run, "RONDO_LOCAL_RANK", "4"), "RONDO_LOCAL_RANK", "0 to 3"},
      {with(torchrun, "RANK", "2"), "RANK", "WORLD_SIZE is 2"},
      {with(torchrun, "MASTER_PORT", "70000"), "MASTER_PORT", "1 to 65535"},
      {with(torchrun, "MASTER_PORT", "65535"), "MASTER_PORT", "RONDO_PORT"},
      {with(torchrun, "MASTER_PORT", ""), "MASTER_PORT", "not set"},
      {with(torchrun, "MASTER_ADDR", ""), "MASTER_ADDR", "not set"},
      {with(torchrun, "MASTER_ADDR", "a b"), "MASTER_ADDR", "'a b'"},
      {with(torchrun, "RONDO_PORT", "no"), "RONDO_PORT", "'no'"},
      {with(torchrun, "RONDO_SECRET", "short"), "RONDO_SECRET", "64 hexadecimal digits"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR", "not set"},
      {with(open_mpi, "PMIX_NAMESPACE", ""), "PMIX_NAMESPACE", "not set"},
      {with(open_mpi, "OMPI_COMM_WORLD_SIZE", ""), "OMPI_COMM_WORLD_SIZE", "not set"},
      {with(open_mpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "Open MPI", "RONDO_RENDEZVOUS_DIR"},
      {with(open_mpi, "RONDO_RENDEZVOUS_DIR", "relative"), "RONDO_RENDEZVOUS_DIR", "absolute"},
      {with(mpich, "PMI_RANK", "3"), "PMI_RANK", "PMI_SIZE is 3"},
      {with(mpich, "MPI_LOCALNRANKS", "2"), "MPICH", "RONDO_RENDEZVOUS_DIR"},
      {with(slurm, "SLURM_JOB_ID", ""), "SLURM_JOB_ID", "not set"},
      {with(slurm, "SLURM_STEP_ID", "x"), "SLURM_STEP_ID", "'x'"},
      {with(slurm, "SLURM_STEP_NUM_NODES", "2"), "Slurm", "RONDO_RENDEZVOUS_DIR"},
      {with({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, "PMI_LOCAL_SIZE", "2"), "MPICH", "RONDO_RENDEZVOUS_DIR"},
      {with(flux, "FLUX_JOB_ID", ""), "FLUX_JOB_ID", "not set"},
      {with(flux, "FLUX_JOB_NNODES", "2"), "Flux", "RONDO_RENDEZVOUS_DIR"},
      {with(torchrun, "MASTER_ADDR", "[::1"), "MASTER_ADDR", "'[::1'"},
      {{{"RANK", "1"}}, "RANK is '1'", "WORLD_SIZE is not set"},
      {{{"RANK", "0"}, {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "1"}}, "RANK is '0'", "WORLD_SIZE is not set"},
      {{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h0"}}, "WORLD_SIZE is '2'", "RANK is not set"},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, "PMIX_RANK is '1'", "PMIx started"},
      {{{"PALS_RANKID", "0"}}, "PALS_RANKID is '0'", "PALS started"},
      {{{"ALPS_APP_PE", "0"}}, "ALPS_APP_PE is '0'", "unset ALPS_APP_PE"},
  };
  for (const auto &[environment, name, allowed] : table) {
    CAPTURE(name, allowed);
    const auto job = detect(environment);
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().message.find(name) != std::string::npos);
    CHECK(job.error().message.find(allowed) != std::string::npos);
    CHECK(job.error().message.find("xyzzy") == std::string::npos);  // a secret is never repeated
    CHECK(job.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("environment: a job of MPICH's on several hosts meets by its launcher's address, and needs one") {
  const Environment several = with(with(mpich, "MPI_LOCALNRANKS", "2"), "RONDO_RENDEZVOUS_DIR", "/shared");
  CHECK(detect(several, "h0:1").value().name != detect(several, "h0:2").value().name);
  const auto unseen = detect(several, "");
  REQUIRE_FALSE(unseen.ok());
  CHECK(unseen.error().message.find("hydra_pmi_proxy") != std::string::npos);

  using namespace std::string_literals;
  CHECK(parse_control_port("/usr/bin/hydra_pmi_proxy\0--control-port\0h0:45\0--rmk\0user\0"s) == "h0:45");
  CHECK(parse_control_port("proxy\0--control-port\0[::1]:45"s) == "[::1]:45");  // the text ends after the port
  for (const std::string &text : {""s, "\0\0"s, "proxy\0--control-port"s, "proxy\0--control-port\0"s,
                                  "proxy\0x--control-port\0h0:45\0"s})
    CHECK(parse_control_port(text).empty());
}

TEST_CASE("environment: a torchrun job's secret is RONDO_SECRET, or differs from job to job") {
  const auto secret = [](const Environment &environment) { return detect(environment).value().secret; };
  CHECK(format_secret(secret(with(torchrun, "RONDO_SECRET", digits))) == digits);
  CHECK(secret(torchrun) == secret(with(torchrun, "RANK", "0")));
  CHECK_FALSE(secret(torchrun) == secret(with(torchrun, "TORCHELASTIC_RUN_ID", "other")));
  CHECK_FALSE(secret(torchrun) == secret(with(torchrun, "MASTER_PORT", "29501")));
  // Launchers do not keep these variables equal on all ranks, so the secret must not depend on them.
  CHECK(secret(torchrun) == secret(with(torchrun, "TORCHELASTIC_RESTART_COUNT", "1")));
  CHECK(secret(torchrun) == secret(with(torchrun, "MASTER_ADDR", "127.0.0.1")));
  CHECK(secret(torchrun) == secret(with(torchrun, "WORLD_SIZE", "3")));
  CHECK(secret(torchrun) == secret(with(torchrun, "MASTER_PORT", "029500")));
  CHECK(detect(torchrun).value().secret_source.find("TORCHELASTIC_RUN_ID") != std::string::npos);
  CHECK(detect(with(torchrun, "RONDO_SECRET", digits)).value().secret_source == "RONDO_SECRET");
}

TEST_CASE("environment: a job's name becomes a file name that cannot leave its directory, and stays unique") {
  const auto name = [](const std::string &space) {
    return detect(with(open_mpi, "PMIX_NAMESPACE", space)).value().name;
  };
  CHECK(name("../../etc/passwd").find('/') == std::string::npos);
  CHECK(name("prterun-host-1@1") != name("prterun-host-1_1"));
  CHECK(name(std::string(5'000, 'x')).size() < 200);
  CHECK(name(std::string(5'000, 'x')) != name(std::string(5'001, 'x')));
}

TEST_CASE("environment: a real Open MPI describes its jobs as assumed") {
  const std::string root = ::geteuid() == 0 ? "--allow-run-as-root --oversubscribe" : "--oversubscribe";
  check_real_launcher("mpirun.openmpi", root, "Open MPI");
}

TEST_CASE("environment: a real MPICH describes its jobs as assumed") {
  check_real_launcher("mpiexec.hydra", "", "MPICH");
}

TEST_CASE("process stat: names with spaces and parentheses are understood, and nonsense is refused") {
  const std::string rest = " S 17 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
  for (const std::string name : {"sh", "a b", "x) (y", ""}) {
    const auto stat = parse_process_stat("99 (" + name + ")" + rest);
    REQUIRE(stat);
    CHECK(stat->name == name);
    CHECK(stat->parent == 17);
    CHECK(stat->start_ticks == 4242);
    CHECK_FALSE(stat->ended());
  }
  for (const char *text : {"", "1 (", ")(", "1 (x)", "1 (x) S", "1 (x) S 1 2 3", "1 (x) S a b c"})
    CHECK_FALSE(parse_process_stat(text));
  const std::string tail = " 17 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 ";
  CHECK(parse_process_stat("9 (x) Z" + tail + "1 0 7 0 0")->ended());
  CHECK_FALSE(parse_process_stat("9 (x) Z" + tail + "2 0 7 0 0")->ended());  // only the main thread has ended
  CHECK(process_stat(::getpid())->parent == ::getppid());
  CHECK_FALSE(launcher_process().empty());
}
