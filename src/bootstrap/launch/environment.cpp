// SPDX-License-Identifier: Apache-2.0
// This file reads the job from the environment, with one function for each launcher.
#include "src/bootstrap/launch/environment.h"

#include <sodium.h>

#include <array>
#include <cstdlib>

#include "src/base/parse.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/messages.h"
#include "src/bootstrap/launch/process_info.h"

namespace rondo {
namespace {

constexpr size_t name_bytes_max = 96;
// Slurm gives the highest numbers to special steps, such as the batch script and an interactive step.
constexpr uint64_t slurm_step_max = 0xffff'fff0;

class Variables {
 public:
  explicit Variables(const EnvironmentView &environment) : environment_(environment) {}

  /// Returns the variable, or "" if it is not set.
  [[nodiscard]] std::string text(const char *name) const {
    const char *value = environment_.lookup(name);
    return value == nullptr ? std::string() : std::string(value);
  }
  [[nodiscard]] bool has(const char *name) const { return !text(name).empty(); }

  [[nodiscard]] Result<uint64_t> number(const char *name, uint64_t min, uint64_t max) const {
    const std::string value = text(name);
    if (value.empty()) return missing(name);
    auto parsed = parse_number(value, min, max);
    if (!parsed.ok()) return invalid_argument(std::string(name) + ": " + parsed.error().message);
    return parsed;
  }

  [[nodiscard]] static Error missing(const char *name) {
    return invalid_argument(std::string("the environment describes a job, but ") + name + " is not set");
  }

 private:
  const EnvironmentView &environment_;
};

Result<void> read_rank(const Variables &variables, const char *rank_name, const char *size_name, Job &job) {
  RONDO_TRY_ASSIGN(const uint64_t size, variables.number(size_name, 1, rank_count_max));
  auto rank = variables.number(rank_name, 0, size - 1);
  if (!rank.ok())
    return invalid_argument(rank.error().message + " (" + size_name + " is " + std::to_string(size) + ")");
  job.size = static_cast<uint32_t>(size);
  job.rank = static_cast<uint32_t>(rank.value());
  return {};
}

Result<void> read_local_rank(const Variables &variables, const char *name, Job &job) {
  if (!variables.has(name)) return {};
  RONDO_TRY_ASSIGN(const uint64_t local_rank, variables.number(name, 0, job.size - 1));
  job.local_rank = static_cast<int32_t>(local_rank);
  return {};
}

Result<void> read_secret(const Variables &variables, Job &job) {
  auto secret = parse_secret(variables.text("RONDO_SECRET"));
  if (!secret.ok()) return invalid_argument("RONDO_SECRET: " + secret.error().message);
  job.secret = secret.value();
  return {};
}

Result<Job> rondo_job(const Variables &variables) {
  Job job;
  job.launcher = "rondo run";
  job.rendezvous = Job::RendezvousMethod::store;
  RONDO_TRY(read_rank(variables, "RONDO_RANK", "RONDO_SIZE", job));
  RONDO_TRY(read_local_rank(variables, "RONDO_LOCAL_RANK", job));
  for (const char *name : {"RONDO_STORE", "RONDO_SECRET"})
    if (!variables.has(name)) return Variables::missing(name);
  auto endpoint = parse_endpoint(variables.text("RONDO_STORE"));
  if (!endpoint.ok()) return invalid_argument("RONDO_STORE: " + endpoint.error().message);
  job.endpoint = endpoint.value();
  job.secret_source = "RONDO_SECRET";
  RONDO_TRY(read_secret(variables, job));
  return job;
}

/// Computes the secret of a torchrun job without RONDO_SECRET, from variables that are surely equal on all ranks. Other
/// variables may differ: MASTER_ADDR has several spellings, and agents count restarts differently after a change of
/// membership. The store compares WORLD_SIZE itself. The secret can be guessed, see docs/bootstrap.md.
Secret derived_secret(const Variables &variables, uint64_t master_port) {
  const std::string input = std::to_string(master_port) + "\n" + variables.text("TORCHELASTIC_RUN_ID");
  constexpr std::string_view key = "rondo secret of a torchrun job";
  Secret secret;
  crypto_generichash(raw(secret.bytes.data()), secret.bytes.size(), raw(bytes_of(input).data()), input.size(),
                     raw(bytes_of(key).data()), key.size());
  return secret;
}

Result<void> read_torchrun_secret(const Variables &variables, uint64_t master_port, Job &job) {
  job.secret_source = "RONDO_SECRET";
  if (variables.has("RONDO_SECRET")) return read_secret(variables, job);
  job.secret = derived_secret(variables, master_port);
  job.secret_source = "MASTER_PORT and TORCHELASTIC_RUN_ID, as RONDO_SECRET is not set";
  return {};
}

/// Reads MASTER_ADDR: a name, an address, or an IPv6 address in brackets.
Result<std::string> read_master_address(const Variables &variables) {
  const std::string text = variables.text("MASTER_ADDR");
  if (text.empty()) return Variables::missing("MASTER_ADDR");
  const bool bracketed = text.front() == '[' && text.find(':') != std::string::npos;
  const auto checked = parse_endpoint((bracketed ? text : "[" + text + "]") + ":1");
  if (!checked.ok()) return invalid_argument("MASTER_ADDR: " + in_quotes(text) + " is not a host name or address");
  return checked.value().host;
}

Result<Job> torchrun_job(const Variables &variables) {
  Job job;
  job.launcher = "torchrun";
  job.rendezvous = Job::RendezvousMethod::listen;
  RONDO_TRY(read_rank(variables, "RANK", "WORLD_SIZE", job));
  RONDO_TRY(read_local_rank(variables, "LOCAL_RANK", job));
  RONDO_TRY_ASSIGN(job.endpoint.host, read_master_address(variables));
  RONDO_TRY_ASSIGN(const uint64_t master_port, variables.number("MASTER_PORT", 1, 65'535));
  uint64_t port = master_port;
  const std::string agent = variables.text("TORCHELASTIC_USE_AGENT_STORE");
  if (agent == "True" || agent == "true" || agent == "1") ++port;  // at MASTER_PORT, torchrun itself listens
  if (variables.has("RONDO_PORT")) {
    RONDO_TRY_ASSIGN(port, variables.number("RONDO_PORT", 1, 65'535));
  }
  if (port > 65'535)
    return invalid_argument("MASTER_PORT: '65535' is taken by torchrun and leaves no port after it; set RONDO_PORT");
  job.endpoint.port = static_cast<uint16_t>(port);
  RONDO_TRY(read_torchrun_secret(variables, master_port, job));
  if (job.size == 1) job.rendezvous = Job::RendezvousMethod::alone;
  if (variables.has("LOCAL_WORLD_SIZE")) {
    RONDO_TRY_ASSIGN(const uint64_t here, variables.number("LOCAL_WORLD_SIZE", 1, job.size));
    if (here == job.size) job.endpoint.host = "127.0.0.1";  // all ranks are on this host
  }
  return job;
}

/// Returns a file name for a job. Unsafe characters become '_'. If the name was changed, a digest keeps it unique.
std::string file_name(const std::string &launcher, const std::string &job) {
  std::string name = launcher + "-";
  bool changed = job.size() > name_bytes_max;
  for (const char c : std::string_view(job).substr(0, name_bytes_max)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_';
    name += plain ? c : '_';
    changed = changed || !plain;
  }
  if (!changed) return name;
  std::array<std::byte, 16> digest;
  crypto_generichash(raw(digest.data()), digest.size(), raw(bytes_of(job).data()), job.size(), nullptr, 0);
  return name + "-" + hexadecimal(digest);
}

Result<Job> rendezvous_by_file(const Variables &variables, Job job, const std::string &prefix,
                               const std::string &name) {
  job.rendezvous = job.size == 1 ? Job::RendezvousMethod::alone : Job::RendezvousMethod::file;
  job.name = file_name(prefix, name);
  job.directory = variables.text("RONDO_RENDEZVOUS_DIR");
  if (job.several_hosts && job.directory.empty())
    return Error{RONDO_ERROR_UNSUPPORTED,
                 job.launcher + " runs this job on several hosts, which need a place to meet: set RONDO_RENDEZVOUS_DIR "
                                "to a directory that all of them share"};
  if (job.directory.empty()) job.directory = "/tmp";
  if (job.directory.front() != '/' || job.directory.size() > 2'000)
    return invalid_argument("RONDO_RENDEZVOUS_DIR: " + in_quotes(job.directory) +
                            " is not the absolute path of a directory");
  return job;
}

/// Returns true if the variable `name` says that not all ranks are on this host.
Result<bool> fewer_here(const Variables &variables, const char *name, const Job &job) {
  if (!variables.has(name)) return false;
  RONDO_TRY_ASSIGN(const uint64_t count, variables.number(name, 1, job.size));
  return count < job.size;
}

Result<Job> open_mpi_job(const Variables &variables) {
  Job job;
  job.launcher = "Open MPI";
  RONDO_TRY(read_rank(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", job));
  RONDO_TRY(read_local_rank(variables, "OMPI_COMM_WORLD_LOCAL_RANK", job));
  RONDO_TRY_ASSIGN(job.several_hosts, fewer_here(variables, "OMPI_COMM_WORLD_LOCAL_SIZE", job));
  std::string name = variables.text("PMIX_NAMESPACE");
  if (name.empty()) name = variables.text("OMPI_MCA_ess_base_jobid");
  if (name.empty()) return Variables::missing("PMIX_NAMESPACE");
  return rendezvous_by_file(variables, job, "openmpi", name);
}

Result<Job> mpich_job(const Variables &variables, const EnvironmentView &environment) {
  Job job;
  job.launcher = "MPICH";
  RONDO_TRY(read_rank(variables, "PMI_RANK", "PMI_SIZE", job));
  RONDO_TRY(read_local_rank(variables, "MPI_LOCALRANKID", job));
  const char *const local_size_name = variables.has("MPI_LOCALNRANKS") ? "MPI_LOCALNRANKS" : "PMI_LOCAL_SIZE";
  RONDO_TRY_ASSIGN(job.several_hosts, fewer_here(variables, local_size_name, job));
  if (job.several_hosts) {  // the launcher has a process on each host, so its pid cannot name the job
    const std::string name = environment.launcher_address ? environment.launcher_address() : "";
    if (name.empty())
      return Error{RONDO_ERROR_UNSUPPORTED,
                   "MPICH runs this job on several hosts, but no parent of this process is a hydra_pmi_proxy with a "
                   "--control-port, from which the ranks could derive where to meet; use rondo_comm_init() with a "
                   "unique id, or rondo run --hosts"};
    return rendezvous_by_file(variables, job, "mpich", name);
  }
  return rendezvous_by_file(variables, job, "mpich", environment.launcher_process());
}

/// Says whether srun started this step. A batch script has these variables, too, but its job has no other ranks.
bool in_slurm_step(const Variables &variables) {
  if (!variables.has("SLURM_PROCID") || !variables.has("SLURM_STEP_ID")) return false;
  const auto step = parse_number(variables.text("SLURM_STEP_ID"), 0, ~uint64_t{0});
  return !step.ok() || step.value() < slurm_step_max;  // an invalid number is reported later
}

/// Says whether the tasks of the Slurm step are this job's ranks. With --mpi=pmi2, srun sets MPICH's variables, and
/// PMI_JOBID contains the job and the step. An MPICH launcher within an allocation sets these variables, too. In that
/// case the tasks of the step are the launcher's proxies.
bool is_ranks_own_slurm_step(const Variables &variables) {
  return in_slurm_step(variables) &&
         variables.text("PMI_JOBID") == variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
}

Result<Job> slurm_job(const Variables &variables) {
  Job job;
  job.launcher = "Slurm";
  const char *size_name = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  RONDO_TRY(read_rank(variables, "SLURM_PROCID", size_name, job));
  RONDO_TRY(read_local_rank(variables, "SLURM_LOCALID", job));
  RONDO_TRY_ASSIGN(const uint64_t job_id, variables.number("SLURM_JOB_ID", 0, 0xffff'ffff));
  RONDO_TRY_ASSIGN(const uint64_t step_id, variables.number("SLURM_STEP_ID", 0, 0xffff'ffff));
  if (variables.has("SLURM_STEP_NUM_NODES")) {
    RONDO_TRY_ASSIGN(const uint64_t host_count, variables.number("SLURM_STEP_NUM_NODES", 1, gather_count_max));
    job.several_hosts = host_count > 1;
  }
  std::string name = std::to_string(job_id) + "-" + std::to_string(step_id);
  if (variables.has("SLURM_RESTART_COUNT")) name += "-restart-" + variables.text("SLURM_RESTART_COUNT");
  return rendezvous_by_file(variables, job, "slurm", name);
}

/// Says whether Flux started this process. Flux also sets MPICH's variables for its tasks. An MPICH launcher that runs
/// within a task sets other values.
bool is_flux_task(const Variables &variables) {
  if (!variables.has("FLUX_TASK_RANK")) return false;
  return !variables.has("PMI_RANK") || (variables.text("PMI_RANK") == variables.text("FLUX_TASK_RANK") &&
                                        variables.text("PMI_SIZE") == variables.text("FLUX_JOB_SIZE"));
}

Result<Job> flux_job(const Variables &variables) {
  Job job;
  job.launcher = "Flux";
  RONDO_TRY(read_rank(variables, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", job));
  RONDO_TRY(read_local_rank(variables, "FLUX_TASK_LOCAL_ID", job));
  if (!variables.has("FLUX_JOB_ID")) return Variables::missing("FLUX_JOB_ID");
  if (variables.has("FLUX_JOB_NNODES")) {
    RONDO_TRY_ASSIGN(const uint64_t host_count, variables.number("FLUX_JOB_NNODES", 1, gather_count_max));
    job.several_hosts = host_count > 1;
  }
  const std::string name = variables.text("FLUX_JOB_ID") + "-" + variables.text("FLUX_KVS_NAMESPACE");
  return rendezvous_by_file(variables, job, "flux", name);
}

/// A variable with a process's rank. Its launcher sets no other variables by which the ranks could meet.
struct ForeignRank {
  const char *variable;
  const char *launcher;
};
constexpr std::array<ForeignRank, 5> foreign_ranks{{{"PMIX_RANK", "PMIx"},
                                                    {"PALS_RANKID", "PALS"},
                                                    {"ALPS_APP_PE", "ALPS"},
                                                    {"JSM_NAMESPACE_RANK", "JSM"},
                                                    {"MV2_COMM_WORLD_RANK", "MVAPICH2"}}};

/// Returns a job of one rank, for a process whose variables describe no job completely. Fails if a variable says that
/// the process is one of several ranks.
Result<Job> lone_job(const Variables &variables) {
  const bool has_rank = variables.has("RANK"), has_size = variables.has("WORLD_SIZE");
  if (has_rank && has_size) {
    Job job;
    RONDO_TRY(read_rank(variables, "RANK", "WORLD_SIZE", job));
    if (job.size > 1) return Variables::missing("MASTER_ADDR");
    job.launcher = "torchrun";
    return job;
  }
  if (has_rank)
    return invalid_argument("RANK is " + in_quotes(variables.text("RANK")) +
                            ", but WORLD_SIZE is not set: set WORLD_SIZE, MASTER_ADDR and MASTER_PORT, too, or unset "
                            "RANK if this process is the only rank");
  if (has_size && variables.text("WORLD_SIZE") != "1")
    return invalid_argument("WORLD_SIZE is " + in_quotes(variables.text("WORLD_SIZE")) +
                            ", but RANK is not set: set RANK, MASTER_ADDR and MASTER_PORT, too, or unset WORLD_SIZE if "
                            "this process is the only rank");
  for (const ForeignRank &each : foreign_ranks)
    if (variables.has(each.variable))
      return Error{RONDO_ERROR_UNSUPPORTED,
                   std::string(each.variable) + " is " + in_quotes(variables.text(each.variable)) + ": " +
                       each.launcher +
                       " started this process as a rank, but its variables do not say how many ranks the job has and "
                       "where they meet. Set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each "
                       "rank, use rondo run, or unset " +
                       each.variable + " if this process is the only rank"};
  return Job{};
}

}  // namespace

Result<Job> detect_job(const EnvironmentView &environment) {
  const Variables variables(environment);
  if (variables.has("RONDO_RANK") || variables.has("RONDO_SIZE") || variables.has("RONDO_STORE"))
    return rondo_job(variables);
  const bool torch_rank = variables.has("RANK") && variables.has("WORLD_SIZE");
  if (torch_rank && (variables.has("MASTER_ADDR") || variables.has("MASTER_PORT"))) return torchrun_job(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) return open_mpi_job(variables);
  if (is_flux_task(variables)) return flux_job(variables);
  if (is_ranks_own_slurm_step(variables)) return slurm_job(variables);
  if (variables.has("PMI_RANK") || variables.has("PMI_SIZE")) return mpich_job(variables, environment);
  if (in_slurm_step(variables)) return slurm_job(variables);
  return lone_job(variables);
}

EnvironmentView process_environment() {
  return {[](const char *name) -> const char * { return ::getenv(name); }, launcher_process, launcher_address};
}

Result<Secret> parse_secret(std::string_view text) {
  Secret secret;
  size_t bytes = 0;
  const int done = text.size() != 2 * secret.bytes.size()
                       ? -1
                       : sodium_hex2bin(raw(secret.bytes.data()), secret.bytes.size(), text.data(), text.size(),
                                        nullptr, &bytes, nullptr);
  if (done != 0 || bytes != secret.bytes.size())
    return invalid_argument("a secret is " + std::to_string(2 * secret.bytes.size()) +
                            " hexadecimal digits; this one (not shown) is " + std::to_string(text.size()) +
                            " characters that are not all such digits, or too few or too many");
  return secret;
}

std::string format_secret(const Secret &secret) { return hexadecimal(secret.bytes); }

}  // namespace rondo
