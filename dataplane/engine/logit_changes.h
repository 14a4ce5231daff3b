#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dataplane/engine/request.h"

namespace janus::dataplane {

// The changes that one request makes to its logits, and what they depend on of its tokens. They
// depend only on the request and its tokens, so a replay gives the same. They see one row, so other
// requests' bits do not change. Order and formulas are vLLM's. Thread-compatible.
class LogitChanges {
 public:
  // `request` must outlive it, except for `generated`.
  explicit LogitChanges(const Request& request);

  // Adds one more token of the answer, drawn here or elsewhere.
  void Note(int32_t token);

  // Changes the logits [V] from which the next token is drawn. -infinity excludes a token.
  void Apply(std::span<float> logits) const;

 private:
  void ApplyPenalties(std::span<float> logits) const;
  void ApplyMinP(std::span<float> logits) const;

  const Request& request_;
  std::unordered_map<int32_t, int> counts_;  // of the answer's tokens
  std::unordered_set<int32_t> seen_;         // with a repetition penalty: of prompt and answer
  int generated_ = 0;
};

}  // namespace janus::dataplane
