// SPDX-License-Identifier: Apache-2.0
// This file finds out which UCX is installed, and what it would use.
#include <stdio.h>
#include <stdlib.h>

#include <sstream>

#include "transports/ucx/ucx_network.h"
#include "transports/ucx/worker.h"

namespace rondo::ucx {
namespace {

/// Returns the transports in a text of UCX. UCX 1.13 reports them only in a text for people, with lines such as "#
/// resource 1 : md 1 dev 1 flags -- tcp/eth0".
std::vector<std::string> transports_in(const std::string &text) {
  std::vector<std::string> transports;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find_last_of(' ');
    if (line.find(" resource ") != std::string::npos && space != std::string::npos && space + 1 < line.size())
      transports.push_back(line.substr(space + 1));
  }
  return transports;
}

std::string print_info(const Worker &worker) {
  char *text = nullptr;
  size_t bytes = 0;
  FILE *const stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return "";
  worker.api().ucp_context_print_info(worker.context(), stream);
  ::fclose(stream);
  const std::string copy(text, bytes);
  ::free(text);
  return copy;
}

}  // namespace

Report look_for_ucx() {
  Report report;
  report.built = true;
  const auto api = load_api();
  if (!api.ok()) {
    report.why_not = api.error().message;
    return report;
  }
  report.found = true;
  report.version = api.value()->ucp_get_version_string();
  const auto worker = Worker::open();
  if (!worker.ok()) {
    report.why_not = worker.error().message;
    return report;
  }
  report.transports = transports_in(print_info(*worker.value()));
  report.takes_cuda_memory = worker.value()->takes_cuda_memory();
  return report;
}

}  // namespace rondo::ucx
