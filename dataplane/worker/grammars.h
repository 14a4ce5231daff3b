#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/mutex.h"
#include "dataplane/engine/token_grammar.h"
#include "dataplane/text/grammar.h"

namespace janus::dataplane {

// Compiles what answers must look like, and keeps the latest ones: the choices of a request, and an
// agent's calls, have the same grammar. Thread-safe.
class Grammars {
 public:
  // `tokens`: ids of the tokenizer are below.
  Grammars(std::shared_ptr<const text::GrammarCompiler> compiler, size_t tokens)
      : compiler_(std::move(compiler)), tokens_(tokens) {}

  // Errors as for text::GrammarCompiler::Compile.
  Result<std::shared_ptr<const TokenGrammar>> Compile(const std::string& grammar);

 private:
  static constexpr size_t kMostKept = 16;

  const std::shared_ptr<const text::GrammarCompiler> compiler_;
  const size_t tokens_;
  Mutex mu_;
  std::deque<std::pair<std::string, std::shared_ptr<const TokenGrammar>>> kept_
      JANUS_GUARDED_BY(mu_);  // newest first
};

struct LoadedTokenizer {
  std::unique_ptr<Grammars> grammars;
  int64_t id_limit = 0;  // ids of its tokens are below; 0: unknown
};
// Of the checkpoint folder. Without grammars, with a warning, if they or the tokenizer cannot be
// read; without both if there is no tokenizer.
LoadedTokenizer LoadTokenizer(const std::string& model_dir, const Logger& log);

}  // namespace janus::dataplane
