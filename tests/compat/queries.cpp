// SPDX-License-Identifier: Apache-2.0
// This part of the test program reads parameters of the library, and properties of a communicator.
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <utility>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

/// Checks that a function reads the number 300, or refuses the number if its type cannot hold it.
template <class Number>
void check_number(ncclResult_t (*get)(ncclParamHandle_t, Number *), ncclParamHandle_t number, ncclParamHandle_t text) {
  Number value = 7;
  if (sizeof value == 1) {
    CHECK_REFUSED(get(number, &value), ncclInvalidArgument, "NCCL_MAX_CTAS is 300, which does not fit");
    CHECK(value == 7);
  } else {
    NCCL(get(number, &value));
    CHECK(static_cast<long>(value) == 300);
  }
  CHECK_REFUSED(get(text, &value), ncclInvalidArgument, "NCCL_SOCKET_IFNAME is a text");
  CHECK_REFUSED(get(nullptr, &value), ncclInvalidArgument, "none that ncclParamBind gave");
  CHECK_REFUSED(get(number, nullptr), ncclInvalidArgument, "NULL");
  ncclParamHandle_t small = nullptr;
  NCCL(ncclParamBind(&small, "NCCL_COMM_BLOCKING"));
  NCCL(get(small, &value));
  CHECK(value == 1);  // the default
}

void check_raw(ncclParamHandle_t number, ncclParamHandle_t text) {
  char bytes[16];
  int length = -7;
  NCCL(ncclParamGet(text, bytes, sizeof bytes, &length));
  CHECK(length == 3 && std::strcmp(bytes, "lo") == 0);
  int64_t value = 0;
  NCCL(ncclParamGet(number, &value, sizeof value, &length));
  CHECK(length == 8 && value == 300);
  CHECK_REFUSED(ncclParamGet(number, bytes, 4, &length), ncclInvalidArgument, "needs a buffer of 8 bytes");
  CHECK(length == 0);
  length = -7;
  CHECK_REFUSED(ncclParamGet(number, bytes, 0, &length), ncclInvalidArgument, "the size of the buffer is 0");
  CHECK(length == -7);
}

void check_texts(ncclParamHandle_t number, ncclParamHandle_t text) {
  const char *value = nullptr;
  int length = 0;
  NCCL(ncclParamGetStr(text, &value));
  CHECK(std::string(value) == "lo");
  CHECK_REFUSED(ncclParamGetStr(number, &value), ncclInvalidArgument, "is a number");
  NCCL(ncclParamGetParameter("NCCL_MAX_CTAS", &value, &length));
  CHECK(std::string(value) == "300" && length == 3);
  CHECK_REFUSED(ncclParamGetParameter("NCCL_ALGO", &value, &length), ncclInvalidArgument, "no parameter NCCL_ALGO");
  CHECK(value == nullptr && length == 0);
}

/// Returns what ncclParamDumpAll() prints.
std::string dumped() {
  std::fflush(stdout);
  std::FILE *const file = std::tmpfile();
  const int saved = ::dup(1);
  CHECK(file != nullptr && saved >= 0 && ::dup2(::fileno(file), 1) == 1);
  ncclParamDumpAll();
  CHECK(::dup2(saved, 1) == 1 && ::close(saved) == 0);
  char text[1024] = {};
  CHECK(std::fseek(file, 0, SEEK_SET) == 0 && std::fread(text, 1, sizeof text - 1, file) > 0);
  std::fclose(file);
  return text;
}

/// Checks that the library fills the struct of an older release, which has `size` bytes, and changes no byte after it.
void check_release(ncclComm_t comm, size_t size, unsigned version) {
  ncclCommProperties_t properties;
  std::memset(&properties, 0x5A, sizeof properties);
  properties.size = size;
  properties.magic = 0xcafebeef;
  properties.version = version;
  NCCL(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.size == size && properties.version == version);
  CHECK(properties.rank == 1 && properties.nRanks == 2 && properties.cudaDev == 0 && properties.nLsaTeams == 2);
  CHECK(!properties.deviceApiSupport && !properties.multimemSupport && properties.ginType == 0);
  CHECK(properties.hostRmaSupport && properties.railedGinType == 0);
  unsigned char bytes[sizeof properties];
  std::memcpy(bytes, &properties, sizeof bytes);
  const size_t later = offsetof(ncclCommProperties_t, commHash), last = offsetof(ncclCommProperties_t, cftSupport);
  constexpr uint64_t unwritten = 0x5A5A5A5A5A5A5A5A;
  CHECK((properties.commHash == unwritten) == (size <= later) && bytes[last] == (size > last ? 0 : 0x5A));
}

uint64_t hash_of(ncclComm_t comm) {
  ncclCommProperties_t properties;
  std::memset(&properties, 0, sizeof properties);
  properties.size = sizeof properties;
  properties.magic = 0xcafebeef;
  properties.version = 23203;
  NCCL(ncclCommQueryProperties(comm, &properties));
  return properties.commHash;
}

/// Checks that all ranks of a communicator have one hash, and that each other communicator has another hash.
void check_hashes(Ranks &ranks) {
  Ranks others(2);
  std::set<uint64_t> hashes;
  for (Ranks *const each : {&ranks, &others}) {
    CHECK(hash_of(each->comm(0)) == hash_of(each->comm(1)));
    CHECK(hashes.insert(hash_of(each->comm(0))).second);
  }
  for (int round = 0; round < 2; ++round) {
    ncclComm_t parts[2] = {};
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) NCCL(ncclCommSplit(ranks.comm(rank), 0, 0, &parts[rank], nullptr));
    NCCL(ncclGroupEnd());
    CHECK(hash_of(parts[0]) == hash_of(parts[1]) && hashes.insert(hash_of(parts[0])).second);
    for (const ncclComm_t part : parts) NCCL(ncclCommDestroy(part));
  }
  const OnDevice current(0);
  for (int lone = 0; lone < 2; ++lone) {  // two communicators of one rank, both by the same id
    ncclUniqueId id{};
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    CHECK(hashes.insert(hash_of(comm)).second);
    NCCL(ncclCommDestroy(comm));
  }
}

/// A set of ranks, which NVIDIA declares in a header for device code.
struct Team {
  int rank_count, rank, stride;
  bool operator==(const Team &) const = default;
};

template <class Function>
Function *function_of(const char *name) {
  auto *const found = reinterpret_cast<Function *>(::dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) fail_test(name, __FILE__, __LINE__, 0);
  return found;
}

/// Checks the teams of a rank, and the ranks that their numbers mean.
void check_teams(Ranks &ranks) {
  auto *const to_world = function_of<int(ncclComm_t, Team, int)>("ncclTeamRankToWorld");
  auto *const to_lsa = function_of<int(ncclComm_t, Team, int)>("ncclTeamRankToLsa");
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const ncclComm_t comm = ranks.comm(rank);
    const Team all{ranks.size(), rank, 1}, alone{1, 0, 1}, none{0, 0, 0};
    const std::pair<const char *, Team> teams[] = {{"ncclTeamWorld", all},
                                                   {"ncclTeamRail", all},
                                                   {"ncclTeamLsa", alone},
                                                   {"ncclTeamCft", alone},
                                                   {"ncclTeamCftMultimem", alone}};
    for (const auto &[name, team] : teams) {
      auto *const team_of = function_of<Team(ncclComm_t)>(name);
      CHECK(team_of(comm) == team);
      CHECK(team_of(nullptr) == none);
      check_last_error(name, __FILE__, __LINE__);
    }
    for (int other = 0; other < ranks.size(); ++other) {
      CHECK(to_world(comm, all, other) == other);
      CHECK(to_lsa(comm, all, other) == other - rank);
    }
    CHECK(to_world(comm, alone, 0) == rank && to_lsa(comm, alone, 0) == 0);
  }
  CHECK(to_world(nullptr, {2, 0, 1}, 1) == -1);
  check_last_error("ncclTeamRankToWorld", __FILE__, __LINE__);
  CHECK(to_lsa(nullptr, {2, 0, 1}, 1) == -1);
  check_last_error("ncclTeamRankToLsa", __FILE__, __LINE__);
}

}  // namespace

void compat_test::check_parameters() {
  ncclParamHandle_t number = nullptr, text = nullptr, again = nullptr;
  NCCL(ncclParamBind(&number, "NCCL_MAX_CTAS"));
  NCCL(ncclParamBind(&text, "NCCL_SOCKET_IFNAME"));
  NCCL(ncclParamBind(&again, "NCCL_MAX_CTAS"));
  CHECK(again == number && text != number);
  CHECK_REFUSED(ncclParamBind(&again, "nccl_max_ctas"), ncclInvalidArgument, "no parameter nccl_max_ctas");
  CHECK(again == number);
  CHECK_REFUSED(ncclParamBind(nullptr, "NCCL_MAX_CTAS"), ncclInvalidArgument, "NULL");
  check_number(ncclParamGetI8, number, text);
  check_number(ncclParamGetI16, number, text);
  check_number(ncclParamGetI32, number, text);
  check_number(ncclParamGetI64, number, text);
  check_number(ncclParamGetU8, number, text);
  check_number(ncclParamGetU16, number, text);
  check_number(ncclParamGetU32, number, text);
  check_number(ncclParamGetU64, number, text);
  check_raw(number, text);
  check_texts(number, text);
  const char **keys = nullptr;
  int count = 0;
  NCCL(ncclParamGetAllParameterKeys(&keys, &count));
  CHECK(count == 6 && std::string(keys[0]) == "NCCL_COMM_BLOCKING" && std::string(keys[5]) == "RONDO_NCCL_VERSION");
  CHECK_REFUSED(ncclParamGetAllParameterKeys(nullptr, &count), ncclInvalidArgument, "NULL");
  const std::string dump = dumped();
  CHECK(dump.find("NCCL_MAX_CTAS (int64_t): value=300 default=0\n") != std::string::npos);
  for (int each = 0; each < count; ++each) CHECK(dump.find(keys[each]) != std::string::npos);
}

void compat_test::check_refused_interfaces() {
  const char *const words = std::getenv("CLIENT_WORDS");
  ncclUniqueId id;
  ncclComm_t comms[2] = {};
  CHECK_REFUSED(ncclGetUniqueId(&id), ncclInvalidArgument, words);
  CHECK_REFUSED(ncclCommInitAll(comms, 1, nullptr), ncclInvalidArgument, words);
  CHECK(comms[0] == nullptr);
}

void compat_test::check_properties() {
  Ranks ranks(2);
  const ncclComm_t comm = ranks.comm(1);
  check_release(comm, 56, 22907);
  check_release(comm, 144, 23102);
  check_release(comm, 152, 23203);
  check_hashes(ranks);
  check_teams(ranks);
  ncclCommProperties_t properties{};
  CHECK_REFUSED(ncclCommQueryProperties(comm, nullptr), ncclInvalidArgument, "NULL");
  CHECK_REFUSED(ncclCommQueryProperties(nullptr, &properties), ncclInvalidArgument, "the communicator is NULL");
  CHECK_REFUSED(ncclCommQueryProperties(comm, &properties), ncclInvalidUsage, "NCCL_COMM_PROPERTIES_INITIALIZER");
  properties.size = sizeof properties;
  properties.magic = 0xcafebeef;
  properties.version = 22800;
  CHECK_REFUSED(ncclCommQueryProperties(comm, &properties), ncclInvalidUsage, "of version 22800");
}
