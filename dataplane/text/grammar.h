#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/status.h"
#include "dataplane/text/tokenizer.h"

struct JanusGrammar;
struct JanusGrammarCompiler;
struct JanusGrammarReader;

// Grammars that an answer must follow (the `llguidance` crate).
namespace janus::text {

// How a text may go on.
enum class GrammarState : uint8_t {
  kOpen,      // it must go on
  kMayEnd,    // it may go on or end
  kComplete,  // it must end
};

// Follows one text from its beginning, in tokens. Thread-compatible.
class GrammarReader {
 public:
  // Takes tokens of the text. InvalidArgument: a token that the grammar does not allow, or a text
  // that takes too much time or memory to follow. Then every further call fails.
  Result<GrammarState> Consume(std::span<const int32_t> tokens);
  // Sets bit i % 32 of word i / 32 if token i may come next, and clears the others. Special tokens
  // may come only where the grammar names them. Errors as for Consume.
  Result<GrammarState> Mask(std::span<uint32_t> words);

 private:
  friend class Grammar;
  struct Free {
    void operator()(JanusGrammarReader* handle) const;
  };
  explicit GrammarReader(JanusGrammarReader* handle) : handle_(handle) {}

  std::unique_ptr<JanusGrammarReader, Free> handle_;
};

// A compiled grammar. Thread-safe. Readers share nothing with it or with each other.
class Grammar {
 public:
  Result<GrammarReader> Start() const;

 private:
  friend class GrammarCompiler;
  struct Free {
    void operator()(JanusGrammar* handle) const;
  };
  explicit Grammar(JanusGrammar* handle) : handle_(handle) {}

  std::unique_ptr<JanusGrammar, Free> handle_;
};

// Compiles grammars for the tokens of one tokenizer. Thread-safe.
class GrammarCompiler {
 public:
  static constexpr size_t kMostBytes = 64u << 10;

  // It needs `tokenizer` only during the call. Internal: the vocabulary cannot be read.
  static Result<std::shared_ptr<const GrammarCompiler>> Create(const Tokenizer& tokenizer);

  // `json`: {"grammars": [{"name", "lark_grammar" or "json_schema"}, ...]}, of at most kMostBytes.
  // The first one is the text's; it may use the others by name. InvalidArgument says what is wrong,
  // or that the grammar is too large. The time is bounded: about 0.3 s for the largest.
  Result<std::shared_ptr<const Grammar>> Compile(std::string_view json) const;

 private:
  struct Free {
    void operator()(JanusGrammarCompiler* handle) const;
  };
  explicit GrammarCompiler(JanusGrammarCompiler* handle) : handle_(handle) {}

  std::unique_ptr<JanusGrammarCompiler, Free> handle_;
};

}  // namespace janus::text
