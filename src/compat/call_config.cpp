// SPDX-License-Identifier: Apache-2.0
#include "src/compat/call_config.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

constexpr int all_policies = 3;  // both bits: NCCL_CTA_POLICY_EFFICIENCY and NCCL_CTA_POLICY_ZERO
constexpr size_t size_first_version = offsetof(ncclCollConfig_t, launchCompletionEvent);
/// NCCL's algorithms. Rondo has two of them.
constexpr std::string_view of_nccl[] = {"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};

/// Returns the names of a list in lower case, without blanks and empty entries.
std::vector<std::string> names_of(const std::string &list) {
  std::vector<std::string> names(1);
  for (const char each : list) {
    if (each == ',') names.emplace_back();
    else if (each != ' ') names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  }
  names.erase(std::remove(names.begin(), names.end(), std::string()), names.end());
  return names;
}

bool is_algorithm(const std::string &name) {
  for (int each = RONDO_ALGORITHM_RING; each <= RONDO_ALGORITHM_HIERARCHICAL_TREE; ++each)
    if (name == rondo_algorithm_string(static_cast<rondo_algorithm_t>(each))) return true;
  return std::find(std::begin(of_nccl), std::end(of_nccl), name) != std::end(of_nccl);
}

/// Returns whether a list of names includes an algorithm. A list that begins with ^ excludes its names.
bool includes(const std::string &list, const char *algorithm, std::string *unknown) {
  std::vector<std::string> names = names_of(list);
  const bool excludes = !names.empty() && names.front().front() == '^';
  if (excludes) names.front().erase(0, 1);
  for (const std::string &each : names)
    if (!is_algorithm(each)) {
      *unknown = "\"" + each + "\"";
      return false;
    }
  return excludes != (std::find(names.begin(), names.end(), algorithm) != names.end());
}

/// Replaces the count and type of a mean of integers, for which Rondo adds up other words (widen() in src/plan). These
/// words determine the plan. For other elements, nothing changes.
void widen_mean(size_t *count, rondo_type_t *type) {
  switch (*type) {
    case RONDO_INT8:
    case RONDO_UINT8:
      *type = RONDO_INT32;
      return;
    case RONDO_INT32:
    case RONDO_UINT32:
      *type = RONDO_INT64;
      return;
    case RONDO_INT64:
    case RONDO_UINT64:
      *type = RONDO_INT64;
      *count *= 2;
      return;
    default:
      return;
  }
}

}  // namespace

ncclResult_t read_call_config(const ncclCollConfig_t *config, const char *function, CallConfig *taken) {
  if (config->size < size_first_version || config->magic != config_magic)
    return refuse(function, "the ncclCollConfig_t was not initialised with NCCL_COLLCONFIG_INITIALIZER");
  if (config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
    return refuse(function, "the configuration's forceAlgSelection is " + std::to_string(config->forceAlgSelection) +
                                "; it must be 0 or 1");
  if (config->CTAPolicy != unset && (config->CTAPolicy < 0 || config->CTAPolicy > all_policies))
    return refuse(function, "the configuration's CTAPolicy is " + std::to_string(config->CTAPolicy) +
                                "; it must be 0 to " + std::to_string(all_policies));
  const char *const algorithms = config->algSelection;
  if (algorithms != nullptr && config->forceAlgSelection == 1) taken->algorithms = algorithms;
  if (config->size >= sizeof *config) taken->event = config->launchCompletionEvent;
  return ncclSuccess;
}

ncclResult_t check_algorithm(const CallConfig &config, const char *function, const ncclComm *comm,
                             rondo_collective_t kind, size_t count, rondo_type_t type, bool averages) {
  if (names_of(config.algorithms).empty()) return ncclSuccess;
  if (averages && comm->rank_count > 1) widen_mean(&count, &type);
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  const rondo_comm_t handle = comm->handle;
  const rondo_status_t asked = rondo_comm_query_plan(handle, kind, count, type, &plan);
  if (asked != RONDO_OK) return pass_on(asked, handle);
  const char *const chosen = rondo_algorithm_string(plan.algorithm);
  std::string unknown;
  if (includes(config.algorithms, chosen, &unknown)) return ncclSuccess;
  const std::string list = "the configuration's algSelection is \"" + config.algorithms + "\"";
  if (unknown.empty())
    return refuse(function, list + ", but Rondo uses " + chosen +
                                " for this call; set forceAlgSelection to 0, or choose by RONDO_ALGORITHM");
  return refuse(function, list + "; no algorithm is named " + unknown);
}

}  // namespace rondo::compat
