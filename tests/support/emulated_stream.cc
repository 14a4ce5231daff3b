#include "tests/support/emulated_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace {

using std::chrono::microseconds;

// Another process may raise a flag without waking a thread here.
constexpr microseconds kBetweenLooks{20};
constexpr microseconds kMostLag{100};
// Sometimes longer than a message between hosts takes.
constexpr microseconds kLongLag{4000};

}  // namespace

EmulatedStream::~EmulatedStream() {
  std::jthread ending;
  {
    const MutexLock lock(mu_);
    is_ending_ = true;
    ending = std::move(thread_);
  }
  changed_.NotifyAll();
}  // waits for the thread

uint64_t EmulatedStream::Push(Queued queued) {
  if (!thread_.joinable()) thread_ = std::jthread([this] { Run(); });
  steps_.push_back(std::move(queued));
  changed_.NotifyAll();
  return ++queued_;
}

Result<uint64_t> EmulatedStream::Queue(Step step) {
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(failure_);
  return Push({std::move(step), true});
}

void EmulatedStream::QueueAlways(std::function<void()> step) {
  const MutexLock lock(mu_);
  Push({[step = std::move(step)](uint64_t) {
          step();
          return OkStatus();
        },
        false});
}

uint64_t EmulatedStream::queued() const {
  const MutexLock lock(mu_);
  return queued_;
}

uint64_t EmulatedStream::run() const {
  const MutexLock lock(mu_);
  return run_;
}

Status EmulatedStream::failure() const {
  const MutexLock lock(mu_);
  return failure_;
}

Status EmulatedStream::Await(uint64_t number) {
  const MutexLock lock(mu_);
  ++waiting_;
  changed_.NotifyAll();
  while (run_ < number) changed_.Wait(mu_);
  --waiting_;
  return failure_;
}

void EmulatedStream::Abandon(Status failure) {
  const MutexLock lock(mu_);
  if (failure_.ok()) failure_ = std::move(failure);
  changed_.NotifyAll();
}

Status EmulatedStream::AwaitFlags(const std::vector<FlagCount>& flags) {
  const MutexLock lock(mu_);
  while (!std::ranges::all_of(flags, HasReached)) {
    JANUS_RETURN_IF_ERROR(failure_);
    changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kBetweenLooks);
  }
  return OkStatus();
}

void EmulatedStream::LagSome() {
  if (!random_.Chance(0.2)) return;
  const microseconds most = random_.Chance(0.1) ? kLongLag : kMostLag;
  const auto until =
      std::chrono::steady_clock::now() + microseconds(random_.Between(1, most.count()));
  const size_t more = steps_.size() + static_cast<size_t>(random_.Between(1, 8));
  while (waiting_ == 0 && !is_ending_ && (most == kLongLag || steps_.size() < more)) {
    if (!changed_.WaitUntil(mu_, until)) return;
  }
}

void EmulatedStream::Run() {
  cuda::host_order_seed = seed_;
  for (;;) {
    Queued next;
    uint64_t number = 0;
    bool is_dropped = false;
    {
      const MutexLock lock(mu_);
      while (steps_.empty() && !is_ending_) changed_.Wait(mu_);
      if (steps_.empty()) return;
      LagSome();
      next = std::move(steps_.front());
      steps_.pop_front();
      number = run_ + 1;
      is_dropped = next.is_dropped_after_failure && !failure_.ok();
    }
    for (int yields = random_.Between(0, 3); yields > 0; --yields) std::this_thread::yield();
    Status status = is_dropped ? OkStatus() : next.step(number);
    next = {};  // frees what the step held
    const MutexLock lock(mu_);
    if (failure_.ok()) failure_ = std::move(status);
    run_ = number;
    changed_.NotifyAll();
  }
}

}  // namespace janus::kernels
