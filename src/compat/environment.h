// SPDX-License-Identifier: Apache-2.0
// This file declares the translation of NCCL's variables about messages.
#pragma once

namespace rondo::compat {

/// Sets RONDO_LOG and RONDO_LOG_FILE by NCCL_DEBUG and NCCL_DEBUG_FILE, unless they are set. At the level WARN or
/// above, also lists the variables of NCCL without effect. Only the first call has an effect. Like NCCL with its
/// configuration file, it changes the environment, so call it before Rondo's first call.
void adopt_environment();

}  // namespace rondo::compat
