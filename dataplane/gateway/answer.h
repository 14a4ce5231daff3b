#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/gateway/generation.h"
#include "dataplane/gateway/stop_matcher.h"
#include "dataplane/text/detokenizer.h"

namespace janus::gateway {

struct AnswerOptions {
  std::vector<std::string> stop{};  // strings that end it
  bool include_stop = false;        // what ends it stays in the text: the string, or the stop token
  bool skip_special_tokens = true;
  bool want_logprobs = false;
  // The token that ends the answer has log probabilities too, and no text. Clients that score an
  // echoed prompt leave out the last token, and count on one that was generated.
  bool scores_end = false;
  int64_t min_tokens = 0;   // stop strings are not looked for before so many tokens
  int64_t text_offset = 0;  // characters before its text, where the prompt is echoed
};

// One answer from its tokens: text in whole characters, ended by stop strings, with the log
// probabilities of the tokens whose text is out. Thread-compatible.
class Answer {
 public:
  struct TokenText {
    int32_t token = 0;
    std::string bytes;        // what it adds to the text, may be no UTF-8
    int64_t text_offset = 0;  // characters of the answer, and of an echoed prompt, before it
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

  // `tokenizer` must outlive it.
  static Result<Answer> Create(const text::Tokenizer& tokenizer, AnswerOptions options);

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
  Answer(const text::Tokenizer& tokenizer, text::Detokenizer detokenizer, AnswerOptions options)
      : tokenizer_(&tokenizer),
        detokenizer_(std::move(detokenizer)),
        matcher_(std::move(options.stop), options.include_stop),
        include_stop_(options.include_stop),
        scores_end_(options.scores_end),
        want_logprobs_(options.want_logprobs),
        min_tokens_(options.min_tokens),
        characters_(options.text_offset) {}

  void Keep(int32_t token, const PositionLogprobs& logprobs, const std::string& piece);
  void Release(Delta* delta);

  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool include_stop_;
  bool scores_end_;
  bool want_logprobs_;
  int64_t min_tokens_;
  Finish finish_ = Finish::kNone;
  int64_t completion_tokens_ = 0;
  size_t produced_ = 0;  // bytes the detokenizer gave
  int64_t characters_;   // before what comes next
  size_t released_ = 0;  // bytes given out
  std::vector<Waiting> waiting_;
};

}  // namespace janus::gateway
