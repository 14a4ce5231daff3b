#include "dataplane/gateway/echo.h"

#include <algorithm>

namespace janus::gateway {

Result<Answer::Delta> EchoOf(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                             const std::string& text, std::vector<PositionLogprobs> logprobs,
                             bool skip_special_tokens) {
  const bool with_logprobs = logprobs.size() == prompt.size();
  JANUS_ASSIGN_OR_RETURN(Answer answer,
                         Answer::Create(tokenizer, {.skip_special_tokens = skip_special_tokens,
                                                    .want_logprobs = with_logprobs}));
  TokenEvent event;
  event.tokens.assign(prompt.begin(), prompt.end());
  if (with_logprobs) event.logprobs = std::move(logprobs);
  event.finish = Finish::kLength;
  JANUS_ASSIGN_OR_RETURN(Answer::Delta delta, answer.Push(event));
  if (!text.empty()) delta.text = text;
  // The prompt's tokens are not part of the answer.
  delta.token_ids.clear();
  return delta;
}

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

int64_t PromptLogprobs::Put(int64_t from, std::vector<PositionLogprobs> piece) {
  size_t bytes = 0;
  for (size_t i = 0; i < piece.size(); ++i) {
    bytes += sizeof(piece[i]) + piece[i].top.size() * sizeof(piece[i].top[0]);
    positions_[static_cast<size_t>(from) + i] = std::move(piece[i]);
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace janus::gateway
