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
#include "dataplane/steps/pacer.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/steps/step_trace_record.h"
#include "dataplane/weights/expert_weights.h"
#include "kernels/device/context.h"
#include "kernels/device/stopwatch.h"

// The expert side: gate, scheduling, expert FFNs, and the instance that runs them round by round.
// It knows attention only through the exchange.
//
// May include: dataplane/steps, dataplane/comm/exchange, /transport and /wire, dataplane/weights,
// kernels, common.
namespace janus::dataplane {

struct ExpertOptions {
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;  // common/row_split.h; equal on all instances
  bool graphs = true;      // for a GPU: whether launches are recorded when an epoch is prepared
  StepDeadlines deadlines;
  Logger log{2, LogLevel::kWarning};
  StepMetrics* metrics = nullptr;    // outlives the instance; null: no metrics
  RoutingRecord* routing = nullptr;  // outlives the instance; null: no record
  StepTraceRecord* trace = nullptr;  // likewise
  ExpertPacer* pacer = nullptr;      // likewise; null: results are shown once they are there
  std::stop_token departing;  // once requested, an epoch that peers have left ends without an error
};

// One expert instance in one epoch: steps, tickets and the exchange around ExpertLayers. In every
// round it gets all rows of all participants, and sends every participant its contributions.
//
// Run is the step thread; statistics is thread-safe.
class ExpertInstance {
 public:
  // `weights`, `transport`, `exchange` and `clock` must outlive the instance. If the context lacks
  // memory, it reports that by TakeFailure.
  ExpertInstance(const ExpertOptions& options, const ModelDescription& model,
                 const ExpertWeights& weights, const Topology& topology, Rank rank,
                 Transport& transport, ExpertExchange& exchange, const Clock& clock,
                 const kernels::Place& place);

  // Serves steps until stopped (OK, after a goodbye to the peers) or until the exchange fails (the
  // error names the peer and the round). The loss of a peer that has sent a goodbye is no failure
  // if this instance is stopped too.
  Status Run(std::stop_token stop);

  // Before Run: continues the counts of the previous epoch's instance.
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
  // Waits for the transport, or a GPU, until `ready` or an event that ends the step. `what`
  // describes the wait if the round is missed. Cancelled: stopped. Aborted: the step is given up.
  Status AwaitRound(const RoundKey& key, bool of_device, FunctionRef<bool()> ready,
                    FunctionRef<std::string()> what);
  // AwaitRound until `ask` returns true; returns at once if it already does, or without a GPU.
  Status AwaitGpu(const RoundKey& key, FunctionRef<Result<bool>()> ask,
                  FunctionRef<std::string()> what);
  Status AwaitRows(const RoundKey& key);
  // Waits until every expert of the round is assigned to an instance.
  Status AwaitAssigned(const RoundKey& key);
  Status Answer(const RoundKey& key);
  // Of a timed device: waits until the rows count as there.
  Status AwaitArrival(const RoundKey& key);
  // Likewise: waits until the contributions are due, and says when they count as there.
  Result<MonotonicTime> AwaitDue(const RoundKey& key);
  // Waits for a moment of a round. The errors of AwaitRound.
  Status AwaitMoment(const RoundKey& key, MonotonicTime moment);
  // Waits until a GPU has run the step's last round, `key`.
  Status AwaitEnd(const RoundKey& key);
  // Observes the timings of the step.
  Status ObserveTimings();
  Status EndTiming(int what) {
    if (options_.trace != nullptr) options_.trace->EndTiming();
    return timings_.EndTiming(what);
  }

  // Constant after construction.
  const ExpertOptions options_;
  const ModelDescription model_;
  const uint64_t epoch_;
  const int micro_batches_;
  const ExchangeMode mode_;
  const RoutingRecord::Epoch routing_epoch_;
  const StepTraceRecord::Epoch trace_epoch_;
  Transport& transport_;
  ExpertExchange& exchange_;
  const Clock& clock_;

  mutable Mutex mu_;
  InstanceStatistics statistics_ JANUS_GUARDED_BY(mu_);
  MessageCounts counted_ JANUS_GUARDED_BY(mu_);  // in earlier epochs
  PacerCounts paced_ JANUS_GUARDED_BY(mu_);      // likewise

  // Confined to the step thread.
  std::stop_token stop_;
  const std::unique_ptr<ExpertLayers> layers_;
  Follower control_;
  std::vector<Source> sources_;  // by attention rank
  kernels::Stopwatch timings_;   // of a step
  bool is_overlapped_ = false;   // rounds of this step overlap; known from its first round on
  MonotonicTime wait_began_;
  Seconds longest_wait_{0};  // of the round
  MonotonicTime all_here_;
  Seconds wait_{0};
  Seconds gate_{0};  // of the step, as what follows
  Seconds aebs_{0};
  Seconds computed_{0};  // the experts
  uint64_t rows_ = 0;
  uint64_t rounds_ = 0;
  uint64_t activated_ = 0;
  uint64_t clamped_ = 0;
  uint32_t clamped_before_ = 0;  // what the layers had counted
};

}  // namespace janus::dataplane
