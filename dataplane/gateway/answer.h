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
  bool include_stop = false;        // the stop string or stop token stays in the text
  bool skip_special_tokens = true;
  bool want_logprobs = false;
  // The token that ends the answer gets log probabilities too, but no text. Clients that score an
  // echoed prompt drop the last token, and expect that it was generated.
  bool scores_end = false;
  int64_t min_tokens = 0;   // stop strings count only after so many tokens
  int64_t text_offset = 0;  // characters before its text, if the prompt is echoed
};

// Turns tokens into one answer: text in whole characters, ended by stop strings, with the log
// probabilities of tokens when their text is complete. Thread-compatible.
class Answer {
 public:
  struct TokenText {
    int32_t token = 0;
    std::string bytes;        // what it adds to the text; may be incomplete UTF-8
    int64_t text_offset = 0;  // characters of the answer, and of an echoed prompt, before it
    PositionLogprobs logprobs;
  };
  struct Delta {
    int64_t MemoryBytes() const;

    std::string text;
    std::vector<TokenText> tokens;  // only if log probabilities were asked for
    std::vector<int32_t>
        token_ids;  // all generated, including the stop token and those with text held back
    std::vector<uint64_t> logits_hashes;
  };

  // `tokenizer` must outlive it.
  static Result<Answer> Create(const text::Tokenizer& tokenizer, AnswerOptions options);

  // Returns nothing once finished. Internal: the instance sent an impossible event.
  Result<Delta> Push(const TokenEvent& event);

  // kStop also for a stop string; the instance does not know of that end yet.
  Finish finish() const { return finish_; }
  bool stopped_by_string() const { return matcher_.matched(); }
  // The stop string that ended it, or empty.
  const std::string& stop_string() const { return matcher_.match(); }
  // Generated tokens, including the stop token.
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  struct Waiting {
    TokenText text;
    size_t begin, end;  // the bytes of its text in the answer
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
  size_t produced_ = 0;  // bytes from the detokenizer
  int64_t characters_;   // before the next token's text
  size_t released_ = 0;  // bytes returned by Push
  std::vector<Waiting> waiting_;
};

}  // namespace janus::gateway
