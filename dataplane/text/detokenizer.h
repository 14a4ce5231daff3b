#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"
#include "dataplane/text/tokenizer.h"

struct JanusDetokenizer;

namespace janus::text {

// Text of a growing list of tokens, piece by piece: one object per stream. The pieces and the flush
// together are the decoded text, and every piece is whole UTF-8: a character that spans tokens is
// held back until it is complete. Memory is bounded (a window of at most 32 tokens).
// Where a decoder's text of a *broken* byte sequence depends on what comes later (byte fallback),
// the pieces may show fewer U+FFFD than decoding all at once. Thread-compatible.
class Detokenizer {
 public:
  // Keeps `tokenizer` alive by itself.
  static Result<Detokenizer> Create(const Tokenizer& tokenizer, bool skip_special_tokens);

  // Text that `ids` settle, often empty or one word. Ids without a token add nothing.
  Result<std::string> Push(std::span<const int32_t> ids);
  // The rest, where an incomplete character shows as U+FFFD; then begins anew.
  Result<std::string> Flush();

 private:
  struct Free {
    void operator()(JanusDetokenizer* handle) const;
  };
  explicit Detokenizer(JanusDetokenizer* handle) : handle_(handle) {}

  std::unique_ptr<JanusDetokenizer, Free> handle_;
};

}  // namespace janus::text
