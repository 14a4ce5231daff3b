#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "tests/support/reconcile/fence_book.h"

namespace janus::control {

// Workers that execute calls at once, unless a later leader has called them: for loops with
// threads, and programs. Thread-safe.
class PromptMembers final : public MemberCalls {
 public:
  // Both outlive this.
  PromptMembers(FenceBook& book, const Clock& clock) : book_(book), clock_(clock) {}

  std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology&, const ServicePlan&,
                                      Wake wake) override {
    return Answer("prepare", order, wake);
  }
  std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) override {
    return Answer("commit", order, wake);
  }
  std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) override {
    return Answer("abort", order, wake);
  }
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds, Wake wake) override {
    return Answer("drain", order, wake);
  }
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor&,
                                        Wake wake) override {
    return Answer("supersede", order, wake);
  }

  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder&, Wake) override {
    return std::make_unique<Done>(OkStatus(), clock_.Now());
  }

 private:
  class Done final : public StatisticsQuestion {
   public:
    Done(Status result, MonotonicTime heard) : result_(std::move(result)), heard_(heard) {}
    Statistics statistics() const override { return {}; }
    bool done() const override { return true; }
    Status result() const override { return result_; }
    MonotonicTime last_heard() const override { return heard_; }

   private:
    const Status result_;
    const MonotonicTime heard_;
  };

  std::unique_ptr<MemberCall> Answer(const char* verb, const MemberOrder& order, const Wake& wake) {
    const bool is_taken = book_.Take(verb, order);
    wake();
    return std::make_unique<Done>(is_taken ? OkStatus() : Aborted("a later leader has come"),
                                  clock_.Now());
  }

  FenceBook& book_;
  const Clock& clock_;
};

}  // namespace janus::control
