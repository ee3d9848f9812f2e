// SPDX-License-Identifier: Apache-2.0
// This program only runs a store: store_host DESCRIPTORS, with RONDO_SECRET. It prints the store's address, and ends
// with its input. It may have DESCRIPTORS descriptors; 0 means as many as the system gives.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/environment.h"

int main(int argc, char **argv) {
  const char *const text = std::getenv("RONDO_SECRET");
  const auto secret = rondo::parse_secret(text == nullptr ? "" : text);
  if (argc != 2 || !secret.ok()) {
    std::fprintf(stderr, "usage: RONDO_SECRET=... store_host DESCRIPTORS\n");
    return 2;
  }
  if (const int most = std::atoi(argv[1]); most != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(most);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  }
  const auto server = rondo::start_store_server({"127.0.0.1", 0}, secret.value());
  if (!server.ok()) {
    std::fprintf(stderr, "store_host: %s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", rondo::format_endpoint(server.value()->endpoint()).c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
