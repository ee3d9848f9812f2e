// SPDX-License-Identifier: Apache-2.0
// `rondo nccl` prints the path of Rondo's libnccl.so.2, so that a program can be started or linked with it.
#include <cstdio>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/nccl/library.h"
#include "src/console/command_line.h"

namespace rondo::cli {
namespace {

constexpr console::Manual nccl_manual{
    "rondo nccl",
    "Prints the path of the library that has NCCL's interface and runs its calls by Rondo. A program into which it is\n"
    "preloaded uses it in place of NCCL; share/doc/rondo/docs/nccl.md lists the calls that it has.",
    "rondo nccl [OPTIONS]",
    "  LD_PRELOAD=$(rondo nccl) ./program\n"
    "  rondo run --nccl -n 2 ./program            the same, for the ranks of a job\n"
    "  cc program.c -L$(rondo nccl --folder) -Wl,-rpath,$(rondo nccl --folder) -lnccl\n"};

}  // namespace

int run_nccl(Arguments args) {
  bool folder = false;
  console::CommandLine app(nccl_manual);
  app.add_flag("--folder", folder, "print the folder that the library is in, for a linker's -L");
  if (const auto answer = app.read(args)) {
    if (answer->is_help) {
      std::fputs(answer->text.c_str(), stdout);
      return 0;
    }
    std::fprintf(stderr, "rondo nccl: %s\n", answer->text.c_str());
    return exit_usage;
  }
  const auto library = nccl_library();
  if (!library.ok()) {
    std::fprintf(stderr, "rondo nccl: %s\n", library.error().message.c_str());
    return exit_failed;
  }
  const std::string &path = library.value();
  std::printf("%s\n", (folder ? path.substr(0, path.rfind('/')) : path).c_str());
  return 0;
}

}  // namespace rondo::cli
