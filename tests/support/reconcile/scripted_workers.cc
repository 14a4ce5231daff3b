#include "tests/support/reconcile/scripted_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

template <class Interface>
class ScriptedAnswer : public Interface {
 public:
  ScriptedAnswer(const Timeline& timeline, MonotonicTime due, bool is_mute, Status result)
      : timeline_(timeline),
        began_(timeline.Now()),
        due_(due),
        mute_(is_mute),
        result_(std::move(result)) {}

  bool done() const override { return !mute_ && timeline_.Now() >= due_; }
  Status result() const override { return result_; }
  MonotonicTime last_heard() const override { return began_; }
  // A cancelled call wakes no caller.
  const std::shared_ptr<bool> is_there = std::make_shared<bool>(true);

 private:
  const Timeline& timeline_;
  const MonotonicTime began_;
  const MonotonicTime due_;
  const bool mute_;
  const Status result_;
};

using ScriptedCall = ScriptedAnswer<MemberCall>;

class ScriptedQuestion final : public ScriptedAnswer<StatisticsQuestion> {
 public:
  ScriptedQuestion(const Timeline& timeline, MonotonicTime due, Statistics statistics)
      : ScriptedAnswer(timeline, due, false, OkStatus()), statistics_(std::move(statistics)) {}

  Statistics statistics() const override { return statistics_; }

 private:
  const Statistics statistics_;
};

// A test may ask for absurd traffic, whose counts no integer holds.
uint64_t Count(double value) {
  constexpr auto kMost = static_cast<double>(uint64_t{1} << 62);
  return value > 0 ? static_cast<uint64_t>(std::min(value, kMost)) : 0;
}

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

Status ScriptedWorkers::Take(const MemberOrder& order, const std::function<Status(Worker&)>& act) {
  Status result;
  for (const TopologyInstance& one : order.members) {
    Worker& worker = workers_[IdOf(one)];
    Status taken;
    if (worker.is_hung) {
      taken = DeadlineExceeded("no answer");
    } else if (order.fence < worker.fence) {
      ++refused_;
      taken = Aborted("a later leader has come");
    } else {
      worker.fence = order.fence;
      taken = act(worker);
    }
    if (result.ok() && !taken.ok()) result = std::move(taken).Annotate(MemberName(one));
  }
  return result;
}

bool ScriptedWorkers::HasHung(const MemberOrder& order) {
  return std::any_of(order.members.begin(), order.members.end(),
                     [&](const TopologyInstance& one) { return workers_[IdOf(one)].is_hung; });
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
  if (result.ok() && !is_mute) {
    int rank_of[2] = {0, 0};
    for (const TopologyInstance& one : order.members) {
      Worker& worker = workers_[IdOf(one)];
      worker.role = one.role;
      worker.rank = rank_of[one.role == Role::kExperts]++;
    }
    // A hanging member keeps the others waiting.
    if (HasHung(order)) return Answer(OkStatus(), Seconds(1e6), std::move(wake));
    result = Take(order, [&](Worker& worker) {
      const auto at = static_cast<size_t>(worker.rank);
      const bool is_attention = worker.role == Role::kAttention;
      const SequenceRoom room = is_attention ? topology.attention.at(at).sequences : SequenceRoom();
      if (worker.serving != 0 && (worker.room != room || worker.dtype != plan.dtype)) {
        return FailedPrecondition("that takes a new worker");
      }
      worker.room = room;
      worker.dtype = plan.dtype;
      worker.prepared = order.epoch;
      return OkStatus();
    });
  }
  return Answer(std::move(result), prepare_time, std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Commit(const MemberOrder& order, Wake wake) {
  ++commits_;
  leavers_.clear();
  for (const TopologyInstance& one : order.leavers) leavers_.insert(one.node);
  int64_t committed = 0;
  ListOptions options;
  options.selection.namespace_ = order.service.namespace_;
  const ObjectList records = *server_.List(kTopologies, options, CallLimits());
  for (const Node& one : records.items) {
    if (TextAt(one, {"metadata", "labels", kServiceLabel}) != order.service.name) continue;
    committed = std::max(committed, IntegerAt(one, {"spec", "committed", "epoch"}).value_or(0));
  }
  EXPECT_GE(committed, order.epoch) << "told to serve before it was decided";
  Status result = commit_fails;
  if (result.ok()) {
    result = Take(order, [&](Worker& worker) {
      if (worker.serving == order.epoch) return OkStatus();
      if (worker.prepared != order.epoch) return FailedPrecondition("it is not prepared here");
      worker.serving = order.epoch;
      worker.holding.clear();
      return OkStatus();
    });
  }
  return Answer(std::move(result), Seconds(0.1), std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Abort(const MemberOrder& order, Wake wake) {
  ++aborts_;
  Status result = Take(order, [&](Worker& worker) {
    if (worker.prepared == order.epoch) worker.prepared = 0;
    return OkStatus();
  });
  return Answer(std::move(result), Seconds(0.1), std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Supersede(const MemberOrder& order,
                                                       const Successor& successor, Wake wake) {
  const auto epoch = static_cast<int64_t>(successor.topology.epoch);
  EXPECT_GT(epoch, order.epoch) << "whoever watches both takes the newer one";
  Status result = Take(order, [&](Worker& worker) {
    worker.successor = epoch;
    return OkStatus();
  });
  return Answer(std::move(result), Seconds(0.1), std::move(wake));
}

std::unique_ptr<MemberCall> ScriptedWorkers::Drain(const MemberOrder& order, Seconds longest,
                                                   Wake wake) {
  ++drains_;
  bool leaves = false;
  Status result = Take(order, [&](Worker& worker) {
    worker.drains = true;
    if (order.epoch > worker.serving) {
      leaves = true;
      worker.serving = 0;
    }
    return OkStatus();
  });
  if (leaves) return Answer(std::move(result), Seconds(0.1), std::move(wake));
  if (longest < answers_last) result = DeadlineExceeded("requests are still running");
  return Answer(std::move(result), std::min(longest, answers_last), std::move(wake));
}

void ScriptedWorkers::SetTraffic(const Traffic& traffic) {
  CountTraffic();
  if (!traffic_) {
    counted_ = timeline_.Now();
    gateway_.gateway_id = "gateway";
    gateway_.is_attached = true;
  }
  traffic_ = traffic;
}

void ScriptedWorkers::CountTraffic() {
  if (!traffic_) return;
  const double elapsed = Seconds(timeline_.Now() - counted_).count();
  counted_ = timeline_.Now();
  fraction_ += elapsed * traffic_->requests_per_second;
  // Each is noted by itself, below: more than these would take minutes and more.
  constexpr double kMostCome = uint64_t{1} << 20;
  fraction_ = std::clamp(fraction_, 0.0, kMostCome);
  const auto came = Count(fraction_);
  fraction_ -= static_cast<double>(came);
  step_fraction_ += elapsed / traffic_->tpot_seconds;
  steps_ += Count(step_fraction_);
  late_ += std::floor(step_fraction_) * traffic_->late_share;
  step_fraction_ -= std::floor(step_fraction_);
  const auto prompt = Count(traffic_->prompt_tokens);
  ++gateway_.reports;
  gateway_.age_seconds += elapsed;
  gateway_.arrived += came;
  gateway_.prompt_tokens += came * prompt;
  gateway_.prompt_squares += came * prompt * prompt;
  gateway_.finished += came;
  gateway_.output_tokens += came * Count(traffic_->output_tokens);
  for (uint64_t i = 0; i < came; ++i) {
    gateway_.latencies.Add(Seconds(traffic_->ttft_seconds), Seconds(traffic_->tpot_seconds));
  }
}

LoadCounts ScriptedWorkers::LoadOf(const Worker& worker, size_t members) const {
  const double rows = traffic_->requests_per_second * traffic_->output_tokens *
                      traffic_->tpot_seconds / static_cast<double>(members);
  const double keys = rows * (traffic_->prompt_tokens + traffic_->output_tokens / 2);
  const auto steps = static_cast<double>(steps_);
  LoadCounts load;
  load.process = 1;
  if (worker.role == Role::kExperts) {
    load.expert_seconds = steps * traffic_->tpot_seconds / 4;
    return load;
  }
  load.decode_rows = Count(rows * steps);
  load.decode_keys = Count(keys * steps);
  load.attention_seconds = steps * traffic_->tpot_seconds / 4;
  load.exchange_seconds = steps * traffic_->tpot_seconds / 2;
  load.step_seconds = steps * traffic_->tpot_seconds;
  load.decoding = Count(rows);
  load.decoding_kv_tokens = Count(keys);
  return load;
}

size_t ScriptedWorkers::PoolsThatServe(const ObjectKey& service) {
  ListOptions options;
  options.selection.namespace_ = service.namespace_;
  size_t out = 0;
  const auto topologies = server_.List(kTopologies, options, CallLimits());
  for (const Node& one : topologies->items) {
    if (TextAt(one, {"metadata", "labels", kServiceLabel}) != service.name) continue;
    out += IntegerAt(one, {"spec", "committed", "epoch"}).value_or(0) >
           IntegerAt(one, {"spec", "endedEpoch"}).value_or(0);
  }
  return std::max<size_t>(out, 1);
}

std::unique_ptr<StatisticsQuestion> ScriptedWorkers::Ask(const MemberOrder& order, Wake wake) {
  ++questions_;
  Statistics statistics;
  if (order.with_popularity) {
    ++questions_for_popularity_;
    statistics.routing = routing;
    if (rounds) statistics.routing.rounds = rounds(order.with_rounds);
  }
  if (order.with_spans > 0) statistics.traces = traces;
  bool is_well = true;
  CountTraffic();
  statistics.epoch = static_cast<uint64_t>(order.epoch);
  if (traffic_) statistics.gateways.gateways.push_back(gateway_);
  const size_t pools = PoolsThatServe(order.service);
  std::array<size_t, 2> members{};
  for (const TopologyInstance& one : order.members) ++members[one.role == Role::kExperts];
  for (const TopologyInstance& one : order.members) {
    const Worker& worker = workers_[IdOf(one)];
    if (worker.is_hung) {
      statistics.silent.push_back({MemberName(one), "no answer"});
      is_well = false;
      continue;
    }
    InstanceStatistics said;
    said.role = one.role;
    said.rank = Rank{worker.rank};
    said.epoch = static_cast<uint64_t>(worker.serving);
    said.holding = worker.holding;
    said.tokens = worker.tokens;
    said.tpot_counts = worker.tpot;
    said.ttft_counts = worker.ttft;
    for (size_t e = 0; measured && one.role == Role::kAttention && e < members[1]; ++e) {
      PeerLink& link = said.links.emplace_back();
      link = {Role::kExperts, Rank{static_cast<int32_t>(e)}, "UCX"};
      link.measured = measured(link.rank);
      if (!link.measured) link.not_measured = "its answers took too long";
    }
    if (traffic_) {
      // Each pool has its share of the traffic.
      said.load = LoadOf(worker, pools * members[one.role == Role::kExperts]);
      said.steps = said.rounds = steps_;
      said.timed_waits = steps_;
      said.timed_overruns = Count(late_);
      said.kv_tokens_used = said.load->decoding_kv_tokens;
      said.kv_tokens_capacity = 1 << 20;
    }
    is_well = is_well && said.holding.empty();
    statistics.instances.push_back(std::move(said));
  }
  const MonotonicTime due =
      timeline_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(Seconds(0.1));
  auto question = std::make_unique<ScriptedQuestion>(timeline_, due, std::move(statistics));
  timeline_.At(due, [there = std::weak_ptr(question->is_there), is_well, wake = std::move(wake)] {
    if (!there.expired() && !is_well) wake();
  });
  return question;
}

void ScriptedWorkers::LoseEpochOf(const InstanceId& id, const std::string& why) {
  const auto list = server_.List(kTopologies, {}, {Seconds(10), {}});
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  for (const Node& record : list->items) {
    const std::optional<TopologyRecord> committed = ParseMoETopology(record).object.spec.committed;
    if (!committed) continue;
    const auto has = [&](const InstanceId& one) {
      return std::ranges::any_of(committed->instances, [&](const TopologyInstance& member) {
        return IdOf(member) == one;
      });
    };
    if (!has(id)) continue;
    for (auto& [other, worker] : workers_) {
      if (has(other)) worker.holding = why;
    }
  }
}

}  // namespace janus::control
