// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange/compression.h"

#include <charconv>
#include <cstdio>

namespace rondo::train {
namespace {

constexpr size_t thin_rank_max = 64;

/// Returns the number after a method's name and colon, if nothing else follows.
template <class Number>
std::optional<Number> number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Compression> find_compression(std::string_view text) {
  if (text == "none" || text == "float32") return Compression{};
  if (text == "bfloat16" || text == "bf16") return Compression{Method::bfloat16};
  if (text == "float16" || text == "fp16") return Compression{Method::float16};
  if (text == "int8") return Compression{Method::int8};
  if (const auto share = number_behind<double>(text, "topk:"); share && *share > 0 && *share <= 1)
    return Compression{Method::top_k, *share};
  if (const auto rank = number_behind<size_t>(text, "powersgd:"); rank && *rank >= 1 && *rank <= thin_rank_max)
    return Compression{Method::power, 0, *rank};
  return std::nullopt;
}

std::string known_compressions() {
  return "none, bfloat16 (bf16), float16 (fp16), int8, topk:SHARE with a share of the gradients over 0 and up to 1, "
         "powersgd:RANK with 1 to " + std::to_string(thin_rank_max) + " columns";
}

std::string name_of(const Compression &compression) {
  switch (compression.method) {
    case Method::none: return "none";
    case Method::bfloat16: return "bfloat16";
    case Method::float16: return "float16";
    case Method::int8: return "int8";
    case Method::top_k: break;
    case Method::power: return "powersgd:" + std::to_string(compression.thin_rank);
  }
  char text[40];
  std::snprintf(text, sizeof text, "topk:%g", compression.share);
  return text;
}

}  // namespace rondo::train
