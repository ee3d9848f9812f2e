// SPDX-License-Identifier: Apache-2.0
// These boards ignore what a rank publishes about its messages. A test derives from them, and decides what ranks read.
#pragma once

#include "src/links/message_boards.h"

namespace rondo_test {

class QuietBoards : public rondo::MessageBoards {
 public:
  void announce(uint32_t, bool, uint64_t) override {}
  void enter_batch() override {}
  uint64_t begin(const rondo::MessageInfo &) override { return 0; }
  void complete(uint64_t, const rondo::MessageInfo &, rondo::MessageRun) override {}
  void fail(uint64_t) override {}
  void complete_batch() override {}
  void block(uint32_t, const rondo::BlockedSend &) override {}
};

}  // namespace rondo_test
