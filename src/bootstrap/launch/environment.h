// SPDX-License-Identifier: Apache-2.0
// This file finds the job that this process is part of, from how its launcher describes it in the environment. It is
// pure: the environment is passed in.
//
// The first of these that exists counts:
//   rondo run  RONDO_RANK, RONDO_SIZE, RONDO_STORE, RONDO_SECRET [RONDO_LOCAL_RANK]
//   torchrun   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT [LOCAL_RANK, LOCAL_WORLD_SIZE, RONDO_PORT, RONDO_SECRET,
//              TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID]; a job of one rank needs RANK and WORLD_SIZE alone
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE and PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid
//              [OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE]
//   Flux       FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_JOB_ID [FLUX_TASK_LOCAL_ID, FLUX_JOB_NNODES, FLUX_KVS_NAMESPACE]
//   MPICH      PMI_RANK, PMI_SIZE [MPI_LOCALRANKID, MPI_LOCALNRANKS]; the job's name is its launcher's process, on
//              several hosts the address at which mpiexec listens for the launcher's processes
//   Slurm      SLURM_PROCID, SLURM_JOB_ID, SLURM_STEP_ID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS
//              [SLURM_LOCALID, SLURM_STEP_NUM_NODES, SLURM_RESTART_COUNT]; a batch script outside srun is no job
//              before MPICH where PMI_JOBID is that step: srun --mpi=pmi2 sets MPICH's variables, too
//   none       a group of one rank; an error where a variable says that this process is one of several ranks and the
//              rest of the description is missing, or is of a launcher that is not understood
// A variable that is set but empty counts as not set, as in src/base/config.h.
#pragma once

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

struct Job {
  enum class RendezvousMethod {
    alone,  ///< one rank, nobody to meet
    store,  ///< a store that runs already, at `endpoint`
    listen, ///< rank 0 runs the store at `endpoint`, whose host may be a name
    file    ///< rank 0 runs the store anywhere and publishes its address in the file `name` of `directory`
  };
  std::string launcher = "none";
  uint32_t rank = 0;
  uint32_t size = 1;
  int32_t local_rank = -1;  ///< -1: unknown
  RendezvousMethod rendezvous = RendezvousMethod::alone;
  Endpoint endpoint;      ///< store, listen
  Secret secret;          ///< store, listen
  std::string secret_source{};  ///< store, listen: the variables that it is from, for messages
  std::string name;       ///< file: unique among the jobs of this user (letters, digits, '-', '_' and '.')
  std::string directory;  ///< file: where the rendezvous directory is made
  bool several_hosts = false;
};

struct EnvironmentView {
  EnvironmentLookup lookup;
  /// Names the process that started the ranks, for launchers that give a job no name: "PID-STARTTIME".
  std::function<std::string()> launcher_process;
  /// "HOST:PORT" of what started them on several hosts; empty if this process cannot see it.
  std::function<std::string()> launcher_address{};
};

/// RONDO_ERROR_INVALID_ARGUMENT names the variable, its value and what is allowed.
[[nodiscard]] Result<Job> detect_job(const EnvironmentView &environment);

/// Returns this process's own environment.
[[nodiscard]] EnvironmentView process_environment();

/// Parses 64 hexadecimal digits. The error does not repeat the text.
[[nodiscard]] Result<Secret> parse_secret(std::string_view text);
[[nodiscard]] std::string format_secret(const Secret &secret);

}  // namespace rondo
