#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/status.h"

namespace janus::dataplane {

// Whether an answer may end where it is.
enum class GrammarState : uint8_t { kOpen, kMayEnd, kComplete };

// Follows one answer from its beginning. Thread-compatible. After an error every call fails.
class TokenReader {
 public:
  virtual ~TokenReader() = default;
  // Takes tokens of the answer.
  virtual Result<GrammarState> Consume(std::span<const int32_t> tokens) = 0;
  // Sets bit i % 32 of word i / 32 if token i may come next, and clears the others.
  virtual Result<GrammarState> Mask(std::span<uint32_t> words) = 0;
};

// What the answer of a request must look like. Immutable and thread-safe.
class TokenGrammar {
 public:
  virtual ~TokenGrammar() = default;
  virtual Result<std::unique_ptr<TokenReader>> Start() const = 0;
  // Ids of its tokens are below; no other token may come.
  virtual size_t tokens() const = 0;
};

}  // namespace janus::dataplane
