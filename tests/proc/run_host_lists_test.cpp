// SPDX-License-Identifier: Apache-2.0
// These tests read the hosts of `rondo run` from files, from ranges of names, and from its own environment.
#include "src/cli/hosts/host_list.h"
#include "src/cli/run/options.h"
#include "tests/catch.h"

using namespace rondo;
using namespace rondo::cli;

TEST_CASE("run options: a variable without a value is copied from here") {
  const RunInputs inputs{{}, [](const char *name) { return std::string_view(name) == "HERE" ? "a=b" : nullptr; }};
  const std::vector<const char *> args{"-n", "2", "--env", "HERE", "--env", "B=1", "prog"};
  const auto copied = parse_run_options(args, inputs);
  REQUIRE(copied.ok());
  CHECK(std::get<RunOptions>(copied.value()).environment == std::vector<std::string>{"HERE=a=b", "B=1"});
  const std::vector<const char *> unset{"-n", "2", "--env", "NONE", "prog"};
  CHECK(parse_run_options(unset, inputs).error().message.find("--env NONE: the variable is not set here") == 0);
}

TEST_CASE("run hosts: ranges as Slurm writes them") {
  const auto hosts = parse_hosts("node[01-03,7]:8,login,rack[1]-ib:2");
  REQUIRE(hosts.ok());
  std::string names;
  for (const HostShare &share : hosts.value()) names += share.host + ":" + std::to_string(share.rank_count) + " ";
  CHECK(names == "node01:8 node02:8 node03:8 node7:8 login:1 rack1-ib:2 ");
  CHECK(parse_hosts("n[098-101]").value().back().host == "n101");
  CHECK(parse_hosts("n[0-1023]").value().size() == 1024);
  for (const char *list : {"n[", "n[]", "n[1", "n[2-1]", "n[1-1025]", "n[1-2]x[1-2]", "n[a-b]", "n[1-2],n2", "n[-1]",
                           "n[1-2-3]", "n[1,]", "n[999999999]"})
    CHECK_FALSE(parse_hosts(list).ok());
}

TEST_CASE("run hosts: a file of hosts, as of mpirun and of batch systems") {
  const auto hosts =
      parse_hostfile("# two hosts\na slots=2 max_slots=4\n\nb:3  # here\na\n  n[1-2] slots=8\r\n[::1]:1");
  REQUIRE(hosts.ok());
  std::string names;
  for (const HostShare &share : hosts.value()) names += share.host + " " + std::to_string(share.rank_count) + ", ";
  CHECK(names == "a 3, b 3, n1 8, n2 8, ::1 1, ");
  CHECK(parse_hostfile("a\nb -x\n").error().message.find("line 2, 'b -x': after the host, give slots=N") == 0);
  for (const char *text : {"", "# none\n", "a slots=0", "a slots=x", "-o x", "a;b", "a b"})
    CHECK_FALSE(parse_hostfile(text).ok());
  const RunInputs inputs{[](const std::string &path) -> Result<std::string> {
                           if (path != "mine") return invalid_argument("cannot be read");
                           return std::string("a slots=2\nb\n");
                         }, {}};
  const std::vector<const char *> args{"--hostfile", "mine", "prog", "--hostfile"};
  const auto parsed_file = parse_run_options(args, inputs);
  REQUIRE(parsed_file.ok());
  CHECK(std::get<RunOptions>(parsed_file.value()).rank_count == 3);
  const std::vector<const char *> other{"--hostfile", "other", "prog"};
  const std::vector<const char *> both{"--hostfile", "mine", "--hosts", "a", "prog"};
  CHECK(parse_run_options(other, inputs).error().message == "--hostfile other: cannot be read");
  CHECK(parse_run_options(both, inputs).error().message.find("exclude each other") != std::string::npos);
}
