// SPDX-License-Identifier: Apache-2.0
// This file lets a test wait until ranks have entered the store of a group. Only the store knows that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/clock.h"
#include "src/bootstrap/launch/unique_id.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"

namespace rondo_test {

/// Enters the store of `id` as rank `rank`, so that the store reports the missing ranks. Waits until they are
/// `missing`, such as "rank 3 (1 of 4)". Returns this rank's connection, since its end would count as the end of the
/// rank. The caller holds the clock, so that no deadline passes while the store is slow to answer.
inline std::unique_ptr<rondo::Store> wait_until_missing(const rondo_unique_id_t &id, uint32_t rank, uint32_t size,
                                                        const std::string &missing) {
  const auto decoded = rondo::decode_unique_id(id);
  REQUIRE(decoded.ok());
  const std::string group = rondo::group_name(decoded.value()) + "/";
  auto store = rondo::connect_store(decoded.value().endpoint, decoded.value().secret,
                                    rondo::now_ns() + 120'000'000'000, rondo::Membership{group, rank, size});
  REQUIRE(store.ok());
  std::string told;
  while (told.find(missing) == std::string::npos) {
    const auto asked = store.value()->gather(group + "join", rank, size, {}, rondo::now_ns());
    REQUIRE_FALSE(asked.ok());
    told = asked.error().message;
  }
  return std::move(store).value();
}

}  // namespace rondo_test
