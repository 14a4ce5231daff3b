#pragma once

#include <span>
#include <string>
#include <vector>

#include "dataplane/gateway/answer.h"

namespace janus::gateway {

// The prompt as the beginning of an answer: its text and, if `logprobs` has one entry per token,
// the tokens with their log probabilities. `text`: as the client sent it; empty: it sent token ids.
Result<Answer::Delta> EchoOf(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                             const std::string& text, std::vector<PositionLogprobs> logprobs,
                             bool skip_special_tokens);

// Characters of UTF-8 text.
int64_t CountCharacters(std::string_view text);

// Collects the log probabilities of a prompt's tokens. They arrive in pieces, and perhaps again
// from another instance.
class PromptLogprobs {
 public:
  explicit PromptLogprobs(size_t prompt_tokens) : positions_(prompt_tokens) {
    if (!positions_.empty()) positions_[0].is_absent = true;
  }
  // Returns the bytes that a piece adds to the memory held. The piece must lie within the prompt.
  int64_t Put(int64_t from, std::vector<PositionLogprobs> piece);
  std::vector<PositionLogprobs> Take() { return std::move(positions_); }

 private:
  std::vector<PositionLogprobs> positions_;
};

}  // namespace janus::gateway
