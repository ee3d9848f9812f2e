// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/lines.h"

namespace rondo::cli {

void LineTagger::emit(std::string_view end_of_line, std::string *out) {
  out->append(tag_).append(partial_).append(end_of_line).push_back('\n');
  partial_.clear();
}

void LineTagger::take(std::string_view bytes, std::string *out) {
  while (!bytes.empty()) {  // each round takes a byte or empties partial_
    const size_t newline = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, newline);
    const size_t room = run_line_bytes_max - partial_.size();
    if (piece.size() > room) {
      emit(piece.substr(0, room), out);
      bytes.remove_prefix(room);
    } else if (newline != std::string_view::npos) {
      emit(piece, out);
      bytes.remove_prefix(newline + 1);
    } else {
      partial_.append(piece);
      bytes = {};
    }
  }
}

void LineTagger::finish(std::string *out) {
  if (!partial_.empty()) emit({}, out);
}

}  // namespace rondo::cli
