// SPDX-License-Identifier: Apache-2.0
// This file finds the job of this process in the variables that its launcher has set. Its functions are pure: the
// caller passes the environment.
//
// The first launcher of this list whose variables exist is chosen. Variables in brackets are optional:
//   rondo run  RONDO_RANK, RONDO_SIZE, RONDO_STORE, RONDO_SECRET [RONDO_LOCAL_RANK]
//   torchrun   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT [LOCAL_RANK, LOCAL_WORLD_SIZE, RONDO_PORT, RONDO_SECRET,
//              TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID]; a job of one rank needs only RANK and WORLD_SIZE
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE and PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid
//              [OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE]
//   Flux       FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_JOB_ID [FLUX_TASK_LOCAL_ID, FLUX_JOB_NNODES, FLUX_KVS_NAMESPACE]
//   MPICH      PMI_RANK, PMI_SIZE [MPI_LOCALRANKID, MPI_LOCALNRANKS]. The job is named after its launcher's process. On
//              several hosts, the name is the address at which mpiexec listens for its proxies.
//   Slurm      SLURM_PROCID, SLURM_JOB_ID, SLURM_STEP_ID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS
//              [SLURM_LOCALID, SLURM_STEP_NUM_NODES, SLURM_RESTART_COUNT]. A batch script outside srun is no job. Slurm
//              precedes MPICH if PMI_JOBID names the step, because srun --mpi=pmi2 sets MPICH's variables, too.
//   none       A group of one rank. It is an error if a variable says that this process is one of several ranks, and
//              the rest of the description is missing, or is from an unsupported launcher.
// A variable that is set but empty counts as not set, as in src/base/config.h.
#pragma once

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

struct Job {
  enum class RendezvousMethod {
    alone,  ///< one rank, which meets no other
    store,  ///< a store that runs already, at `endpoint`
    listen, ///< rank 0 runs the store at `endpoint`, which may have a name as its host
    file    ///< rank 0 runs the store anywhere and publishes its address in the file `name` of `directory`
  };
  std::string launcher = "none";
  uint32_t rank = 0;
  uint32_t size = 1;
  int32_t local_rank = -1;  ///< -1: unknown
  RendezvousMethod rendezvous = RendezvousMethod::alone;
  Endpoint endpoint;      ///< for the methods `store` and `listen`
  Secret secret;          ///< for the methods `store` and `listen`
  std::string secret_source{};  ///< for messages: the variables that determine the secret
  std::string name;       ///< for `file`: unique among the jobs of this user (letters, digits, '-', '_' and '.')
  std::string directory;  ///< for `file`: directory in which the rendezvous directory is made
  bool several_hosts = false;
};

struct EnvironmentView {
  EnvironmentLookup lookup;
  /// Returns "PID-STARTTIME" of the process that started the ranks, as the job's name if the launcher gives none.
  std::function<std::string()> launcher_process;
  /// Returns the "HOST:PORT" of the process that started ranks on several hosts, or "" if it is not visible here.
  std::function<std::string()> launcher_address{};
};

/// Returns the job. The message of RONDO_ERROR_INVALID_ARGUMENT has the variable, its value and the allowed values.
[[nodiscard]] Result<Job> detect_job(const EnvironmentView &environment);

/// Returns this process's own environment.
[[nodiscard]] EnvironmentView process_environment();

/// Parses 64 hexadecimal digits. The error does not contain the text.
[[nodiscard]] Result<Secret> parse_secret(std::string_view text);
[[nodiscard]] std::string format_secret(const Secret &secret);

}  // namespace rondo
