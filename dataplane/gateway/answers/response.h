#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/answer.h"
#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/chat/tool_calls.h"

namespace janus::gateway {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_prompt_tokens = 0;
  int64_t reasoning_tokens = 0;  // of completion_tokens
};

// The ids and names in the answers of one request, and which optional fields they carry.
struct ResponseHead {
  Endpoint endpoint = Endpoint::kChat;
  std::string id;  // "chatcmpl-...", "cmpl-...", "msg_..." or "resp_..."
  std::string model;
  int64_t created_unix_seconds = 0;
  bool stream = false;
  bool logprobs = false;
  int top_logprobs = 0;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  std::optional<int> prompt_logprobs{};  // likeliest tokens shown for each prompt token
  bool logits_hash = false;
  bool is_single = true;           // there is one choice
  std::string repeated_json{};     // of responses
  bool is_cut_to_context = false;  // finish kLength: the context is full
};

// The part of the id that differs between answers.
std::string UniquePart(const ResponseHead& head);

struct ResponseChoice {
  int index = 0;
  Answer::Delta delta{};  // of a chunk, or the whole answer
  Finish finish = Finish::kNone;
  // Chat: taken out of the text. Calls are counted over all chunks of the choice.
  std::string reasoning{};
  std::vector<ToolCall> calls{};
  size_t first_call = 0;          // the number of the first of `calls`
  bool has_called = false;        // in this chunk or an earlier one
  std::string stop_string{};      // that ended it
  bool first = false;             // chunk: the first of this choice, which tells the role
  std::vector<int32_t> prompt{};  // the prompt's ids; printed with return_token_ids
  // One entry for each of `prompt`; printed if the head asks for them.
  std::vector<PositionLogprobs> prompt_logprobs{};
  std::optional<std::string> routed{};  // of its last part: the experts (routed_experts.h)
};

// Bodies in the OpenAI API's forms; pure. A token with only a part of a character is not valid
// UTF-8: it is shown as U+FFFD, and exactly in `bytes`. Log probabilities of completions have no
// `bytes` and show it as "bytes:\xe2\x80". A chunk shows the usage so far if the head asks for
// continuous usage.
std::string ChunkJson(const ResponseHead& head, const ResponseChoice& choice,
                      const text::Tokenizer& tokenizer, const Usage& so_far = {});
// The chunk with the experts of a finished choice. As in SGLang, those of a single choice stand
// beside `choices`.
std::string RoutedChunkJson(const ResponseHead& head, const ResponseChoice& choice);
// The chunk without choices that ends a stream with include_usage.
std::string UsageChunkJson(const ResponseHead& head, const Usage& usage);
std::string ResponseJson(const ResponseHead& head, const std::vector<ResponseChoice>& choices,
                         const Usage& usage, const text::Tokenizer& tokenizer);
std::string ModelJson(std::string_view model, int64_t created_unix_seconds, int64_t max_model_len);
std::string ModelListJson(const std::vector<std::string>& models, int64_t created_unix_seconds,
                          int64_t max_model_len);

// Appends the tokens of `more` to those of `all`.
void Append(Answer::Delta more, Answer::Delta* all);

}  // namespace janus::gateway
