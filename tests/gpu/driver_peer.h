// SPDX-License-Identifier: Apache-2.0
// driver_process_test.cpp and driver_peer.cpp share these constants.
#pragma once

#include <cstddef>

inline constexpr size_t peer_bytes = 300'000;
inline constexpr unsigned char parent_byte = 0x21;
inline constexpr unsigned char peer_byte = 0x5A;
inline constexpr int peer_descriptor = 5;  ///< descriptor of the memory that the peer imports
