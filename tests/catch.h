// SPDX-License-Identifier: Apache-2.0
// This file includes Catch2 v2 or v3 under one name.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;
inline auto Contains(const std::string &part) { return Catch::Matchers::ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>

using Catch::Matchers::Contains;
#endif
