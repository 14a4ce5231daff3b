#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "dataplane/engine/token_grammar.h"

namespace janus {

// A grammar for tests, of `length` tokens: token t may come if t plus all tokens before it is
// divisible by 3. With `may_end` an answer may also end after that many.
class ModularGrammar final : public dataplane::TokenGrammar {
 public:
  ModularGrammar(size_t vocab, int length, int may_end)
      : vocab_(vocab), length_(length), may_end_(may_end) {}

  Result<std::unique_ptr<dataplane::TokenReader>> Start() const override {
    return std::unique_ptr<dataplane::TokenReader>(std::make_unique<Reader>(*this));
  }
  size_t tokens() const override { return vocab_; }

 private:
  class Reader final : public dataplane::TokenReader {
   public:
    explicit Reader(const ModularGrammar& grammar) : grammar_(grammar) {}
    Result<dataplane::GrammarState> Consume(std::span<const int32_t> tokens) override {
      for (const int32_t token : tokens) {
        sum_ += token;
        ++count_;
        if (sum_ % 3 != 0) return InvalidArgument("the grammar does not allow this token");
      }
      return state();
    }
    Result<dataplane::GrammarState> Mask(std::span<uint32_t> words) override {
      for (uint32_t& word : words) word = 0;
      for (size_t id = 0; id < grammar_.vocab_; ++id) {
        const bool fits = (sum_ + static_cast<int64_t>(id)) % 3 == 0;
        if (fits && count_ < grammar_.length_) words[id / 32] |= uint32_t{1} << (id % 32);
      }
      return state();
    }

   private:
    dataplane::GrammarState state() const {
      if (count_ >= grammar_.length_) return dataplane::GrammarState::kComplete;
      return count_ >= grammar_.may_end_ ? dataplane::GrammarState::kMayEnd
                                         : dataplane::GrammarState::kOpen;
    }
    const ModularGrammar& grammar_;
    int64_t sum_ = 0;
    int count_ = 0;
  };

  const size_t vocab_;
  const int length_;
  const int may_end_;
};

}  // namespace janus
