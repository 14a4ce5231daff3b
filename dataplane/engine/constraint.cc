#include "dataplane/engine/constraint.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace janus::dataplane {

Constraint::Constraint(const Request& request)
    : grammar_(request.grammar),
      stop_tokens_(request.ignore_stop_tokens ? std::vector<int32_t>() : request.stop_tokens),
      given_(request.generated) {}

void Constraint::Prepare() {
  const MutexLock lock(mu_);
  if (is_ready_ || !failed_.ok()) return;
  failed_ = MakeMask();
  is_ready_ = failed_.ok();
}

Status Constraint::MakeMask() {
  if (reader_ == nullptr) {
    JANUS_ASSIGN_OR_RETURN(reader_, grammar_->Start());
    JANUS_RETURN_IF_ERROR(reader_->Consume(given_).status());
    given_ = {};
    mask_.resize((grammar_->tokens() + 31) / 32);
  }
  JANUS_ASSIGN_OR_RETURN(state_, reader_->Mask(mask_));
  return OkStatus();
}

Status Constraint::Apply(std::span<float> logits) {
  Prepare();
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(failed_);
  std::vector<std::pair<size_t, float>> ends;  // the stop tokens' logits
  if (state_ != GrammarState::kOpen) {
    for (const int32_t token : stop_tokens_) {
      const auto id = static_cast<size_t>(token);
      if (token >= 0 && id < logits.size()) ends.emplace_back(id, logits[id]);
    }
  }
  bool any = !ends.empty();
  for (size_t first = 0; first < logits.size(); first += 32) {
    const uint32_t word = first / 32 < mask_.size() ? mask_[first / 32] : 0;
    if (word == ~uint32_t{0}) {
      any = true;
      continue;
    }
    const size_t count = std::min<size_t>(32, logits.size() - first);
    for (size_t i = 0; i < count; ++i) {
      if ((word >> i & 1) == 0) {
        logits[first + i] = -INFINITY;
      } else {
        any = true;
      }
    }
  }
  for (const auto& [id, logit] : ends) logits[id] = logit;
  if (any) return OkStatus();
  return InvalidArgument("the grammar allows none of the model's tokens here");
}

Result<bool> Constraint::Note(int32_t token) {
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(failed_);
  if (reader_ == nullptr) {  // drawn without a mask
    given_.push_back(token);
    return false;
  }
  is_ready_ = false;
  Result<GrammarState> state = reader_->Consume(std::span(&token, 1));
  if (!state.ok()) {
    failed_ = state.status();
    return failed_;
  }
  return *state == GrammarState::kComplete;
}

}  // namespace janus::dataplane
