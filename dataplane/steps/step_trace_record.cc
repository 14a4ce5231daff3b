#include "dataplane/steps/step_trace_record.h"

#include <algorithm>
#include <utility>

namespace janus::dataplane {

void StepTraceRecord::Enter(const Epoch& epoch) {
  epoch_ = epoch;
  is_kept_ = false;
  const auto clear = [&](StepTrace& trace) {
    trace = StepTrace();
    trace.role = epoch.role;
    trace.rank = epoch.rank;
    trace.epoch = epoch.number;
    trace.layers = epoch.layers;
    trace.spans.reserve(epoch.most_of_step);
  };
  clear(running_);
  const MutexLock lock(mu_);
  most_of_layer_ = std::max(epoch.most_of_layer, 1);
  for (StepTrace& one : kept_) clear(one);
}

void StepTraceRecord::BeginStep(uint64_t step, MonotonicTime at) {
  is_kept_ = step % kEvery == 0;
  if (!is_kept_) return;
  Enters(-1, 0);
  took_ = 0;
  running_.spans.clear();
  running_.step = step;
  running_.began_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

void StepTraceRecord::EndTiming() {
  if (!is_kept_ || running_.spans.size() >= epoch_.most_of_step) return;
  running_.spans.push_back({StepWork::kHost, layer_, micro_batch_, 0});
}

void StepTraceRecord::Took(StepWork work, Seconds took) {
  if (!is_kept_ || took_ >= running_.spans.size()) return;
  StepSpan& span = running_.spans[took_++];
  span.work = work;
  span.took_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
}

void StepTraceRecord::EndStep() {
  if (!std::exchange(is_kept_, false)) return;
  const MutexLock lock(mu_);
  std::swap(kept_[next_], running_);
  next_ = (next_ + 1) % kept_.size();
}

std::vector<StepTrace> StepTraceRecord::Read(size_t most) const {
  std::vector<StepTrace> out;
  if (most == 0) return out;
  const MutexLock lock(mu_);
  const size_t layers = most / kept_.size() / static_cast<size_t>(most_of_layer_);
  for (const StepTrace& one : kept_) {
    if (one.spans.empty()) continue;
    out.push_back(one);
    KeepMiddle(out.back(), static_cast<int>(std::clamp(layers, size_t{1}, size_t{1} << 20)));
  }
  return out;
}

}  // namespace janus::dataplane
