#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"
#include "dataplane/text/tokenizer.h"

struct JanusDetokenizer;

namespace janus::text {

// Turns a growing list of tokens into text, piece by piece: one object per stream. The pieces and
// the flush together are the decoded text. Every piece is valid UTF-8: a character that spans
// tokens is held back until it is complete. Memory is bounded (a window of at most 32 tokens).
// If a decoder's text for an invalid byte sequence depends on later tokens (byte fallback), the
// pieces may show fewer U+FFFD than decoding all at once. Thread-compatible.
class Detokenizer {
 public:
  // Keeps `tokenizer` alive.
  static Result<Detokenizer> Create(const Tokenizer& tokenizer, bool skip_special_tokens);

  // Returns the text that `ids` make final, often empty or one word. Ids without a token add
  // nothing.
  Result<std::string> Push(std::span<const int32_t> ids);
  // Returns the rest, with U+FFFD for an incomplete character; then starts over.
  Result<std::string> Flush();

 private:
  struct Free {
    void operator()(JanusDetokenizer* handle) const;
  };
  explicit Detokenizer(JanusDetokenizer* handle) : handle_(handle) {}

  std::unique_ptr<JanusDetokenizer, Free> handle_;
};

}  // namespace janus::text
