// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/pointer_probe.h"

#include <array>

#include "src/base/runtime_library.h"

namespace rondo::cuda {

PointerProbe PointerProbe::find(const std::string &library) {
  PointerProbe probe;
  // The file is never closed, so the driver stays loaded as long as the probe may call it.
  RuntimeLibrary file;
  if (file.open_loaded(library)) file.find(probe.ask_, "cuPointerGetAttributes");
  return probe;
}

bool PointerProbe::is_device_memory(const void *pointer) const {
  if (ask_ == nullptr) return false;
  unsigned type = 0, managed = 0;
  std::array attributes{PointerAttribute::memory_type, PointerAttribute::is_managed};
  std::array<void *, attributes.size()> values{&type, &managed};
  // An uninitialised driver has no device memory, and its status says that it is not initialised.
  const CuStatus status = ask_(static_cast<unsigned>(attributes.size()), attributes.data(), values.data(),
                               reinterpret_cast<DevicePointer>(pointer));
  return status == CuStatus::success && type == static_cast<unsigned>(MemoryType::device) && managed == 0;
}

}  // namespace rondo::cuda
