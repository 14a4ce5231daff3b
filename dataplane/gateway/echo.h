#pragma once

#include <span>
#include <string>
#include <vector>

#include "dataplane/gateway/answer.h"

namespace janus::gateway {

// The prompt as the beginning of an answer: its text and, if `logprobs` has one entry for each
// token, the tokens with theirs. `text`: as the client sent it; empty: it sent token ids.
Result<Answer::Delta> EchoOf(const text::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                             const std::string& text, std::vector<PositionLogprobs> logprobs,
                             bool skip_special_tokens);

// Characters of UTF-8 text.
int64_t CountCharacters(std::string_view text);

// Log probabilities of a prompt's tokens as they come, in pieces and perhaps again from another
// instance.
class PromptLogprobs {
 public:
  explicit PromptLogprobs(size_t prompt_tokens) : positions_(prompt_tokens) {
    if (!positions_.empty()) positions_[0].is_absent = true;
  }
  // What a piece adds to the memory held. `from` and its end are within the prompt.
  int64_t Put(int64_t from, std::vector<PositionLogprobs> piece);
  std::vector<PositionLogprobs> Take() { return std::move(positions_); }

 private:
  std::vector<PositionLogprobs> positions_;
};

}  // namespace janus::gateway
