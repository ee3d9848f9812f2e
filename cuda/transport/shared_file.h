// SPDX-License-Identifier: Apache-2.0
// This file shares host memory among all ranks of a node: a file without a name, which one rank makes and the others
// take. All ranks of a process use one mapping of it, so that its threads use the same addresses. Only code in cuda/
// includes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/driver/handles.h"
#include "cuda/transport/info_exchange.h"
#include "src/base/unique_handle.h"

namespace rondo::cuda {

/// Shares a file of `bytes` zeros, which rank `maker` makes. Every rank of the communicator calls it. The ranks of a
/// node pass the same `bytes` and `maker`. If `bytes` is 0, the node has no file. `what` is a name such as "the flags".
[[nodiscard]] Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes, uint32_t maker,
                                                InfoExchange &info_exchange);

/// Maps the whole file.
[[nodiscard]] Result<Mapping> map_shared_file(const FileDescriptor &file, const char *what, uint64_t bytes);

/// A file, or a part of one, that this process has mapped and registered for its devices.
struct RegisteredFile {
  PrimaryContext context;  ///< destroyed after the registration
  Mapping mapping;
  HostRegistration registration;
};

/// Maps and registers the whole file. If another rank of this process has done so, returns the same object.
[[nodiscard]] Result<std::shared_ptr<const RegisteredFile>> register_shared_file(const PrimaryContext &context,
                                                                                 const FileDescriptor &file,
                                                                                 const std::string &what,
                                                                                 uint64_t bytes);
/// Maps and registers pages of a file that ranks share already, in the same way. A file has at most one such part.
[[nodiscard]] Result<std::shared_ptr<const RegisteredFile>> register_part(const PrimaryContext &context, int descriptor,
                                                                          uint64_t offset, uint64_t bytes,
                                                                          const std::string &what);
/// Returns where the device of `context` sees the file, or its part.
[[nodiscard]] Result<DevicePointer> device_address(const PrimaryContext &context, const RegisteredFile &file,
                                                   const std::string &what);

}  // namespace rondo::cuda
