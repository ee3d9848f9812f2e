// SPDX-License-Identifier: Apache-2.0
// Fuzzes unique ids and rendezvous records. The checksum is arbitrary, or it is right and the contents are arbitrary.
#include <sodium.h>

#include <cstring>

#include "src/bootstrap/launch/rendezvous_file.h"
#include "src/bootstrap/launch/unique_id.h"
#include "tests/fuzz/fuzz_input.h"

using namespace rondo;

namespace {

void check(const rondo_unique_id_t &id) {
  const auto decoded = decode_unique_id(id);
  if (!decoded.ok()) {
    fuzz::require(decoded.error().status == RONDO_ERROR_INVALID_ARGUMENT, "a refusal is an invalid argument");
    return;
  }
  fuzz::require(decoded.value().endpoint.port != 0, "a decoded id has a port");
  const auto again = encode_unique_id(decoded.value());
  // An id with an IPv6 scope that is no interface of this host can be decoded, but not encoded again.
  if (again.ok())
    fuzz::require(decode_unique_id(again.value()).value() == decoded.value(), "an id survives a round trip");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const ByteView all = std::as_bytes(std::span(data, bytes));
  if (const auto record = decode_rendezvous(all))
    fuzz::require(encode(*record) == Bytes(all.begin(), all.end()), "a record survives a round trip");
  rondo_unique_id_t id{};
  std::memcpy(id.internal, data, std::min(bytes, sizeof id.internal));
  check(id);
  constexpr std::string_view start{"RNDO\x01", 5};
  std::memcpy(id.internal, start.data(), start.size());
  constexpr std::string_view key = "rondo unique id, format 1";
  unsigned char digest[32];
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const unsigned char *>(id.internal), 96,
                     raw(bytes_of(key).data()), key.size());
  std::memcpy(id.internal + 96, digest, sizeof digest);
  check(id);
  return 0;
}
