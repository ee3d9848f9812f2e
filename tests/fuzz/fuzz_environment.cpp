// SPDX-License-Identifier: Apache-2.0
// Fuzzes the detection of a job. Input is "NAME=value" lines, in which a number may stand for a known name.
#include <map>

#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/environment.h"
#include "src/bootstrap/messages.h"
#include "src/bootstrap/launch/process_info.h"
#include "tests/fuzz/fuzz_input.h"

using namespace rondo;

namespace {

constexpr std::array names{
    "RONDO_RANK", "RONDO_SIZE", "RONDO_STORE", "RONDO_SECRET", "RONDO_LOCAL_RANK", "RANK", "WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE", "RONDO_PORT",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_LOCALID",
    "SLURM_STEP_NUM_NODES", "SLURM_RESTART_COUNT", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_JOB_ID", "FLUX_JOB_NNODES",
    "FLUX_TASK_LOCAL_ID", "FLUX_KVS_NAMESPACE", "PMIX_RANK", "PALS_RANKID", "PMI_LOCAL_SIZE", "TORCHELASTIC_RUN_ID",
    "LOCAL_WORLD_SIZE", "RONDO_RENDEZVOUS_DIR"};

void check(const Result<Job> &job) {
  if (!job.ok()) {
    fuzz::require(!job.error().message.empty(), "a refusal says why");
    fuzz::require(job.error().message.find('\n') == std::string::npos, "a message is one line");
    return;
  }
  const Job &found = job.value();
  fuzz::require(found.size >= 1 && found.size <= gather_count_max && found.rank < found.size, "rank is within size");
  fuzz::require(found.local_rank < static_cast<int32_t>(found.size), "local rank is within size");
  fuzz::require(found.name.find('/') == std::string::npos && found.name.size() < 200, "the name is a file's");
  if (found.rendezvous == Job::RendezvousMethod::file) {
    fuzz::require(!found.name.empty() && found.name.front() != '.', "the name is not empty or hidden");
    fuzz::require(found.directory.starts_with('/'), "the directory is absolute");
  }
  if (found.rendezvous == Job::RendezvousMethod::store || found.rendezvous == Job::RendezvousMethod::listen)
    fuzz::require(found.endpoint.port != 0 && !found.endpoint.host.empty(), "the endpoint is one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const std::string text(reinterpret_cast<const char *>(data), bytes);
  std::map<std::string, std::string> environment;
  size_t at = 0;
  while (at < text.size()) {  // a line has a name's number, as a character from '0', and then a value
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    environment[names[static_cast<unsigned char>(line[0] - '0') % names.size()]] = line.substr(1);
    if (const auto endpoint = parse_endpoint(line); endpoint.ok())
      fuzz::require(parse_endpoint(format_endpoint(endpoint.value())).value() == endpoint.value(),
                    "an endpoint survives a round trip");
    (void)parse_process_stat(line);
    (void)parse_control_port(line);
    (void)parse_secret(line);
  }
  const auto lookup = [&environment](const char *name) -> const char * {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  check(detect_job({lookup, [] { return std::string("1-2"); }, [&text] { return parse_control_port(text); }}));
  return 0;
}
