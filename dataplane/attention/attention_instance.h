#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/model/description.h"
#include "common/mutex.h"
#include "common/prompt_share.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "dataplane/attention/attention_epoch.h"
#include "dataplane/attention/routed_rows.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/engine/constraint_thread.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/scheduler.h"
#include "dataplane/steps/message_counts.h"
#include "dataplane/steps/pacer.h"
#include "dataplane/steps/step_control.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/steps/step_times.h"
#include "dataplane/steps/step_trace_record.h"
#include "dataplane/weights/attention_weights.h"

// The attention side: layers, sampling, and the instance that runs them step by step. It knows the
// experts only through the exchange.
//
// May include: dataplane/steps, dataplane/comm/exchange, /transport and /wire, dataplane/engine,
// dataplane/weights, kernels, common.
namespace janus::dataplane {

// Constant for the life of the instance.
struct AttentionOptions {
  int max_batch = 256;        // running sequences, 1..max rows per round
  int64_t max_model_len = 0;  // positions per sequence; 0: the model's
  // Ids below are tokens. Checkpoints pad their vocabulary: the rows beyond have no token, so they
  // are neither drawn nor taken in prompts. 0: every row of the model has a token.
  int vocabulary = 0;
  int64_t kv_bytes = int64_t{1} << 30;
  int64_t swap_bytes = int64_t{1} << 30;  // host memory for preempted sequences; 0: none
  int64_t prefix_host_bytes = 0;          // host memory for shared prefixes (KvPagePool); 0: none
  int prefix_copies = 0;                  // as in KvPagePoolOptions
  // Whether keys and values, or latent vectors, are stored in Float8E4M3 with scales (kernels.h)
  // instead of the model's wire type. That halves the memory of bfloat16, and the bits differ.
  bool fp8_cache = false;
  // How often in a row the same rows may be given up. One lost message costs one repeat. If the
  // fourth attempt fails too, it is no accident, and the requests end with an error.
  int most_repeats = 3;
  // Share of a decode step's time that prompts get even if the target leaves them less.
  double least_prefill_share = kLeastPromptShare;
  bool logits_hashes = true;  // requests may ask for hashes of the logits
  // Where the instance computes and keeps its keys and values, for life; null: the host. Weights
  // lie there too.
  kernels::Context* context = nullptr;
  // For a GPU: whether the launches of steps of up to max_batch rows are recorded when an epoch is
  // prepared. The tokens are the same either way.
  bool graphs = true;
  Logger log{2, LogLevel::kWarning};
  StepMetrics* metrics = nullptr;    // outlives the instance; null: no metrics
  StepTraceRecord* trace = nullptr;  // likewise; null: no record
  AttentionPacer* pacer = nullptr;   // likewise; null: results are shown once they are there
  std::stop_token departing;         // once requested, an epoch that peers leave ends with OK
};

// One attention instance: sequences, their keys and values, every layer's attention, sampling. Rank
// 0 coordinates the steps of all instances.
//
// It outlives epochs (docs/design/007). Enter prepares the next epoch while another runs, and Run
// serves one. Requests continue in the next epoch where they stopped in the last. Hold keeps them
// between two epochs. A sequence advances only at the end of a step (MarkComputed, Append). A step
// that is given up, or cut by the end of its epoch, leaves only keys and values behind, which the
// next step overwrites.
//
// The step thread runs Run, Hold and Leave, one at a time. Enter, Submit, Cancel, CancelStream and
// statistics are thread-safe.
class AttentionInstance {
 public:
  // `weights`, `sink` and `clock` must outlive the instance. InvalidArgument names the option.
  static Result<std::unique_ptr<AttentionInstance>> Create(const AttentionOptions& options,
                                                           const ModelDescription& model,
                                                           const AttentionWeights& weights,
                                                           TokenSink& sink, const Clock& clock);
  virtual ~AttentionInstance() = default;
  AttentionInstance(const AttentionInstance&) = delete;
  AttentionInstance& operator=(const AttentionInstance&) = delete;

  // Prepares this instance for the topology's epoch; allocates. `transport`, `exchange` and the
  // place's team and context must outlive the result. Destroy the result before the instance.
  // InvalidArgument: the epoch's rounds have less room than maxBatchSize. ResourceExhausted: too
  // little device memory.
  Result<std::unique_ptr<AttentionEpoch>> Enter(const Topology& topology, Rank rank,
                                                Transport& transport, AttentionExchange& exchange,
                                                const kernels::Place& place,
                                                const AttentionPace& pace = {}) const;

  // Takes a request in. InvalidArgument names an invalid token or sampling value.
  // ResourceExhausted: the queue is full. After OK exactly one event with a finish reason follows;
  // kError if the request can never run here (too long, too few pages).
  Status Submit(Request request);
  // Ends a request; its last event is kCancelled unless another ended it before.
  void Cancel(const RequestKey& key);
  // Ends all requests of a gateway's connection.
  void CancelStream(uint64_t stream);

  // Runs steps in the epoch until stopped (OK, after a goodbye to the peers) or until the exchange
  // fails (the error names the peer and the round). The loss of a peer that has sent a goodbye is
  // no failure if this instance is stopped too.
  Status Run(AttentionEpoch& epoch, std::stop_token stop);
  // Takes requests and cancels in, without computing, until stopped.
  void Hold(const std::stop_token& stop);
  // Ends all requests with kCancelled, so that other instances can compute them. Submit is then
  // Unavailable until Rejoin.
  void Leave();
  // Takes requests again, bounded by the epoch's pace. Call it before Run of that epoch;
  // thread-safe.
  void Rejoin(const AttentionEpoch& epoch);

  // Waits until there is no open request; false at the deadline. From any thread but the step
  // thread.
  bool WaitIdle(MonotonicTime deadline);

  InstanceStatistics statistics() const;
  int64_t kv_capacity_tokens() const { return int64_t{cache_->num_pages()} * kernels::kPageTokens; }
  int64_t max_model_len() const { return max_model_len_; }
  int vocabulary() const { return vocabulary_; }

 protected:
  // Errors: those of Create.
  static Result<std::unique_ptr<KvPagePool>> CreatePages(const AttentionOptions& options,
                                                         const ModelDescription& model);
  AttentionInstance(const AttentionOptions& options, const ModelDescription& model,
                    const AttentionWeights& weights, TokenSink& sink, const Clock& clock,
                    std::unique_ptr<KvPagePool> cache);

  // Decisions of a step that a subclass may override; the step thread calls them. These defaults
  // are what serving does. PrefillRows: the most prompt positions that the step computes; its
  // ticket grants `granted`.
  virtual int PrefillRows(uint64_t /*step*/, int granted) { return granted; }
  // Whether the newest sequence is preempted before the step although there is room.
  virtual bool PreemptsBefore(uint64_t /*step*/) { return false; }
  // Whether OnLogits gets the logits of every computed position. Otherwise only positions that draw
  // a token have logits. Constant for the life of the instance.
  virtual bool WantsAllLogits() const { return false; }
  // logits: [V], of one computed position.
  virtual void OnLogits(const RequestKey&, int /*position*/, std::span<const float> /*logits*/) {}

 private:
  struct CancelStreamNote {
    uint64_t stream;
  };
  using Inbound = std::variant<Request, RequestKey, CancelStreamNote>;

  void Begin(AttentionEpoch& epoch);
  void End();
  Status RunSteps(const std::stop_token& stop);
  void Post(Inbound inbound) JANUS_REQUIRES(mu_);
  Status CheckTokens(std::span<const int32_t> tokens, const char* whose) const;
  void DrainInbox(std::vector<TokenEvent>& events);
  bool InboxPending() const { return inbox_pending_.load(std::memory_order_acquire); }
  // This instance's demand for the step `for_step`; the caller sends it.
  Demand MakeDemand(uint64_t for_step, const Scheduler::Outlook& outlook);
  Status SendDemand(uint64_t for_step, const Scheduler::Outlook& outlook);
  // When to send the demand again if no ticket arrives: a demand may be lost.
  MonotonicTime DemandExpires() const;
  Status OfferWork();
  // Aborted: the step is given up.
  Status ExecuteStep(const Ticket& ticket);
  void NoteWork(MonotonicTime now);
  Status Missed(const RoundKey& round, const Status& why);
  Status LeaveStep();
  void CountMessages() JANUS_REQUIRES(mu_);
  Status RunLayers(const Ticket& ticket);
  Status SendRound(const RoundKey& key, int layer);
  Status Collect(const RoundKey& key);
  // What the step's rows are for the pacer, of each micro-batch and of all.
  void NotePacedRows(const Batch& batch);
  // Of a timed device: waits until the result is due, and says from when on it counts as shown.
  Result<MonotonicTime> AwaitDue(const RoundKey& key, MonotonicTime due);
  // Waits for a moment of a round. Cancelled: stopped. Aborted: the step is given up.
  Status AwaitMoment(const RoundKey& key, MonotonicTime moment);
  // Waits until a GPU has run its queued work, of rounds up to this one. Errors as for Collect.
  Status AwaitGpu(const RoundKey& key);
  // Observes the timings of the step.
  Status ObserveTimings();
  Status EndTiming(int what) {
    if (options_.trace != nullptr) options_.trace->EndTiming();
    return epoch_->timings.EndTiming(what);
  }
  // The timings that end from now on belong to this round; null: to none.
  void TraceEnters(const RoundKey* round) {
    if (options_.trace == nullptr) return;
    options_.trace->Enters(round == nullptr ? -1 : round->layer,
                           round == nullptr ? 0 : round->micro_batch);
  }
  // The logits of the wanted rows, and the tokens drawn from them, once the GPU has computed them.
  Result<std::span<const float>> Sample(const Batch& batch);
  Status Finish(const Batch& batch, std::span<const float> logits, std::vector<TokenEvent>& events);
  Status SampleRows(const Batch& batch, std::span<const float> logits);
  // Log probabilities of the batch's prompt rows that want them, before their sequences draw a
  // token.
  Status ScorePrompts(std::span<const int32_t> rows, const Batch& batch,
                      std::vector<TokenEvent>& events);
  Status ScoreRows(std::span<const int32_t> rows, const Batch& batch,
                   std::vector<TokenEvent>& events);
  // Begins with the masks that the batch's draws need.
  void BeginMasks(const Batch& batch);
  // Draws the token of a request that changes its logits, or follows a grammar. The log
  // probabilities are without the changes.
  // `refused`: why the request ends instead; the token is -1.
  Result<kernels::SampledToken> DrawChanged(const Sequence& sequence, std::span<const float> logits,
                                            Status& refused);
  // Whether the host needs the logits themselves.
  bool LogitsAreRead(const Batch& batch) const;
  // The tokens drawn for the wanted rows, on the host.
  std::span<const kernels::SampledToken> drawn() const;
  // `refused`: why a row without a token has none; OK: its logits are unsound.
  void AddEvent(const BatchRow& row, const kernels::SampledToken& drawn, const Status& refused,
                std::span<const float> logits, std::vector<TokenEvent>& events);
  // Ends the answer, or the request, where the grammar says so.
  static void FollowGrammar(Constraint& constraint, TokenEvent& event);
  void NoteToken(Sequence& sequence, FinishReason finish);
  void PublishLoad() JANUS_REQUIRES(mu_);
  void CountStep(const Batch& batch, Seconds took) JANUS_REQUIRES(mu_);
  void Emit(uint64_t step, std::vector<TokenEvent>&& events);
  // Tells every gateway whether requests wait for an epoch.
  void EmitToAll(std::vector<TokenEvent>&& events, bool holding);
  void EmitOutput(uint64_t step, std::vector<TokenEvent>&& events, bool is_for_all);
  void UpdateStatistics(const Batch& batch, Seconds took, int drawn);

  // Constant after construction.
  const AttentionOptions options_;
  const ModelDescription model_;
  const AttentionWeights& weights_;
  const int64_t max_model_len_;
  const int vocabulary_;
  TokenSink& sink_;
  const Clock& clock_;

  // Shared with callers.
  mutable Mutex mu_;
  std::deque<Inbound> inbox_ JANUS_GUARDED_BY(mu_);
  int inbox_requests_ JANUS_GUARDED_BY(mu_) = 0;
  int64_t inbox_tokens_ JANUS_GUARDED_BY(mu_) = 0;  // of those requests
  std::optional<MonotonicTime> inbox_oldest_ JANUS_GUARDED_BY(mu_);
  Scheduler::Load load_ JANUS_GUARDED_BY(mu_);  // of the scheduler, as of the last step
  int max_waiting_ JANUS_GUARDED_BY(mu_) = AttentionPace().max_waiting;
  int scheduler_waiting_ JANUS_GUARDED_BY(mu_) = 0;  // as of the last step
  int scheduler_open_ JANUS_GUARDED_BY(mu_) = 0;     // waiting and running, as of the last step
  CondVar idle_;
  Transport* steps_by_ JANUS_GUARDED_BY(mu_) = nullptr;  // of the running epoch
  CondVar inbox_changed_;                                // for Hold
  bool has_left_ JANUS_GUARDED_BY(mu_) = false;
  InstanceStatistics statistics_ JANUS_GUARDED_BY(mu_);
  std::atomic<bool> inbox_pending_{false};

  // Confined to the step thread.
  std::stop_token stop_;
  std::unique_ptr<KvPagePool> cache_;
  Scheduler scheduler_;
  AttentionEpoch* epoch_ = nullptr;  // the running one
  bool holding_ = false;             // as gateways were told last
  MessageCounts counted_;            // in earlier epochs
  uint64_t demand_sent_for_ = 0;     // step of the last demand
  bool demand_sent_work_ = false;
  MonotonicTime demand_sent_at_;
  Demand last_step_;  // how the last step went, for the next demand
  // Since when there has been work without a running step; absent: no work.
  std::optional<MonotonicTime> work_since_;
  Seconds coordinator_wait_{0};  // before the running step
  int given_up_ = 0;  // steps in a row since the last one that ended, while there was work
  RunningMedian step_seconds_;
  RunningMedian tpot_seconds_;         // of requests that have ended
  LatencyCounts tpot_counts_;          // of them
  LatencyCounts ttft_counts_;          // of requests that had their first token here
  Seconds wait_{0};                    // for the experts, within the running step
  Seconds kernels_{0};                 // within the running step
  Seconds exchange_{0};                // LoadCounts::exchange_seconds of the running step
  Seconds emission_{0};                // time to hand over the tokens of the previous step
  RoutedRows routed_;                  // of the running step
  std::vector<int32_t> wanted_rows_;   // of the batch, those that have logits
  std::vector<float> changed_logits_;  // of one row
  ConstraintThread constraint_thread_;
  RoundKey last_round_;  // of the running step
  // Of the running step at a timed device: rows, and when contributions came, by micro-batch.
  std::array<PacedRows, kMaxMicroBatches> paced_rows_;
  std::array<MonotonicTime, kMaxMicroBatches> came_;
};

}  // namespace janus::dataplane
