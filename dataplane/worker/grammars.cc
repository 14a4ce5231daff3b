#include "dataplane/worker/grammars.h"

#include <algorithm>

#include "dataplane/text/tokenizer.h"

namespace janus::dataplane {
namespace {

GrammarState FromText(text::GrammarState state) {
  switch (state) {
    case text::GrammarState::kOpen:
      return GrammarState::kOpen;
    case text::GrammarState::kMayEnd:
      return GrammarState::kMayEnd;
    case text::GrammarState::kComplete:
      return GrammarState::kComplete;
  }
  return GrammarState::kOpen;
}

class Reader final : public TokenReader {
 public:
  explicit Reader(text::GrammarReader reader) : reader_(std::move(reader)) {}

  Result<GrammarState> Consume(std::span<const int32_t> tokens) override {
    JANUS_ASSIGN_OR_RETURN(const text::GrammarState state, reader_.Consume(tokens));
    return FromText(state);
  }
  Result<GrammarState> Mask(std::span<uint32_t> words) override {
    JANUS_ASSIGN_OR_RETURN(const text::GrammarState state, reader_.Mask(words));
    return FromText(state);
  }

 private:
  text::GrammarReader reader_;
};

class Compiled final : public TokenGrammar {
 public:
  Compiled(std::shared_ptr<const text::Grammar> grammar, size_t tokens)
      : grammar_(std::move(grammar)), tokens_(tokens) {}

  Result<std::unique_ptr<TokenReader>> Start() const override {
    JANUS_ASSIGN_OR_RETURN(text::GrammarReader reader, grammar_->Start());
    return std::unique_ptr<TokenReader>(std::make_unique<Reader>(std::move(reader)));
  }
  size_t tokens() const override { return tokens_; }

 private:
  const std::shared_ptr<const text::Grammar> grammar_;
  const size_t tokens_;
};

}  // namespace

Result<std::shared_ptr<const TokenGrammar>> Grammars::Compile(const std::string& grammar) {
  {
    const MutexLock lock(mu_);
    const auto found =
        std::ranges::find_if(kept_, [&](const auto& one) { return one.first == grammar; });
    if (found != kept_.end()) return found->second;
  }
  JANUS_ASSIGN_OR_RETURN(std::shared_ptr<const text::Grammar> parsed, compiler_->Compile(grammar));
  const std::shared_ptr<const TokenGrammar> compiled =
      std::make_shared<const Compiled>(std::move(parsed), tokens_);
  const MutexLock lock(mu_);
  kept_.emplace_front(grammar, compiled);
  if (kept_.size() > kMostKept) kept_.pop_back();
  return compiled;
}

LoadedTokenizer LoadTokenizer(const std::string& model_dir, const Logger& log) {
  LoadedTokenizer loaded;
  const auto tokenizer = text::Tokenizer::LoadOf(model_dir);
  Status status = tokenizer.status();
  if (status.code() == StatusCode::kNotFound) return loaded;
  if (status.ok()) {
    loaded.id_limit = (*tokenizer)->id_limit();
    Result<std::shared_ptr<const text::GrammarCompiler>> compiler =
        text::GrammarCompiler::Create(**tokenizer);
    if (compiler.ok()) {
      loaded.grammars =
          std::make_unique<Grammars>(*std::move(compiler), static_cast<size_t>(loaded.id_limit));
      return loaded;
    }
    status = compiler.status();
  }
  log.Warning("requests cannot have a grammar: the tokenizer cannot be read",
              {{"error", status.message()}});
  return loaded;
}

}  // namespace janus::dataplane
