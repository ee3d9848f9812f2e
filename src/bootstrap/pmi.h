// SPDX-License-Identifier: Apache-2.0
// The little that is asked of MPICH's launcher (Hydra) over the socket that it hands to each rank: by which name it
// knows the job. Its variables hold none that all hosts share.
#pragma once

#include <string>

namespace rondo {

/// The name of the job's key space, from the socket `descriptor` (PMI_FD). Empty where nobody answers within 5 s. The
/// request changes nothing, may be made before and after MPI_Init, but not while another thread is in there.
[[nodiscard]] std::string pmi_job_name(int descriptor);

}  // namespace rondo
