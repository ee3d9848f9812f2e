// SPDX-License-Identifier: Apache-2.0
// This class is a rank that runs a random program of messages, and checks what it receives.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "rondo/rondo.h"
#include "tests/exchange_item.h"
#include "tests/message_program.h"

namespace rondo_test {

/// A rank's calls, and the buffers of all its items.
class Caller {
 public:
  Caller(const MessageProgram &program, uint32_t rank, std::vector<rondo_comm_t> comms, rondo_stream_t stream)
      : program_(program), rank_(rank), comms_(std::move(comms)), stream_(stream), buffers_(2 * program.items.size()) {}

  rondo_status_t run() {
    const auto made = run_calls(program_, rank_, [this](size_t index) { return call(index); });
    if (made != RONDO_OK) return made;
    if (stream_ != nullptr)
      if (const auto status = rondo_stream_synchronize(stream_); status != RONDO_OK) return status;
    return right() ? RONDO_OK : RONDO_ERROR_INTERNAL;
  }

 private:
  rondo_status_t call(size_t index) {
    const Item &item = program_.items[index];
    const rondo_comm_t comm = comms_[item.comm];
    std::vector<std::byte> &out = buffers_[2 * index], &in = buffers_[2 * index + 1];
    if (item.exchange != Exchange::none)
      return ExchangeCall(item, rank_, program_.rank_count).run(out, in, comm, stream_);
    if (item.collective) {
      out.resize(item.bytes);
      for (size_t i = 0; i < item.bytes / 4; ++i) {
        const int32_t value = contribution(item, rank_, i);
        std::memcpy(&out[4 * i], &value, 4);
      }
      return rondo_all_reduce(out.data(), out.data(), item.bytes / 4, RONDO_INT32, RONDO_SUM, comm, stream_);
    }
    if (item.from == rank_) {
      out = contents_of(item);
      const auto sent = rondo_send(out.data(), item.bytes, RONDO_INT8, static_cast<int>(item.to), comm, stream_);
      if (sent != RONDO_OK) return sent;
    }
    if (item.to != rank_) return RONDO_OK;
    in.resize(item.bytes);
    return rondo_recv(in.data(), item.bytes, RONDO_INT8, static_cast<int>(item.from), comm, stream_);
  }

  [[nodiscard]] bool right() const {
    for (size_t index = 0; index < program_.items.size(); ++index) {
      const Item &item = program_.items[index];
      if (item.exchange != Exchange::none) {
        if (!ExchangeCall(item, rank_, program_.rank_count).right(buffers_[2 * index + 1])) return false;
        continue;
      }
      if (item.collective && !are_sums(buffers_[2 * index], item, program_.rank_count)) return false;
      if (item.collective || item.to != rank_) continue;
      if (!same_bytes(buffers_[2 * index + 1], contents_of(item))) return false;
    }
    return true;
  }

  const MessageProgram &program_;
  const uint32_t rank_;
  const std::vector<rondo_comm_t> comms_;
  const rondo_stream_t stream_;
  std::vector<std::vector<std::byte>> buffers_;  ///< by item: what the rank sends, and what it receives
};

}  // namespace rondo_test
