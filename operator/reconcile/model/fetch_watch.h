#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/reconcile/model/fetch_questions.h"

namespace janus::control {

// Follows the download of a service's Job, with one question at a time. A pod that does not answer
// only costs the numbers. Confined to the running pass.
class FetchWatch {
 public:
  // A new number is a write of the status, so this is also the shortest time between two.
  static constexpr std::chrono::seconds kAskEvery{10};
  // Numbers that are older are not shown.
  static constexpr std::chrono::seconds kOld{30};

  // Takes an answer, and asks the next question when it is due. `address`: of the running pod, or
  // empty: there is none. `again`: when to look again.
  void Look(FetchQuestions& questions, const std::string& address, MonotonicTime now,
            const FetchQuestions::Wake& wake, std::optional<MonotonicTime>& again);

  // How far the pod was; nothing: it has not told lately.
  std::optional<FetchProgress> progress(MonotonicTime now) const;

 private:
  std::string address_;
  std::unique_ptr<FetchQuestion> question_;
  MonotonicTime next_ = {};
  std::optional<FetchProgress> told_;
  MonotonicTime told_at_ = {};
};

}  // namespace janus::control
