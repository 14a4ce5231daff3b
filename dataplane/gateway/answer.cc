#include "dataplane/gateway/answer.h"

#include <algorithm>

namespace janus::gateway {

Result<Answer> Answer::Create(const text::Tokenizer& tokenizer, AnswerOptions options) {
  JANUS_ASSIGN_OR_RETURN(text::Detokenizer detokenizer,
                         text::Detokenizer::Create(tokenizer, options.skip_special_tokens));
  return Answer(tokenizer, std::move(detokenizer), std::move(options));
}

int64_t Answer::Delta::MemoryBytes() const {
  size_t bytes = text.size() + token_ids.size() * sizeof(token_ids[0]) +
                 logits_hashes.size() * sizeof(logits_hashes[0]);
  for (const TokenText& token : tokens) {
    bytes += sizeof(token) + token.bytes.size() +
             token.logprobs.top.size() * sizeof(token.logprobs.top[0]);
  }
  return static_cast<int64_t>(bytes);
}

void Answer::Keep(int32_t token, const PositionLogprobs& logprobs, const std::string& piece) {
  if (want_logprobs_) {
    Result<std::string> bytes = tokenizer_->TokenBytes(token);
    waiting_.push_back({.text = {.token = token,
                                 .bytes = bytes.ok() ? *std::move(bytes) : std::string(),
                                 .text_offset = characters_,
                                 .logprobs = logprobs},
                        .begin = produced_,
                        .end = produced_ + piece.size()});
  }
  produced_ += piece.size();
  characters_ += std::ranges::count_if(piece, [](char c) { return (c & 0xC0) != 0x80; });
}

// A token is released when its text is. At the end, tokens wholly behind a stop string are released
// too.
void Answer::Release(Delta* delta) {
  released_ += delta->text.size();
  const bool ended = finish_ != Finish::kNone;
  auto keep = waiting_.begin();
  for (; keep != waiting_.end(); ++keep) {
    if (ended ? stopped_by_string() && keep->begin >= released_ : keep->end > released_) break;
    delta->tokens.push_back(std::move(keep->text));
  }
  waiting_.erase(waiting_.begin(), ended ? waiting_.end() : keep);
}

Result<Answer::Delta> Answer::Push(const TokenEvent& event) {
  Delta delta;
  if (finish_ != Finish::kNone) return delta;
  const size_t n = event.tokens.size();
  if (want_logprobs_ && event.logprobs.size() != n) {
    return Internal("the attention instance sent " + std::to_string(event.logprobs.size()) +
                    " log probabilities for " + std::to_string(n) + " tokens");
  }
  const PositionLogprobs none;
  for (size_t i = 0; i < n && !matcher_.matched(); ++i) {
    ++completion_tokens_;
    delta.token_ids.push_back(event.tokens[i]);
    if (i < event.logits_hashes.size()) delta.logits_hashes.push_back(event.logits_hashes[i]);
    // The token that ends the answer belongs to its text only if include_stop is set.
    if (event.finish == Finish::kStop && !event.is_complete && i + 1 == n && !include_stop_) {
      if (scores_end_) Keep(event.tokens[i], want_logprobs_ ? event.logprobs[i] : none, "");
      break;
    }
    JANUS_ASSIGN_OR_RETURN(const std::string piece,
                           detokenizer_.Push(std::span(&event.tokens[i], 1)));
    Keep(event.tokens[i], want_logprobs_ ? event.logprobs[i] : none, piece);
    delta.text += completion_tokens_ <= min_tokens_ ? piece : matcher_.Push(piece);
  }
  if (!matcher_.matched() && event.finish != Finish::kNone) {
    JANUS_ASSIGN_OR_RETURN(const std::string rest, detokenizer_.Flush());
    produced_ += rest.size();
    delta.text += matcher_.Push(rest);
    if (!matcher_.matched()) delta.text += matcher_.Flush();
  }
  finish_ = matcher_.matched() ? Finish::kStop : event.finish;
  Release(&delta);
  return delta;
}

}  // namespace janus::gateway
