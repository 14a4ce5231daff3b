#include "operator/reconcile/model/fetch_watch.h"

#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {

void FetchWatch::Look(FetchQuestions& questions, const std::string& address, MonotonicTime now,
                      const FetchQuestions::Wake& wake, std::optional<MonotonicTime>& again) {
  if (address != address_) {
    *this = FetchWatch();
    address_ = address;
    next_ = now;
  }
  if (address.empty()) return;
  if (question_ != nullptr && question_->done()) {
    if (const Result<FetchProgress> told = question_->result(); told.ok()) {
      told_ = *told;
      told_at_ = now;
    }
    question_.reset();
  }
  if (question_ == nullptr && now >= next_) {
    question_ = questions.Ask(address, wake);
    next_ = now + kAskEvery;
  }
  BringForward(again, next_);
}

std::optional<FetchProgress> FetchWatch::progress(MonotonicTime now) const {
  return now < told_at_ + kOld ? told_ : std::nullopt;
}

}  // namespace janus::control
