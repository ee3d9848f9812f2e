// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator on devices meet in the store, in this order. A header of cuda/ alone.
#pragma once

#include <cstddef>
#include <span>

#include "src/bootstrap/outcomes.h"

namespace rondo::cuda {

inline constexpr char placement_key[] = "/cuda-placement";  ///< PlacementCard
inline constexpr char segment_key[] = "/cuda";              ///< SegmentCard
inline constexpr char flags_key[] = "/cuda-flags";          ///< FlagCard, of the copy-engine executor
inline constexpr char connected_key[] = "/cuda-connected";  ///< nothing but whether all went well

template <class Card>
[[nodiscard]] Bytes bytes_of_card(const Card &card) {
  const auto bytes = std::as_bytes(std::span(&card, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace rondo::cuda
