#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/model/description.h"
#include "common/mutex.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/experts/expert_layers.h"
#include "dataplane/experts/routing_record.h"
#include "dataplane/steps/follower.h"
#include "dataplane/steps/message_counts.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/weights/expert_weights.h"
#include "kernels/device/context.h"
#include "kernels/device/stopwatch.h"

// The expert side: gate, scheduling, expert FFNs, and the instance that runs them round by round.
// It knows attention by the exchange alone.
//
// May include: dataplane/steps, dataplane/comm/exchange, /transport and /wire, dataplane/weights,
// kernels, common.
namespace janus::dataplane {

struct ExpertOptions {
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;  // common/row_split.h; alike for all instances
  bool graphs = true;  // of a GPU: whether what rounds start is recorded as an epoch is prepared
  StepDeadlines deadlines;
  Logger log{2, LogLevel::kWarning};
  StepMetrics* metrics = nullptr;    // outlives the instance; null: nobody asks
  RoutingRecord* routing = nullptr;  // outlives the instance; null: nobody asks
  std::stop_token departing;  // requested: an epoch that others have left ends without a word
};

// One expert instance in one epoch: steps, tickets and the exchange around ExpertLayers. For every
// round it has all rows of all participants, and it sends every participant its contributions.
//
// Run is the step thread; statistics is thread-safe.
class ExpertInstance {
 public:
  // `weights`, `transport`, `exchange` and `clock` must outlive the instance. What the place's
  // context refuses it tells by TakeFailure.
  ExpertInstance(const ExpertOptions& options, const ModelDescription& model,
                 const ExpertWeights& weights, const Topology& topology, Rank rank,
                 Transport& transport, ExpertExchange& exchange, const Clock& clock,
                 const kernels::Place& place);

  // Serves steps until stopped (OK, and the peers are told) or until the exchange fails (the peer
  // and the round are named). That a peer goes which said it was stopped is no failure where the
  // own stop follows.
  Status Run(std::stop_token stop);

  // Before Run: goes on counting where the instance of the epoch before has ended.
  void CountOnFrom(const InstanceStatistics& before);
  InstanceStatistics statistics() const;

 private:
  // Rows of one participant in the round at hand.
  struct Source {
    bool awaited = false;
    bool here = false;
    ArrivedRows rows;
  };

  Status RunSteps(const std::stop_token& stop);
  // Aborted: the step is given up.
  Status ExecuteStep(const Ticket& ticket);
  Status Missed(const RoundKey& round, const Status& why);
  Status LeaveStep();
  void CountMessages() JANUS_REQUIRES(mu_);
  // Waits for the transport, or a GPU, until `ready` or what ends the step; `what`, asked where the
  // round is missed, says what for. Cancelled: stopped. Aborted: the step is given up.
  Status AwaitRound(const RoundKey& key, bool of_device, FunctionRef<bool()> ready,
                    FunctionRef<std::string()> what);
  // AwaitRound until what a GPU is asked for has come; at once where it has, or there is none.
  Status AwaitGpu(const RoundKey& key, FunctionRef<Result<bool>()> ask,
                  FunctionRef<std::string()> what);
  Status AwaitRows(const RoundKey& key);
  // Until it is known who computes what.
  Status AwaitAssigned(const RoundKey& key);
  Status Answer(const RoundKey& key);
  // Until a GPU has run the step's last round, which `key` is.
  Status AwaitEnd(const RoundKey& key);
  // What the laps of the step were.
  Status ObserveLaps();
  Status Lap(int what) { return laps_.Lap(what); }

  // Constant after construction.
  const ExpertOptions options_;
  const ModelDescription model_;
  const uint64_t epoch_;
  const int micro_batches_;
  const ExchangeMode mode_;
  const RoutingRecord::Epoch routing_epoch_;
  Transport& transport_;
  ExpertExchange& exchange_;
  const Clock& clock_;

  mutable Mutex mu_;
  InstanceStatistics statistics_ JANUS_GUARDED_BY(mu_);
  MessageCounts counted_ JANUS_GUARDED_BY(mu_);  // in the epochs before

  // Confined to the step thread.
  std::stop_token stop_;
  const std::unique_ptr<ExpertLayers> layers_;
  Follower control_;
  std::vector<Source> sources_;  // by attention rank
  kernels::Stopwatch laps_;      // of a step
  MonotonicTime wait_began_;
  Seconds longest_wait_{0};  // of the round
  MonotonicTime all_here_;
  Seconds wait_{0};
  uint64_t rows_ = 0;
  uint64_t rounds_ = 0;
  uint64_t activated_ = 0;
};

}  // namespace janus::dataplane
