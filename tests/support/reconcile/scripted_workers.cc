#include "tests/support/reconcile/scripted_workers.h"

#include <gtest/gtest.h>

#include <utility>

#include "operator/reconcile/names.h"

namespace janus::control {
namespace {

class ScriptedCall final : public MemberCall {
 public:
  ScriptedCall(const Timeline& timeline, MonotonicTime due, bool is_mute, Status result)
      : timeline_(timeline),
        began_(timeline.Now()),
        due_(due),
        mute_(is_mute),
        result_(std::move(result)) {}

  bool done() const override { return !mute_ && timeline_.Now() >= due_; }
  Status result() const override { return result_; }
  MonotonicTime last_heard() const override { return began_; }
  // Nobody is woken by a call that is gone.
  const std::shared_ptr<bool> is_there = std::make_shared<bool>(true);

 private:
  const Timeline& timeline_;
  const MonotonicTime began_;
  const MonotonicTime due_;
  const bool mute_;
  const Status result_;
};

}  // namespace

std::unique_ptr<MemberCall> ScriptedWorkers::Answer(Status result, Seconds after, Wake wake) {
  const MonotonicTime due =
      timeline_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(after);
  auto call = std::make_unique<ScriptedCall>(timeline_, due, is_mute, std::move(result));
  timeline_.At(due, [there = std::weak_ptr(call->is_there), wake = std::move(wake)] {
    if (!there.expired()) wake();
  });
  return call;
}

bool ScriptedWorkers::Take(const MemberOrder& order, const std::function<void(Worker&)>& act) {
  bool all = true;
  for (const TopologyInstance& one : order.members) {
    Worker& worker = workers_[{one.role, one.pod_uid, one.index, one.incarnation}];
    if (order.fence < worker.fence) {
      ++refused_;
      all = false;
      continue;
    }
    worker.fence = order.fence;
    act(worker);
  }
  return all;
}

std::unique_ptr<MemberCall> ScriptedWorkers::Prepare(const MemberOrder& order,
                                                     const Topology& topology,
                                                     const ServicePlan& plan, Wake wake) {
  ++prepares_;
  EXPECT_EQ(static_cast<int64_t>(topology.epoch), order.epoch);
  EXPECT_EQ(order.members.size(), static_cast<size_t>(topology.m() + topology.n()));
  last_ = topology;
  last_plan_ = plan;
  Status result = prepare_fails;
  if (result.ok() && !is_mute &&
      !Take(order, [&](Worker& worker) { worker.prepared = order.epoch; })) {
    result = Aborted("a later leader has come");
  }
  return Answer(std::move(result), prepare_time, std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Commit(const MemberOrder& order, Wake wake) {
  ++commits_;
  int64_t committed = 0;
  ListOptions options;
  options.selection.namespace_ = order.service.namespace_;
  const ObjectList records = *server_.List(kTopologies, options, CallLimits());
  for (const Node& one : records.items) {
    if (TextAt(one, {"metadata", "labels", kServiceLabel}) != order.service.name) continue;
    committed = IntegerAt(one, {"spec", "committed", "epoch"}).value_or(0);
  }
  EXPECT_GE(committed, order.epoch) << "told to serve before it was decided";
  Status result = commit_fails;
  if (result.ok() && !Take(order, [&](Worker& worker) {
        if (worker.serving < order.epoch) {
          EXPECT_EQ(worker.prepared, order.epoch) << "told to serve what it has not prepared";
        }
        worker.serving = order.epoch;
      })) {
    result = Aborted("a later leader has come");
  }
  return Answer(std::move(result), Seconds(0.1), std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Abort(const MemberOrder& order, Wake wake) {
  ++aborts_;
  const bool taken = Take(order, [&](Worker& worker) {
    if (worker.prepared == order.epoch) worker.prepared = 0;
  });
  return Answer(taken ? OkStatus() : Aborted("a later leader has come"), Seconds(0.1),
                std::move(wake));
}

}  // namespace janus::control
