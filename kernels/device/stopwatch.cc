#include "kernels/device/stopwatch.h"

#include <utility>

#include "common/check.h"

namespace janus::kernels {

Stopwatch::Stopwatch(Context& context, const Clock& clock, size_t max_timings)
    : context_(context), clock_(clock), is_host_(context.is_host()) {
  kinds_.reserve(max_timings);
  if (is_host_) {
    times_.resize(max_timings + 1);
    return;
  }
  for (size_t i = 0; i <= max_timings; ++i) {
    Result<std::unique_ptr<Event>> event = context.MakeTimedEvent();
    if (!event.ok()) {
      context.NoteFailure(std::move(event).status());
      return;
    }
    events_.push_back(*std::move(event));
  }
}

Status Stopwatch::Mark(size_t at) {
  if (is_host_) {
    times_[at] = clock_.Now();
    return OkStatus();
  }
  return context_.Record(*events_[at]);
}

Status Stopwatch::Start() {
  kinds_.clear();
  return Mark(0);
}

Status Stopwatch::EndTiming(int kind) {
  JANUS_CHECK(kinds_.size() < kinds_.capacity(), kinds_.size());
  kinds_.push_back(kind);
  return Mark(kinds_.size());
}

Result<bool> Stopwatch::Query() {
  if (is_host_) return true;
  return context_.Query(*events_[kinds_.size()]);
}

Status Stopwatch::Read(FunctionRef<void(int kind, Seconds took)> each) {
  for (size_t i = 0; i < kinds_.size(); ++i) {
    Seconds took{0};
    if (is_host_) {
      took = times_[i + 1] - times_[i];
    } else {
      JANUS_ASSIGN_OR_RETURN(took, context_.TimeBetween(*events_[i], *events_[i + 1]));
    }
    each(kinds_[i], took);
  }
  return OkStatus();
}

}  // namespace janus::kernels
