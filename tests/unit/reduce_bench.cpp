// SPDX-License-Identifier: Apache-2.0
// This program is no test. It prints the throughput of reduction.h by type and implementation. Two operands come from
// the second-level cache or from memory. They are reduced to one result, or to two, as in a reduction's last step. An
// argument names the only type to measure. GB/s are bytes of the result, so that types compare per byte of a message.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "src/engine/reduction/reduction.h"

namespace {

using namespace rondo;

constexpr int round_count = 7;  // the best one counts, since noise only adds time

/// Returns the time of this thread's work, so that other programs on the machine count less.
uint64_t cpu_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// Returns GB/s of result bytes. Operands are ordinary numbers in every type, so nothing overflows or goes subnormal.
double throughput(ReductionFunction function, rondo_type_t type, size_t bytes, size_t passes_bytes,
                  uint32_t output_count = 1) {
  std::vector<std::byte> a(bytes), b(bytes), out(bytes), second(bytes);
  for (size_t at = 0; at < bytes; ++at) a[at] = b[at] = std::byte(at % 2 == 0 ? 0x38 : 0x3C);
  ReductionArgs args{};
  args.inputs[0] = a.data();
  args.inputs[1] = b.data();
  args.outputs[0] = out.data();
  args.outputs[1] = second.data();
  args.input_count = 2;
  args.output_count = output_count;
  args.count = bytes / rondo_type_size(type);
  const size_t pass_count = std::max<size_t>(passes_bytes / bytes, 1);
  uint64_t best_ns = UINT64_MAX;
  for (int round = 0; round < round_count; ++round) {
    const uint64_t start_ns = cpu_time_ns();
    for (size_t pass = 0; pass < pass_count; ++pass) function(args);
    best_ns = std::min(best_ns, cpu_time_ns() - start_ns);
  }
  return static_cast<double>(bytes * pass_count) / static_cast<double>(best_ns);
}

}  // namespace

int main(int argument_count, char **arguments) {
  std::printf("%-12s %-5s %-8s %14s %14s %14s\n", "type", "op", "target", "128 KiB GB/s", "to two", "32 MiB GB/s");
  for (int type_index = 0; rondo_type_string(static_cast<rondo_type_t>(type_index)) != nullptr; ++type_index) {
    const auto type = static_cast<rondo_type_t>(type_index);
    if (argument_count > 1 && std::strcmp(arguments[1], rondo_type_string(type)) != 0) continue;
    for (const rondo_op_t op : {RONDO_SUM, RONDO_PROD, RONDO_MAX})
      for (const ReductionTarget &target : reduce_targets()) {
        if (!target.runs_here()) continue;
        const ReductionFunction function = target.find(type, op);
        std::printf("%-12s %-5s %-8s %14.2f %14.2f %14.2f\n", rondo_type_string(type), rondo_op_string(op), target.name,
                    throughput(function, type, size_t{128} << 10, size_t{8} << 20),
                    throughput(function, type, size_t{128} << 10, size_t{8} << 20, 2),
                    throughput(function, type, size_t{32} << 20, size_t{32} << 20));
      }
  }
  return 0;
}
