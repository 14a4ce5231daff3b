#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dataplane/engine/request.h"

namespace janus::dataplane {

// A request's changes of its own logits, with what they remember of its tokens. It depends on the
// request and its tokens alone, so that a replay has the same; and it sees one row, so that no
// other request's bits change. The order and the formulas are vLLM's. Thread-compatible.
class LogitChanges {
 public:
  // `request` must outlive it, its `generated` aside.
  explicit LogitChanges(const Request& request);

  // One more token of the answer, drawn here or elsewhere.
  void Note(int32_t token);

  // Changes the logits [V] from which the next token is drawn. -infinity: it cannot be drawn.
  void Apply(std::span<float> logits) const;

 private:
  void ApplyPenalties(std::span<float> logits) const;
  void ApplyMinP(std::span<float> logits) const;

  const Request& request_;
  std::unordered_map<int32_t, int> counts_;  // of the answer's tokens
  std::unordered_set<int32_t> seen_;         // with a repetition penalty: the prompt's and these
  int generated_ = 0;
};

}  // namespace janus::dataplane
