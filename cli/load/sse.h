#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::cli {

// Cuts a stream of bytes into the data of server-sent events, however the bytes arrive. Confined to
// one thread.
class SseParser {
 public:
  // `on_data` gets the text behind each "data:", one event each.
  explicit SseParser(std::function<void(std::string_view)> on_data)
      : on_data_(std::move(on_data)) {}

  // ResourceExhausted: a line of more than 1 MiB.
  Status Feed(std::string_view bytes);

 private:
  std::function<void(std::string_view)> on_data_;
  std::string line_;
};

// What one event of a streamed completion says.
struct CompletionChunk {
  bool has_text = false;      // text of one or more tokens
  std::string finish_reason;  // empty: goes on
  int prompt_tokens = -1;     // of `usage`, -1: not in this event
  int completion_tokens = -1;
  std::string error;  // an error object instead
};

// InvalidArgument: not a completion's (or chat completion's) JSON.
Result<CompletionChunk> ParseChunk(std::string_view json);

// The message of an error reply's body, else the body's beginning.
std::string ErrorMessage(std::string_view body);

}  // namespace janus::cli
