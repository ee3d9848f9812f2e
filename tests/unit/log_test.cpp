// SPDX-License-Identifier: Apache-2.0
// These tests cover RONDO_LOG and RONDO_LOG_FILE, and which variables Rondo reports as misspelt.
#include "src/base/log.h"

#include <array>

#include "src/base/config.h"
#include "tests/catch.h"

using namespace rondo;
using log::Level;
using log::Subsystem;

namespace {

Level level_of(const log::Filter &filter, Subsystem subsystem) { return filter.least[static_cast<size_t>(subsystem)]; }

std::string refusal(std::string_view text) {
  const auto parsed = log::parse_filter(text);
  return parsed.ok() ? "accepted" : parsed.error().message;
}

/// Returns the line about the variable of `entry`, or "" if there is none.
std::string told_of(const std::string &entry) {
  const std::array<std::string, 2> entries{"PATH=/bin", entry};
  const auto lines = unknown_variables(entries);
  CHECK(lines.size() <= 1);
  return lines.empty() ? "" : lines.front();
}

}  // namespace

TEST_CASE("log: a level for all, and levels of subsystems over it, in any case") {
  const log::Filter plain;
  CHECK(level_of(plain, Subsystem::bootstrap) == Level::warning);
  CHECK(log::parse_filter("warning").value() == plain);
  CHECK(log::parse_filter("").value() == plain);
  const auto mixed = log::parse_filter("Info,BOOTSTRAP=debug,plan=Error").value();
  CHECK(level_of(mixed, Subsystem::bootstrap) == Level::debug);
  CHECK(level_of(mixed, Subsystem::plan) == Level::error);
  CHECK(level_of(mixed, Subsystem::failure) == Level::info);
  const auto one = log::parse_filter("memory=debug").value();
  CHECK(level_of(one, Subsystem::memory) == Level::debug);
  CHECK(level_of(one, Subsystem::plan) == Level::warning);
}

TEST_CASE("log: a level or a subsystem that is unknown is refused with those that are known") {
  CHECK(refusal("loud") == "'loud' is not a known level; known are: debug, info, warning, error");
  CHECK(refusal("plan=") == "'' is not a known level; known are: debug, info, warning, error");
  CHECK(refusal("plans=debug") ==
        "'plans' is not a known subsystem; known are: config, bootstrap, topology, transport, plan, memory, device, "
        "failure; did you mean plan?");
  CHECK(refusal("plan=debug,info") == "'info' is a level for all, which comes first, as in info,plan=debug");
}

TEST_CASE("log: the file's name has host and process in it where that is asked for") {
  CHECK(log::file_path("/tmp/%h-%p.log", "node1", 4711).value() == "/tmp/node1-4711.log");
  CHECK(log::file_path("100%%", "node1", 1).value() == "100%");
  for (const char *bad : {"%", "a%", "%x", "%H", "%%%"}) CHECK_FALSE(log::file_path(bad, "node1", 1).ok());
}

TEST_CASE("config: a variable that nothing knows is told with the nearest known name") {
  CHECK(told_of("RONDO_LGO=debug") ==
        "the environment has 'RONDO_LGO', which Rondo does not know; did you mean RONDO_LOG?");
  CHECK(told_of("RONDO_ALGO=ring").ends_with("rondo info lists the variables that it does"));
  CHECK(told_of("RONDO_ALGORITM=ring").ends_with("did you mean RONDO_ALGORITHM?"));
  CHECK(told_of("RONDO_INIT_TIMOUT=3").ends_with("did you mean RONDO_INIT_TIMEOUT?"));
  CHECK(told_of("RONDO_RENDEZVOUSDIR=/x").ends_with("did you mean RONDO_RENDEZVOUS_DIR?"));
  CHECK(told_of("RONDO_SOMETHING_ELSE=1").ends_with("rondo info lists the variables that it does"));
  CHECK(told_of("RONDO_" + std::string(5000, 'X') + "\n=1").size() < 200);
}

TEST_CASE("config: known variables, and those of others, are not told of") {
  for (const ConfigVariable &variable : config_variables()) CHECK(told_of(std::string(variable.name) + "=x") == "");
  for (const char *name : {"RONDO_RANK", "RONDO_STORE", "RONDO_SECRET", "RONDO_PORT", "RONDO_RENDEZVOUS_DIR",
                           "RONDO_SEED", "RONDO_TEST_ANYTHING", "RONDO_ROOT", "RONDON=1", "MY_RONDO_LGO"})
    CHECK(told_of(std::string(name) + "=x") == "");
}
