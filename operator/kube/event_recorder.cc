#include "operator/kube/event_recorder.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace janus::control {
namespace {

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

}  // namespace

EventRecorder::EventRecorder(ObjectApi& api, EventRecorderOptions options, const Timeline& timeline)
    : api_(api),
      options_(std::move(options)),
      timeline_(timeline),
      book_(options_.book, timeline.Now()) {}

void EventRecorder::Record(Happening happening) {
  const MonotonicTime now = timeline_.Now();
  const WallTime wall = timeline_.WallNow();
  const MutexLock lock(mu_);
  book_.Record(std::move(happening), now, wall);
  Publish();
}

void EventRecorder::Publish() {
  if (options_.metrics != nullptr) options_.metrics->Publish(book_.statistics(), book_.depth());
}

bool EventRecorder::WriteOne(const CallLimits& limits) {
  std::optional<EventBook::Write> write;
  {
    const MutexLock lock(mu_);
    write = book_.TakeWrite(timeline_.Now());
  }
  if (!write) return false;
  const ApiResult<Node> done = write->is_create
                                   ? api_.Create(EventResource(), write->body, {}, limits)
                                   : api_.Patch(EventResource(), write->event, PatchKind::kMerge,
                                                write->body, Subresource::kNone, {}, limits);
  const MutexLock lock(mu_);
  book_.Finish(*write, done.ok() ? nullptr : &done.error(), timeline_.Now());
  Publish();
  return true;
}

MonotonicTime EventRecorder::Step(const std::stop_token& stop) {
  while (!stop.stop_requested() && WriteOne({options_.write_timeout, stop})) {
  }
  const MonotonicTime now = timeline_.Now();
  const MonotonicTime latest = Add(now, options_.period);
  const MutexLock lock(mu_);
  return std::clamp(book_.NextDeadline().value_or(latest), now, latest);
}

void EventRecorder::Run(const std::stop_token& stop) {
  while (timeline_.WaitUntil(Step(stop), stop)) {
  }
  const MonotonicTime end = Add(timeline_.Now(), options_.flush_timeout);
  {
    const MutexLock lock(mu_);
    book_.Hasten(timeline_.Now());
  }
  for (;;) {
    const Seconds left = end - timeline_.Now();
    if (left <= Seconds(0) || !WriteOne({left, {}})) return;
  }
}

EventStatistics EventRecorder::statistics() const {
  const MutexLock lock(mu_);
  return book_.statistics();
}

size_t EventRecorder::depth() const {
  const MutexLock lock(mu_);
  return book_.depth();
}

}  // namespace janus::control
