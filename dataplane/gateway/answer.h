#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/gateway/generation.h"
#include "dataplane/gateway/stop_matcher.h"
#include "dataplane/text/detokenizer.h"

namespace janus::gateway {

// One answer from its tokens: text in whole characters, ended by stop strings, with the log
// probabilities of the tokens whose text is out. Thread-compatible.
class Answer {
 public:
  struct TokenText {
    int32_t token = 0;
    std::string bytes;        // what it adds to the text, may be no UTF-8
    int64_t text_offset = 0;  // characters of the answer before it
    PositionLogprobs logprobs;
  };
  struct Delta {
    int64_t MemoryBytes() const;

    std::string text;
    std::vector<TokenText> tokens;  // only if log probabilities were asked for
    std::vector<int32_t>
        token_ids;  // all generated, also those of held back text and the stop token
    std::vector<uint64_t> logits_hashes;
  };

  static Result<Answer> Create(const text::Tokenizer& tokenizer, std::vector<std::string> stop,
                               bool skip_special_tokens, bool want_logprobs);

  // Nothing once finished. Internal: the instance sent an impossible event.
  Result<Delta> Push(const TokenEvent& event);

  // kStop also for a stop string: the instance then knows nothing of the end yet.
  Finish finish() const { return finish_; }
  bool stopped_by_string() const { return matcher_.matched(); }
  // Generated, the stop token included.
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  struct Waiting {
    TokenText text;
    size_t begin, end;  // bytes of the answer its text took
  };
  Answer(const text::Tokenizer& tokenizer, text::Detokenizer detokenizer,
         std::vector<std::string> stop, bool want_logprobs)
      : tokenizer_(&tokenizer),
        detokenizer_(std::move(detokenizer)),
        matcher_(std::move(stop)),
        want_logprobs_(want_logprobs) {}

  void Keep(int32_t token, const PositionLogprobs& logprobs, const std::string& piece);
  void Release(Delta* delta);

  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool want_logprobs_;
  Finish finish_ = Finish::kNone;
  int64_t completion_tokens_ = 0;
  size_t produced_ = 0;     // bytes the detokenizer gave
  int64_t characters_ = 0;  // the same in characters
  size_t released_ = 0;     // bytes given out
  std::vector<Waiting> waiting_;
};

}  // namespace janus::gateway
