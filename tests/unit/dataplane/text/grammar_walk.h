#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/text/grammar.h"
#include "dataplane/text/tokenizer.h"

namespace janus::text {

// Follows grammars in the tokens of one tokenizer, whose first 256 tokens are the bytes.
class GrammarWalk {
 public:
  explicit GrammarWalk(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)),
        compiler_(GrammarCompiler::Create(*tokenizer_).value()),
        words_(static_cast<size_t>(tokenizer_->id_limit() + 31) / 32) {}

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const GrammarCompiler>& compiler() const { return compiler_; }

  GrammarReader Start(const std::string& grammar) const {
    auto compiled = compiler_->Compile(grammar);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message() << "\n" << grammar;
    return (*compiled)->Start().value();
  }
  std::vector<int32_t> Allowed(GrammarReader& reader) {
    EXPECT_TRUE(reader.Mask(words_).ok());
    std::vector<int32_t> out;
    for (size_t id = 0; id < words_.size() * 32; ++id) {
      if ((words_[id / 32] >> (id % 32) & 1) != 0) out.push_back(static_cast<int32_t>(id));
    }
    return out;
  }
  // Whether the text may end, byte by byte; nothing: a byte is not allowed.
  std::optional<GrammarState> Take(const std::string& grammar, std::string_view text) {
    GrammarReader reader = Start(grammar);
    GrammarState state = GrammarState::kOpen;
    for (const char c : text) {
      const auto id = static_cast<int32_t>(static_cast<uint8_t>(c));
      const std::vector<int32_t> allowed = Allowed(reader);
      if (std::find(allowed.begin(), allowed.end(), id) == allowed.end()) return std::nullopt;
      state = reader.Consume(std::span(&id, 1)).value();
    }
    return state;
  }
  // Whether the whole text is an answer.
  bool Accepts(const std::string& grammar, std::string_view text) {
    return Take(grammar, text).value_or(GrammarState::kOpen) != GrammarState::kOpen;
  }
  // A text of random allowed tokens; nothing: it did not end within 4,000.
  std::optional<std::string> Draw(const std::string& grammar, uint64_t seed) {
    GrammarReader reader = Start(grammar);
    std::mt19937_64 random(seed);
    std::string text;
    for (int i = 0; i < 4000; ++i) {
      const Result<GrammarState> state = reader.Mask(words_);
      EXPECT_TRUE(state.ok()) << state.status().message() << " after " << text;
      if (!state.ok()) return std::nullopt;
      const bool ends = *state == GrammarState::kMayEnd && random() % 4 == 0;
      if (*state == GrammarState::kComplete || ends) return text;
      const std::vector<int32_t> allowed = Allowed(reader);
      if (allowed.empty()) {
        ADD_FAILURE() << "no token is allowed after " << text;
        return std::nullopt;
      }
      const int32_t id = allowed[random() % allowed.size()];
      EXPECT_TRUE(reader.Consume(std::span(&id, 1)).ok()) << text;
      text += tokenizer_->TokenBytes(id).value();
    }
    return std::nullopt;
  }

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<const GrammarCompiler> compiler_;
  std::vector<uint32_t> words_;
};

}  // namespace janus::text
