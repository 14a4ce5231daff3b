#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace janus::cli {

// Splits a stream of bytes into the data of server-sent events, wherever the chunks are cut.
// Confined to one thread.
class SseParser {
 public:
  // Calls `on_data` with the text behind each "data:", once per event.
  explicit SseParser(std::function<void(std::string_view)> on_data)
      : on_data_(std::move(on_data)) {}

  // ResourceExhausted: a line of more than 1 MiB.
  Status Feed(std::string_view bytes);

 private:
  std::function<void(std::string_view)> on_data_;
  std::string line_;
};

// The content of one event of a streamed completion.
struct CompletionChunk {
  std::string text;           // of one or more tokens
  std::string finish_reason;  // empty: the answer is not finished
  int prompt_tokens = -1;     // of `usage`, -1: not in this event
  int completion_tokens = -1;
  std::string error;  // set if the event is an error object
};

// InvalidArgument: the text is not JSON of a completion or chat completion.
Result<CompletionChunk> ParseChunk(std::string_view json);

// The message in the body of an error reply; without one, the start of the body.
std::string ErrorMessage(std::string_view body);

}  // namespace janus::cli
