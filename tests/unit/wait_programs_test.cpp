// SPDX-License-Identifier: Apache-2.0
// Random programs run under the watch that searches for circles of waiting ranks, on hosts and on devices. If a program
// can continue, no rank may be reported. If each rank has the items in another order, most programs end in a circle,
// which must be found.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/catch.h"
#include "tests/unit/wait_model.h"

using namespace rondo;
using namespace rondo::test;

namespace {

uint64_t program_count() { return std::getenv("RONDO_TEST_ALL") != nullptr ? 10'000 : 100; }

/// Runs `check` with models of the programs, or only with the model of RONDO_SEED.
template <class Check>
void for_each_model(bool legal, bool on_device, const Check &check) {
  const char *const given = std::getenv("RONDO_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 0) : 1;
  for (uint64_t seed = first; seed < first + (given != nullptr ? 1 : program_count()); ++seed) {
    INFO("RONDO_SEED=" << seed);
    Random random(seed);
    Program program = make_program(random, legal);
    program.on_device = on_device;
    Model model(random, std::move(program));
    model.run();
    check(model);
  }
}

}  // namespace

TEST_CASE("wait programs: no rank of a legal program is accused, on one host or several") {
  const bool on_device = GENERATE(false, true);
  CAPTURE(on_device);
  for_each_model(true, on_device, [](const Model &model) {
    if (model.ranks.raised) FAIL("accused: " << model.ranks.raised->message);
    REQUIRE(model.done());
  });
}

TEST_CASE("wait programs: whoever is accused cannot go on, and whatever cannot go on is found") {
  const bool on_device = GENERATE(false, true);
  CAPTURE(on_device);
  uint64_t found = 0, far = 0, sends = 0;
  for_each_model(false, on_device, [&](Model &model) {
    const bool accused = model.ranks.raised.has_value();
    REQUIRE(accused != model.can_end());
    if (!accused) return;
    const std::string &message = model.ranks.raised->message;
    CHECK(model.ranks.raised->status == RONDO_ERROR_MISMATCH);
    ++found;
    sends += message.find(" in send ") != std::string::npos ? 1 : 0;
    const auto &host_of = model.program.host_of;
    far += std::ranges::any_of(host_of, [&](uint32_t host) { return host != host_of.front(); }) ? 1 : 0;
  });
  std::printf("circles: %llu found, %llu of them in programs on several hosts, %llu with a send\n",
              static_cast<unsigned long long>(found), static_cast<unsigned long long>(far),
              static_cast<unsigned long long>(sends));
  if (std::getenv("RONDO_SEED") == nullptr) CHECK((found >= 20 && far >= 10 && sends >= 3));
}
