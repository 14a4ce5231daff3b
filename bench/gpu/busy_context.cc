#include "bench/gpu/busy_context.h"

#include <algorithm>

#include "common/check.h"
#include "common/clock.h"

namespace janus::bench {
namespace {

class HostClock final : public StreamClock {
 public:
  size_t Mark(const kernels::Stream&) override {
    const MutexLock lock(mu_);
    marks_.push_back(MonotonicClock::now());
    return marks_.size() - 1;
  }
  double SecondsOf(size_t mark) override {
    const MutexLock lock(mu_);
    return Seconds(marks_[mark] - marks_[0]).count();
  }
  kernels::Stream own_stream() override { return {}; }

 private:
  Mutex mu_;
  std::vector<MonotonicTime> marks_ JANUS_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<StreamClock> MakeHostClock() {
  return std::make_unique<HostClock>();
}

double UncoveredShare(std::vector<std::pair<double, double>> spans, double begin, double end) {
  if (begin >= end) return 0.0;
  std::ranges::sort(spans);
  double covered = 0.0;
  double until = begin;
  for (const auto& [from, to] : spans) {
    const double first = std::max(from, until);
    const double last = std::min(to, end);
    if (last <= first) continue;
    covered += last - first;
    until = last;
  }
  return 1.0 - covered / (end - begin);
}

BusyContext::~BusyContext() {
  const MutexLock lock(mu_);
  JANUS_CHECK(buffers_.empty(), buffers_.size());
}

std::vector<BusySpan> BusyContext::TakeSpans() {
  const MutexLock lock(mu_);
  return std::exchange(spans_, {});
}

Result<std::byte*> BusyContext::Keep(Result<kernels::Buffer> taken) {
  JANUS_RETURN_IF_ERROR(taken.status());
  std::byte* const data = taken->data();
  const MutexLock lock(mu_);
  buffers_.emplace(data, *std::move(taken));
  return data;
}

void BusyContext::Drop(std::byte* data, size_t bytes) {
  kernels::Buffer dropped;  // freed without the lock: freeing may wait for the device
  const MutexLock lock(mu_);
  auto at = buffers_.find(data);
  while (at->second.size() != bytes) ++at;  // the same memory may be registered more than once
  dropped = std::move(at->second);
  buffers_.erase(at);
}

void BusyContext::EndLaunches() {
  if (!launches_from_) return;
  const size_t end = clock_.Mark(stream());
  const MutexLock lock(mu_);
  spans_.push_back({*launches_from_, end});
  launches_from_.reset();
}

Status BusyContext::QueueIn(void* device, const void* host, size_t bytes) {
  if (!watches_) return of_->CopyIn(device, host, bytes);
  if (came_in_) launches_from_.reset();
  EndLaunches();
  const Status queued = of_->CopyIn(device, host, bytes);
  launches_from_ = clock_.Mark(stream());
  came_in_ = true;
  return queued;
}

Status BusyContext::QueueWaitFlags(std::span<const kernels::FlagCount> flags) {
  if (!watches_) return of_->StreamWaitFlags(flags);
  EndLaunches();
  const Status queued = of_->StreamWaitFlags(flags);
  launches_from_ = clock_.Mark(stream());
  came_in_ = true;
  return queued;
}

Status BusyContext::CopyWithin(void* to, const void* from, size_t bytes) {
  if (!watches_) return of_->CopyWithin(to, from, bytes);
  EndLaunches();
  const Status queued = of_->CopyWithin(to, from, bytes);
  launches_from_ = clock_.Mark(stream());
  came_in_ = false;
  return queued;
}

Status BusyContext::QueueOut(void* host, const void* device, size_t bytes) {
  if (watches_) EndLaunches();
  return of_->CopyOut(host, device, bytes);
}

Status BusyContext::QueueGraph(kernels::Graph& graph) {
  if (!watches_) return of_->Replay(graph);
  EndLaunches();
  const size_t begin = clock_.Mark(stream());
  const Status queued = of_->Replay(graph);
  const size_t end = clock_.Mark(stream());
  const MutexLock lock(mu_);
  spans_.push_back({begin, end});
  return queued;
}

Status BusyContext::WaitForStream() {
  if (watches_) launches_from_.reset();
  return of_->Wait();
}

}  // namespace janus::bench
