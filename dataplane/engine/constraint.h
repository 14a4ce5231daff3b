#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/mutex.h"
#include "dataplane/engine/request.h"
#include "dataplane/engine/token_grammar.h"

namespace janus::dataplane {

// Keeps one request's answer within its grammar. The state depends only on the grammar and the
// answer's tokens, so a replay gives the same, and no other row is concerned.
//
// The mask of the next token takes some time, so another thread computes it while the step runs
// (constraint_thread.h). Thread-safe: the first thread that needs the mask computes it.
class Constraint {
 public:
  // `request` has a grammar. Its generated tokens are taken with the first mask.
  explicit Constraint(const Request& request);

  // Computes the mask of the next token if it is not there yet.
  void Prepare() JANUS_EXCLUDES(mu_);
  // Excludes tokens that the grammar does not allow from the logits [V], with -infinity. An error
  // ends the request: the grammar cannot be followed, or no token can come.
  Status Apply(std::span<float> logits) JANUS_EXCLUDES(mu_);
  // Takes the drawn token. True: the answer is complete.
  Result<bool> Note(int32_t token) JANUS_EXCLUDES(mu_);

 private:
  Status MakeMask() JANUS_REQUIRES(mu_);

  const std::shared_ptr<const TokenGrammar> grammar_;
  const std::vector<int32_t> stop_tokens_;  // may be drawn where the answer may end
  Mutex mu_;
  std::vector<int32_t> given_ JANUS_GUARDED_BY(mu_);  // tokens before the first mask
  std::unique_ptr<TokenReader> reader_ JANUS_GUARDED_BY(mu_);
  bool is_ready_ JANUS_GUARDED_BY(mu_) = false;
  Status failed_ JANUS_GUARDED_BY(mu_);
  GrammarState state_ JANUS_GUARDED_BY(mu_) = GrammarState::kOpen;  // with the mask
  std::vector<uint32_t> mask_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
