#include "dataplane/attention/attention_instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "dataplane/attention/micro_batch.h"
#include "dataplane/steps/await_device.h"
#include "dataplane/steps/follower.h"
#include "dataplane/steps/goodbye.h"
#include "dataplane/steps/leader.h"
#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

// What the time between two marks of a step was spent on.
enum Timing : int {
  kHost,     // work of the host alone
  kKernels,  // kernels outside of rounds
  kAttention,
  kSend,
  kShared,
  kReceive,
  kReceiveNothing,  // for a round without rows
  kCombine,
  kGate,  // if attention computes it; with a timed device it is part of kAttention
};

StepWork WorkOf(int timing) {
  constexpr std::array kWorks = {StepWork::kHost,    StepWork::kKernels, StepWork::kAttention,
                                 StepWork::kSend,    StepWork::kShared,  StepWork::kReceive,
                                 StepWork::kReceive, StepWork::kCombine, StepWork::kGate};
  return kWorks[static_cast<size_t>(timing)];
}

kernels::SamplingParams ParamsOf(const Sequence& sequence) {
  const Request& request = sequence.request;
  kernels::SamplingParams params;
  params.temperature = request.temperature;
  params.top_k = request.top_k;
  params.top_p = request.top_p;
  params.seed = request.seed;
  params.position = static_cast<int64_t>(sequence.tokens.size());
  params.logprobs = request.logprobs;
  return params;
}

TokenLogprobs LogprobsOf(const kernels::SampledToken& drawn) {
  TokenLogprobs out;
  // Without a token the logits are unsound. Drawing from them ends the request with that error.
  out.logprob = drawn.token < 0 ? -INFINITY : drawn.logprob;
  for (int i = 0; i < drawn.num_top; ++i) {
    out.top.emplace_back(drawn.top_tokens[i], drawn.top_logprobs[i]);
  }
  return out;
}

// Rows of the batch, by index, with logits that score the next token of a prompt.
std::vector<int32_t> RowsToScore(const Batch& batch) {
  std::vector<int32_t> rows;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if (row.sequence->ScoresAt(row.position)) rows.push_back(static_cast<int32_t>(i));
  }
  return rows;
}

PrefixRule RuleOf(PrefixSharing prefixes, bool has_classes) {
  switch (prefixes) {
    case PrefixSharing::kExact:
      return has_classes ? PrefixRule::kPrompts : PrefixRule::kAll;
    case PrefixSharing::kReuse:
      return PrefixRule::kAll;
    case PrefixSharing::kDisabled:
      return PrefixRule::kNone;
  }
  return PrefixRule::kNone;
}

// What a missed round was waiting for.
struct WaitedFor {
  RoundKey round;
  std::string who;
};
constexpr const char* kForTheGpu = "waiting for the GPU";

// The earliest round for which the GPU waits for peers; absent: it does not wait.
std::optional<WaitedFor> HeldUpBy(const std::vector<AttentionExchange::LateExpert>& behind) {
  if (behind.empty()) return std::nullopt;
  WaitedFor wait{behind.front().round,
                 std::string(kForTheGpu) + ", which waits for that of experts"};
  for (const auto& [expert, round] : behind) {
    wait.round = std::min(wait.round, round);
    wait.who += " " + std::to_string(expert.value);
  }
  return wait;
}

// Checks the values that sampling would refuse in the middle of a step, where a refusal would fail
// the step for all requests.
Status ValidateSampling(const Request& request) {
  const auto refuse = [](const char* field, auto value, const char* want) {
    return InvalidArgument(std::string(field) + " is " + std::to_string(value) + "; want " + want);
  };
  if (!std::isfinite(request.temperature) || request.temperature < 0.0f) {
    return refuse("temperature", request.temperature, "a finite number from 0 on");
  }
  if (request.top_k < 0) return refuse("top_k", request.top_k, "0 (all) or more");
  if (!(request.top_p > 0.0f && request.top_p <= 1.0f)) {
    return refuse("top_p", request.top_p, "more than 0 and at most 1");
  }
  if (request.logprobs < -1 || request.logprobs > kernels::kMaxLogprobs) {
    return refuse("logprobs", request.logprobs, "-1 (none) to 20");
  }
  const auto positions = static_cast<int64_t>(request.prompt.size() + request.generated.size());
  if (request.routed_from < -1 || request.routed_from > positions) {
    return refuse("routed_from", request.routed_from, "-1 (none) or a position of its tokens");
  }
  if (request.max_tokens < 1) return refuse("max_tokens", request.max_tokens, "1 or more");
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > kernels::kMaxLogprobs) {
    return refuse("prompt_logprobs", request.prompt_logprobs, "-1 (none) to 20");
  }
  return OkStatus();
}

// Checks that every change is finite and that none divides by zero.
Status ValidateChanges(const SamplingChanges& changes, int vocab) {
  const auto refuse = [](const char* field, auto value, const char* want) {
    return InvalidArgument(std::string(field) + " is " + std::to_string(value) + "; want " + want);
  };
  const auto in = [](float value, float low, float high) { return value >= low && value <= high; };
  if (!in(changes.frequency_penalty, -2, 2)) {
    return refuse("frequency_penalty", changes.frequency_penalty, "-2 to 2");
  }
  if (!in(changes.presence_penalty, -2, 2)) {
    return refuse("presence_penalty", changes.presence_penalty, "-2 to 2");
  }
  if (!(changes.repetition_penalty > 0.0f && changes.repetition_penalty <= 100.0f)) {
    return refuse("repetition_penalty", changes.repetition_penalty, "more than 0 and at most 100");
  }
  if (!in(changes.min_p, 0, 1)) return refuse("min_p", changes.min_p, "0 to 1");
  if (changes.min_tokens < 0) return refuse("min_tokens", changes.min_tokens, "0 or more");
  for (const auto& [token, bias] : changes.bias) {
    if (token < 0 || token >= vocab) return refuse("logit_bias", token, "tokens of the vocabulary");
    if (!in(bias, -100, 100)) return refuse("logit_bias", bias, "-100 to 100");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<KvPagePool>> AttentionInstance::CreatePages(const AttentionOptions& options,
                                                                   const ModelDescription& model) {
  if (options.max_batch < 1) {
    return InvalidArgument("maxBatchSize " + std::to_string(options.max_batch) +
                           ": want 1 or more");
  }
  if (options.max_model_len > model.max_positions) {
    return InvalidArgument("maxModelLen " + std::to_string(options.max_model_len) +
                           ": the model has " + std::to_string(model.max_positions) + " positions");
  }
  KvPagePoolOptions cache_options;
  cache_options.layers = model.layers;
  cache_options.dtype = options.fp8_cache ? DType::kFloat8E4M3 : WireType(model);
  cache_options.page_bytes = CachePageBytes(model, cache_options.dtype);
  cache_options.bytes = options.kv_bytes;
  cache_options.swap_bytes = options.swap_bytes;
  cache_options.prefix_host_bytes = options.prefix_host_bytes;
  cache_options.prefix_copies = options.prefix_copies;
  cache_options.context = options.context;
  cache_options.log = options.log;
  return KvPagePool::Create(cache_options);
}

Result<std::unique_ptr<AttentionInstance>> AttentionInstance::Create(
    const AttentionOptions& options, const ModelDescription& model, const AttentionWeights& weights,
    TokenSink& sink, const Clock& clock) {
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<KvPagePool> cache, CreatePages(options, model));
  return std::unique_ptr<AttentionInstance>(
      new AttentionInstance(options, model, weights, sink, clock, std::move(cache)));
}

AttentionInstance::AttentionInstance(const AttentionOptions& options, const ModelDescription& model,
                                     const AttentionWeights& weights, TokenSink& sink,
                                     const Clock& clock, std::unique_ptr<KvPagePool> cache)
    : options_(options),
      model_(model),
      weights_(weights),
      max_model_len_(options.max_model_len > 0 ? options.max_model_len : model.max_positions),
      vocabulary_(options.vocabulary > 0 ? options.vocabulary : model.vocab),
      sink_(sink),
      clock_(clock),
      cache_(std::move(cache)),
      scheduler_({options.max_batch, max_model_len_}, *cache_),
      routed_(model) {
  statistics_.role = Role::kAttention;
  statistics_.kv_tokens_capacity = static_cast<uint64_t>(kv_capacity_tokens());
  statistics_.load.emplace();
}

Result<std::unique_ptr<AttentionEpoch>> AttentionInstance::Enter(const Topology& topology,
                                                                 Rank rank, Transport& transport,
                                                                 AttentionExchange& exchange,
                                                                 const kernels::Place& place,
                                                                 const AttentionPace& pace) const {
  if (options_.max_batch > topology.max_rows_per_round) {
    return InvalidArgument("maxBatchSize " + std::to_string(options_.max_batch) + ": want 1.." +
                           std::to_string(topology.max_rows_per_round) + ", the rows of a round");
  }
  kernels::Context& context = *place.context;
  const kernels::Context& own =
      options_.context != nullptr ? *options_.context : kernels::HostContext();
  JANUS_CHECK(&context == &own, context.numerics(), own.numerics());
  const bool all_logits = WantsAllLogits();  // otherwise only one row of a sequence has logits
  auto epoch = std::make_unique<AttentionEpoch>(
      topology, rank, transport, exchange, model_, weights_, *cache_, place, clock_, pace,
      all_logits ? topology.max_rows_per_round : options_.max_batch, vocabulary_);
  JANUS_RETURN_IF_ERROR(context.TakeFailure());
  if (!context.is_host() && options_.graphs) {
    JANUS_RETURN_IF_ERROR(epoch->layers.Record(options_.max_batch));
  }
  if (rank.value == 0) {
    CoordinatorOptions coordinator;
    coordinator.m = topology.m();
    coordinator.max_rows = topology.max_rows_per_round;
    coordinator.prompt_step = pace.prompt_step;
    coordinator.least_prefill_share = options_.least_prefill_share;
    epoch->control = std::make_unique<Leader>(coordinator, topology, pace.deadlines, transport,
                                              clock_, options_.log);
  } else {
    epoch->control =
        std::make_unique<Follower>(transport, topology.m(), topology.max_rows_per_round,
                                   topology.epoch, pace.deadlines, options_.log);
  }
  return epoch;
}

Status AttentionInstance::CheckTokens(std::span<const int32_t> tokens, const char* whose) const {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary_) continue;
    return InvalidArgument("token id " + std::to_string(token) + " of " + whose +
                           ": the vocabulary has " + std::to_string(vocabulary_));
  }
  return OkStatus();
}

Status AttentionInstance::Submit(Request request) {
  if (request.prompt.empty()) return InvalidArgument("the prompt is empty");
  JANUS_RETURN_IF_ERROR(CheckTokens(request.prompt, "the prompt"));
  JANUS_RETURN_IF_ERROR(CheckTokens(request.generated, "the generated tokens"));
  JANUS_RETURN_IF_ERROR(ValidateSampling(request));
  JANUS_RETURN_IF_ERROR(ValidateChanges(request.changes, vocabulary_));
  request.arrived = clock_.Now();
  if (request.want_logits_hash && !options_.logits_hashes) {
    return InvalidArgument(
        "logits_hash: this service hashes no logits; start it with --debug-logits-hash");
  }
  if (request.routed_from >= 0 && !RoutedRows::AreKnown(model_)) {
    return InvalidArgument("routed_from: of " + std::to_string(model_.moe.experts) +
                           " experts in a layer, contributions name at most " +
                           std::to_string(ContributionRef::kMostExperts));
  }
  const MutexLock lock(mu_);
  if (has_left_) return Unavailable("this instance has left the service");
  if (inbox_requests_ + scheduler_waiting_ >= max_waiting_) {
    return ResourceExhausted(std::to_string(inbox_requests_ + scheduler_waiting_) +
                             " requests are waiting already");
  }
  ++inbox_requests_;
  inbox_tokens_ += static_cast<int64_t>(request.prompt.size() + request.generated.size());
  if (!inbox_oldest_) inbox_oldest_ = request.arrived;
  Post(std::move(request));
  return OkStatus();
}

// The queue of cancels is bounded by the requests: callers send one cancel per request.
void AttentionInstance::Cancel(const RequestKey& key) {
  const MutexLock lock(mu_);
  Post(key);
}

void AttentionInstance::CancelStream(uint64_t stream) {
  const MutexLock lock(mu_);
  Post(CancelStreamNote{stream});
}

void AttentionInstance::Post(Inbound inbound) {
  inbox_.push_back(std::move(inbound));
  inbox_pending_.store(true, std::memory_order_release);
  if (steps_by_ != nullptr) {
    steps_by_->Wake();
  } else {
    inbox_changed_.NotifyAll();
  }
}

void AttentionInstance::DrainInbox(std::vector<TokenEvent>& events) {
  if (!InboxPending()) return;
  inbox_pending_.store(false, std::memory_order_release);
  std::deque<Inbound> taken;
  {
    const MutexLock lock(mu_);
    taken.swap(inbox_);
    scheduler_waiting_ += inbox_requests_;
    scheduler_open_ += inbox_requests_;  // a request is counted at every moment
    load_.awaiting += inbox_requests_;
    load_.waiting_positions += inbox_tokens_;
    if (!load_.oldest) load_.oldest = inbox_oldest_;  // what came before is older
    inbox_requests_ = 0;
    inbox_tokens_ = 0;
    inbox_oldest_.reset();
  }
  for (Inbound& inbound : taken) {
    if (auto* request = std::get_if<Request>(&inbound)) {
      const RequestKey key = request->key;
      Status submitted = scheduler_.Submit(std::move(*request));
      if (submitted.ok()) continue;
      TokenEvent event;
      event.key = key;
      event.finish = FinishReason::kError;
      event.error = std::move(submitted);
      events.push_back(std::move(event));
    } else if (const auto* key = std::get_if<RequestKey>(&inbound)) {
      // No client waits for this event, but it reports the load, which is smaller now.
      if (scheduler_.Cancel(*key)) {
        TokenEvent event;
        event.key = *key;
        event.finish = FinishReason::kCancelled;
        events.push_back(std::move(event));
      }
    } else {
      scheduler_.CancelStream(std::get<CancelStreamNote>(inbound).stream);
    }
  }
  const MutexLock lock(mu_);
  PublishLoad();
}

void AttentionInstance::PublishLoad() {
  scheduler_waiting_ = scheduler_.waiting();
  scheduler_open_ = scheduler_.waiting() + scheduler_.running();
  statistics_.running = static_cast<uint64_t>(scheduler_.running());
  statistics_.swapped = static_cast<uint64_t>(scheduler_.swapped());
  statistics_.replayed = scheduler_.replayed();
  statistics_.kv_tokens_used = static_cast<uint64_t>(scheduler_.kv_tokens());
  load_ = scheduler_.load();
  if (scheduler_open_ == 0) idle_.NotifyAll();
}

bool AttentionInstance::WaitIdle(MonotonicTime deadline) {
  const MutexLock lock(mu_);
  while (scheduler_open_ > 0 || !inbox_.empty()) {
    if (!idle_.WaitUntil(mu_, deadline)) return false;
  }
  return true;
}

Demand AttentionInstance::MakeDemand(uint64_t for_step, const Scheduler::Outlook& outlook) {
  Demand demand = last_step_;
  demand.decode_rows = static_cast<uint32_t>(outlook.decode_rows);
  demand.prefill_rows = static_cast<uint32_t>(std::min<int64_t>(outlook.prefill_rows, UINT32_MAX));
  demand.kv_tokens = static_cast<uint64_t>(scheduler_.keys());
  last_step_ = Demand();
  demand_sent_for_ = for_step;
  demand_sent_work_ = demand.decode_rows + demand.prefill_rows > 0;
  demand_sent_at_ = MonotonicClock::now();
  return demand;
}

Status AttentionInstance::SendDemand(uint64_t for_step, const Scheduler::Outlook& outlook) {
  return epoch_->control->Say(for_step, MakeDemand(for_step, outlook));
}

MonotonicTime AttentionInstance::DemandExpires() const {
  return Later(demand_sent_at_, epoch_->control->detection());
}

// Between steps: sends a demand for work that no demand has reported yet, for the next ticket.
Status AttentionInstance::OfferWork() {
  if (scheduler_.idle()) {
    work_since_.reset();
    return OkStatus();
  }
  if (!work_since_) work_since_ = clock_.Now();
  const bool said = demand_sent_for_ > epoch_->control->newest() && demand_sent_work_;
  if (said && MonotonicClock::now() < DemandExpires()) return OkStatus();
  return SendDemand(epoch_->control->newest() + 1, scheduler_.After(Batch()));
}

Status AttentionInstance::Run(AttentionEpoch& epoch, std::stop_token stop) {
  Begin(epoch);
  stop_ = stop;
  Status ended;
  {
    const std::stop_callback wake(stop, [&] { epoch.transport.Wake(); });
    ended = RunSteps(stop);
    LetGo(epoch.exchange, epoch.pace.deadlines.loss);
    ended = JudgeLoss(std::move(ended), epoch.transport, epoch.control->left(), stop,
                      options_.departing, epoch.pace.deadlines.detection);
    if (ended.ok()) SayGoodbye(epoch.transport, epoch.topology.epoch);
  }
  End();
  return ended;
}

void AttentionInstance::Begin(AttentionEpoch& epoch) {
  epoch_ = &epoch;
  demand_sent_for_ = 0;
  demand_sent_work_ = false;
  last_step_ = Demand();
  work_since_.reset();
  given_up_ = 0;
  scheduler_.SharePrefixes(RuleOf(epoch.pace.prefixes, epoch.layers.has_classes()));
  if (holding_) EmitToAll({}, false);
  if (options_.trace != nullptr) {
    const Topology& topology = epoch.topology;
    options_.trace->Enter({Role::kAttention, epoch.rank, topology.epoch, model_.moe_layers(),
                           MostSpansOfLayer(topology),
                           AttentionEpoch::MaxTimings(model_.layers, topology.micro_batches)});
  }
  const MutexLock lock(mu_);
  steps_by_ = &epoch.transport;
  statistics_.rank = epoch.rank;
  statistics_.detection_seconds = epoch.control->detection().count();
}

void AttentionInstance::End() {
  counted_ = counted_ + CountsOf(*epoch_->control, epoch_->transport, epoch_->exchange);
  epoch_ = nullptr;
  const MutexLock lock(mu_);
  Report(counted_, statistics_);
  steps_by_ = nullptr;
}

void AttentionInstance::Hold(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mu_);
    inbox_changed_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    std::vector<TokenEvent> events;
    DrainInbox(events);
    // Each time, since a gateway may have attached meanwhile.
    EmitToAll(std::move(events), true);
    const MutexLock lock(mu_);
    while (inbox_.empty() && !stop.stop_requested()) inbox_changed_.Wait(mu_);
  }
}

void AttentionInstance::Rejoin(const AttentionEpoch& epoch) {
  const MutexLock lock(mu_);
  max_waiting_ = epoch.pace.max_waiting;
  has_left_ = false;
}

void AttentionInstance::Leave() {
  {
    const MutexLock lock(mu_);
    has_left_ = true;
  }
  std::vector<TokenEvent> events;
  DrainInbox(events);
  for (const RequestKey& key : scheduler_.CancelAll()) {
    TokenEvent event;
    event.key = key;
    event.finish = FinishReason::kCancelled;
    events.push_back(std::move(event));
  }
  Emit(0, std::move(events));
  const MutexLock lock(mu_);
  PublishLoad();
}

Status AttentionInstance::RunSteps(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<TokenEvent> events;
    DrainInbox(events);
    Emit(epoch_->control->newest(), std::move(events));
    epoch_->control->Poll();
    JANUS_RETURN_IF_ERROR(epoch_->control->error());
    if (epoch_->control->leaving()) {
      const Status left = LeaveStep();
      if (left.code() == StatusCode::kCancelled) return OkStatus();
      JANUS_RETURN_IF_ERROR(left);
      continue;
    }
    if (const std::optional<Ticket> next = epoch_->control->Next()) {
      const Ticket& ticket = *next;
      RoundKey first;
      first.epoch = epoch_->topology.epoch;
      first.step = ticket.step;
      epoch_->exchange.BeginStep(first, ticket.participants());
      if (ticket.participates(epoch_->rank.value)) {
        const Status executed = ExecuteStep(ticket);
        if (executed.code() == StatusCode::kCancelled) return OkStatus();
        if (executed.code() == StatusCode::kAborted) continue;
        if (!executed.ok()) return executed.Annotate("step " + std::to_string(ticket.step));
      } else if (demand_sent_for_ == ticket.step) {
        if (demand_sent_work_) {
          const MutexLock lock(mu_);
          ++statistics_.sit_outs;
        }
        // The ticket went out before our demand arrived: the coordinator waits for the next one,
        // even if there is nothing left to do.
        JANUS_RETURN_IF_ERROR(SendDemand(ticket.step + 1, scheduler_.After(Batch())));
      }
      continue;
    }
    JANUS_RETURN_IF_ERROR(OfferWork());
    MonotonicTime deadline = std::min(MonotonicClock::now() + std::chrono::seconds(3600),
                                      epoch_->control->NextDeadline());
    if (!scheduler_.idle()) deadline = std::min(deadline, DemandExpires());
    const Status waited = epoch_->transport.Wait(deadline, [&] {
      if (epoch_->control->Poll() || InboxPending() || stop.stop_requested()) return true;
      return epoch_->control->NextDeadline() < deadline;  // patience has begun
    });
    if (!waited.ok() && waited.code() != StatusCode::kDeadlineExceeded) return waited;
  }
  return OkStatus();
}

// The demand sent before counted on the step that is given up, so this sends a new one.
Status AttentionInstance::LeaveStep() {
  JANUS_RETURN_IF_ERROR(epoch_->control->Leave(
      epoch_->exchange,
      [&] { return MakeDemand(epoch_->control->newest() + 1, scheduler_.After(Batch())); }, stop_));
  given_up_ = scheduler_.idle() ? 0 : given_up_ + 1;
  NoteWork(clock_.Now());
  {
    const MutexLock lock(mu_);
    statistics_.steps_aborted += 1;
    CountMessages();
  }
  if (given_up_ <= options_.most_repeats) return OkStatus();
  return Internal("step " + std::to_string(epoch_->control->newest()) +
                  " and those before it were given up " + std::to_string(given_up_) +
                  " times in a row; at last: " + epoch_->control->reason());
}

void AttentionInstance::CountMessages() {
  statistics_.detection_seconds = epoch_->control->detection().count();
  Report(counted_ + CountsOf(*epoch_->control, epoch_->transport, epoch_->exchange), statistics_);
}

Status AttentionInstance::ExecuteStep(const Ticket& ticket) {
  const MonotonicTime start = clock_.Now();
  coordinator_wait_ = work_since_ ? start - *work_since_ : Seconds(0);
  JANUS_RETURN_IF_ERROR(epoch_->timings.Start());
  if (options_.trace != nullptr) options_.trace->BeginStep(ticket.step, start);
  const TicketShare share = ticket.shares[static_cast<size_t>(epoch_->rank.value)];
  BatchLimits limits{share.row_limit, share.prefill_budget};
  limits.prefill_rows = PrefillRows(ticket.step, limits.prefill_rows);
  if (PreemptsBefore(ticket.step)) scheduler_.PreemptNewest();
  const Batch batch = scheduler_.FormBatch(limits);
  JANUS_RETURN_IF_ERROR(SendDemand(ticket.step + 1, scheduler_.After(batch)));
  BeginMasks(batch);
  routed_.Begin(batch, epoch_->topology.micro_batches, epoch_->turn());

  if (options_.pacer != nullptr) {
    options_.pacer->BeginStep(start);
    NotePacedRows(batch);
  }
  JANUS_RETURN_IF_ERROR(EndTiming(kHost));
  JANUS_RETURN_IF_ERROR(epoch_->layers.Begin(batch));
  JANUS_RETURN_IF_ERROR(EndTiming(kKernels));
  JANUS_RETURN_IF_ERROR(RunLayers(ticket));
  JANUS_ASSIGN_OR_RETURN(const std::span<const float> logits, Sample(batch));
  if (AttentionPacer* const pacer = options_.pacer) {
    const MonotonicTime due =
        pacer->EndStep(std::accumulate(paced_rows_.begin(), paced_rows_.end(), PacedRows()),
                       *std::max_element(came_.begin(), came_.end()));
    JANUS_RETURN_IF_ERROR(AwaitDue(last_round_, due).status());
    JANUS_RETURN_IF_ERROR(EndTiming(kKernels));
  }
  JANUS_RETURN_IF_ERROR(AwaitGpu(last_round_));
  JANUS_RETURN_IF_ERROR(ObserveTimings());
  if (options_.trace != nullptr) options_.trace->EndStep();
  scheduler_.MarkComputed(batch);
  std::vector<TokenEvent> events;
  routed_.Finish(batch, events);
  const std::vector<int32_t> scored = RowsToScore(batch);
  if (scored.empty()) {
    JANUS_RETURN_IF_ERROR(Finish(batch, logits, events));
  } else {
    // Scoring overwrites the logits that tokens are drawn from, so these are computed again.
    JANUS_RETURN_IF_ERROR(ScorePrompts(scored, batch, events));
    JANUS_ASSIGN_OR_RETURN(const std::span<const float> again, epoch_->layers.Logits(wanted_rows_));
    JANUS_RETURN_IF_ERROR(Finish(batch, again, events));
  }

  const Seconds took = clock_.Now() - start;
  given_up_ = 0;
  last_step_.last_decode_rows = static_cast<uint32_t>(batch.decode_rows);
  last_step_.last_prefill_rows = static_cast<uint32_t>(batch.prefill_rows);
  last_step_.last_step_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  const auto drawn =
      std::ranges::count_if(events, [](const TokenEvent& e) { return e.token >= 0; });
  UpdateStatistics(batch, took, static_cast<int>(drawn));
  const MonotonicTime computed = clock_.Now();
  Emit(ticket.step, std::move(events));
  const MonotonicTime emitted = clock_.Now();
  emission_ += emitted - computed;
  NoteWork(emitted);
  return OkStatus();
}

// Sets work_since_. No step runs from `now` on.
void AttentionInstance::NoteWork(MonotonicTime now) {
  work_since_.reset();
  if (!scheduler_.idle()) work_since_ = now;
}

Status AttentionInstance::RunLayers(const Ticket& ticket) {
  const int b = epoch_->topology.micro_batches;
  RoundKey key;
  key.epoch = epoch_->topology.epoch;
  key.step = ticket.step;
  // Per micro-batch: the MoE layer of the rows that the experts have; -1: none.
  std::array<int, kMaxMicroBatches> away;
  away.fill(-1);
  const auto collect = [&](int i) -> Status {
    const int from = std::exchange(away[static_cast<size_t>(i)], -1);
    if (from < 0) return OkStatus();
    key.layer = static_cast<uint16_t>(from);
    key.micro_batch = static_cast<uint8_t>(i);
    return Collect(key);
  };
  for (int layer = 0, moe = 0; layer < model_.layers; ++layer) {
    const bool dense = model_.IsDense(layer);
    for (int i = 0; i < b; ++i) {
      JANUS_RETURN_IF_ERROR(collect(i));
      if (dense) {
        TraceEnters(nullptr);
        JANUS_RETURN_IF_ERROR(epoch_->layers.DenseLayer(layer, i));
        JANUS_RETURN_IF_ERROR(EndTiming(kKernels));
        continue;
      }
      // An empty micro-batch is sent in the first round and then left out.
      if (epoch_->layers.rows(i) == 0 && moe > 0) continue;
      key.layer = static_cast<uint16_t>(moe);
      key.micro_batch = static_cast<uint8_t>(i);
      JANUS_RETURN_IF_ERROR(SendRound(key, layer));
      away[static_cast<size_t>(i)] = moe;
    }
    if (!dense) ++moe;
  }
  for (int i = 0; i < b; ++i) JANUS_RETURN_IF_ERROR(collect(i));
  TraceEnters(nullptr);
  last_round_ = key;
  return OkStatus();
}

Status AttentionInstance::SendRound(const RoundKey& key, int layer) {
  TraceEnters(&key);
  const int rows = epoch_->layers.rows(key.micro_batch);
  std::byte* const out = epoch_->exchange.Rows(key.micro_batch).data();
  // Without rows only the header is sent.
  const auto of = [&](int what) { return rows == 0 ? int{kHost} : what; };
  AttentionPacer* const pacer = options_.pacer;
  MonotonicTime ready = clock_.Now();
  JANUS_RETURN_IF_ERROR(epoch_->layers.Attend(layer, key.micro_batch, out));
  const bool gates = epoch_->exchange.gate() == GateSide::kAttention;
  if (gates) {
    if (pacer == nullptr) JANUS_RETURN_IF_ERROR(EndTiming(of(kAttention)));
    const ChosenExperts chosen = epoch_->exchange.Choices(key.micro_batch, rows);
    JANUS_RETURN_IF_ERROR(
        epoch_->layers.Gate(layer, key.micro_batch, out, chosen.ids, chosen.weights));
  }
  if (pacer != nullptr) {
    const bool is_first =
        key.layer == 0 && key.micro_batch == 0 && epoch_->topology.micro_batches > 1;
    const MonotonicTime due =
        pacer->Attend(paced_rows_[key.micro_batch], came_[key.micro_batch], is_first);
    JANUS_ASSIGN_OR_RETURN(ready, AwaitDue(key, due));
  }
  JANUS_RETURN_IF_ERROR(EndTiming(of(gates && pacer == nullptr ? kGate : kAttention)));
  if (epoch_->exchange.PostsBehindGpu()) JANUS_RETURN_IF_ERROR(AwaitGpu(key));
  JANUS_RETURN_IF_ERROR(epoch_->exchange.Post(key, rows, ready));
  JANUS_RETURN_IF_ERROR(EndTiming(of(kSend)));
  JANUS_RETURN_IF_ERROR(epoch_->layers.SharedExperts(layer, key.micro_batch, out));
  if (pacer != nullptr) {
    JANUS_RETURN_IF_ERROR(AwaitDue(key, pacer->Share(rows)).status());
  }
  return EndTiming(of(kShared));
}

void AttentionInstance::NotePacedRows(const Batch& batch) {
  const int b = epoch_->topology.micro_batches;
  came_.fill(MonotonicTime());
  paced_rows_.fill(PacedRows());
  for (int i = 0; i < b; ++i) {
    const Part part = MicroBatch(static_cast<int>(batch.rows.size()), i, b, epoch_->turn());
    PacedRows& rows = paced_rows_[static_cast<size_t>(i)];
    for (int at = part.first; at < part.first + part.rows; ++at) {
      const int64_t keys = int64_t{batch.rows[static_cast<size_t>(at)].position} + 1;
      if (at < batch.decode_rows) {  // they come first
        ++rows.decode;
        rows.decode_keys += keys;
      } else {
        ++rows.prompt;
        rows.prompt_keys += keys;
      }
    }
  }
}

Result<MonotonicTime> AttentionInstance::AwaitDue(const RoundKey& key, MonotonicTime due) {
  JANUS_RETURN_IF_ERROR(AwaitMoment(key, due));
  return options_.pacer->Show(due, clock_.Now());
}

Status AttentionInstance::AwaitMoment(const RoundKey& key, MonotonicTime moment) {
  const auto is_over = [&] {
    if (stop_.stop_requested() || clock_.Now() >= moment) return true;
    epoch_->control->Poll();
    return epoch_->control->leaving();
  };
  const Status waited = epoch_->transport.Wait(moment, is_over);
  if (stop_.stop_requested()) return Cancelled("stopped");
  if (epoch_->control->leaving()) return Missed(key, Aborted("waiting for the timed device"));
  return waited.code() == StatusCode::kDeadlineExceeded ? OkStatus() : waited;
}

Status AttentionInstance::AwaitGpu(const RoundKey& key) {
  const MonotonicTime deadline = Later(clock_.Now(), epoch_->control->detection());
  Result<bool> is_done = epoch_->timings.Query();
  const auto come = [&] {
    is_done = epoch_->timings.Query();
    if (!is_done.ok() || *is_done || stop_.stop_requested()) return true;
    epoch_->control->Poll();
    return epoch_->control->leaving();
  };
  if (is_done.ok() && !*is_done) {
    const Status waited = AwaitDevice(epoch_->transport, deadline, come);
    if (stop_.stop_requested()) return Cancelled("stopped");
    if (is_done.ok() && *is_done && epoch_->control->leaving()) {
      return Aborted("the step is given up");
    }
    const auto [round, who] =
        HeldUpBy(epoch_->exchange.Behind()).value_or(WaitedFor{key, kForTheGpu});
    if (epoch_->control->leaving()) return Missed(round, Aborted(who));
    const Status why = waited.Annotate(who);
    if (waited.code() == StatusCode::kDeadlineExceeded) return Missed(round, why);
    JANUS_RETURN_IF_ERROR(why);
  }
  return is_done.status();
}

Status AttentionInstance::ObserveTimings() {
  wait_ = kernels_ = exchange_ = Seconds(0);
  const bool shares = model_.moe.shared_intermediate > 0;
  return epoch_->timings.Read([&](int what, Seconds took) {
    if (options_.trace != nullptr) options_.trace->Took(WorkOf(what), took);
    if (what == kReceive || what == kReceiveNothing) {
      wait_ += took;
    } else if (what != kHost && what != kSend) {
      kernels_ += took;
    }
    if (what == kSend || what == kShared || what == kReceive) exchange_ += took;
    StepMetrics* const metrics = options_.metrics;
    if (metrics == nullptr) return;
    StepMetrics::Exchange& exchange = metrics->Of(epoch_->topology.mode);
    if (what == kAttention) metrics->attention.Observe(took.count());
    if (what == kSend) exchange.send.Observe(took.count());
    if (what == kShared && shares) metrics->shared_experts.Observe(took.count());
    if (what == kReceive) exchange.receive.Observe(took.count());
    if (what == kCombine) metrics->combine.Observe(took.count());
    if (what == kGate) metrics->gate.Observe(took.count());
  });
}

Status AttentionInstance::Collect(const RoundKey& key) {
  TraceEnters(&key);
  const MonotonicTime start = clock_.Now();
  Result<bool> all = false;
  const auto arrived = [&] {
    all = epoch_->exchange.Poll(key);
    if (!all.ok() || *all || stop_.stop_requested()) return true;
    epoch_->control->Poll();
    return epoch_->control->leaving();
  };
  const Status waited = epoch_->transport.Wait(Later(start, epoch_->control->detection()), arrived);
  if (stop_.stop_requested()) return Cancelled("stopped");
  if (!all.ok()) return Missed(key, all.status());
  if (*all && epoch_->control->leaving()) return Aborted("the step is given up");
  const bool is_late = waited.code() == StatusCode::kDeadlineExceeded;
  if (epoch_->control->leaving() || is_late) {
    std::string experts;
    for (const Rank e : epoch_->exchange.Awaited(key.micro_batch)) {
      experts += " " + std::to_string(e.value);
    }
    // An expert is not late if our own GPU is blocked on a different peer; report that peer
    // instead.
    const auto [round, who] =
        HeldUpBy(epoch_->exchange.Behind())
            .value_or(WaitedFor{key, "waiting for the contributions of experts" + experts});
    return Missed(round, epoch_->control->leaving() ? Aborted(who) : waited.Annotate(who));
  }
  if (!waited.ok()) {
    return waited.Annotate("MoE layer " + std::to_string(key.layer) + ": waiting for the experts");
  }
  if (options_.pacer != nullptr) {
    came_[key.micro_batch] = epoch_->exchange.Ready(key.micro_batch);
    JANUS_RETURN_IF_ERROR(AwaitMoment(key, came_[key.micro_batch]));
  }
  epoch_->control->OnArrival(clock_.Now() - start);
  if (routed_.any()) {
    const Status taken = routed_.Take(key, epoch_->exchange.Experts(key.micro_batch));
    if (!taken.ok()) return Missed(key, taken);
  }
  const bool any = epoch_->layers.rows(key.micro_batch) > 0;
  JANUS_RETURN_IF_ERROR(epoch_->layers.TakeExperts(key.micro_batch,
                                                   epoch_->exchange.Contributions(key.micro_batch),
                                                   epoch_->exchange.OnDevice(key.micro_batch)));
  JANUS_RETURN_IF_ERROR(epoch_->exchange.StreamWait(key));
  JANUS_RETURN_IF_ERROR(EndTiming(any ? kReceive : kReceiveNothing));
  JANUS_RETURN_IF_ERROR(epoch_->layers.AddExperts(key.micro_batch));
  return EndTiming(any ? kCombine : kHost);
}

Status AttentionInstance::Missed(const RoundKey& round, const Status& why) {
  JANUS_RETURN_IF_ERROR(epoch_->control->Miss(round, why));
  // Update the counts now: giving the step up may take as long as the slowest member.
  const MutexLock lock(mu_);
  CountMessages();
  return Aborted("the step is given up");
}

Result<std::span<const float>> AttentionInstance::Sample(const Batch& batch) {
  wanted_rows_.clear();
  const bool all = WantsAllLogits();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i].last || all) wanted_rows_.push_back(static_cast<int32_t>(i));
  }
  std::span<const float> logits;
  if (wanted_rows_.empty()) return logits;
  JANUS_ASSIGN_OR_RETURN(logits, epoch_->layers.Logits(wanted_rows_));
  JANUS_RETURN_IF_ERROR(EndTiming(kKernels));
  JANUS_RETURN_IF_ERROR(SampleRows(batch, logits));
  return logits;
}

Status AttentionInstance::Finish(const Batch& batch, std::span<const float> logits,
                                 std::vector<TokenEvent>& events) {
  if (wanted_rows_.empty()) return OkStatus();
  std::span<const float> on_host;
  if (LogitsAreRead(batch)) {
    JANUS_ASSIGN_OR_RETURN(on_host, epoch_->layers.OnHost(logits));
  }
  const auto vocab = static_cast<size_t>(model_.vocab);
  const auto logits_of = [&](size_t i) {
    return on_host.empty() ? on_host : on_host.subspan(i * vocab, vocab);
  };
  for (size_t i = 0; WantsAllLogits() && i < wanted_rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
    OnLogits(row.sequence->request.key, row.position, logits_of(i));
  }
  for (size_t i = 0; i < wanted_rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
    if (!row.last) continue;
    kernels::SampledToken token = drawn()[i];
    Status refused;
    if (row.sequence->ChangesLogits()) {
      JANUS_ASSIGN_OR_RETURN(token, DrawChanged(*row.sequence, logits_of(i), refused));
    }
    AddEvent(row, token, refused, logits_of(i), events);
  }
  return OkStatus();
}

void AttentionInstance::BeginMasks(const Batch& batch) {
  std::vector<std::shared_ptr<Constraint>> constraints;
  for (const BatchRow& row : batch.rows) {
    if (row.last && row.sequence->constraint) constraints.push_back(row.sequence->constraint);
  }
  constraint_thread_.Begin(std::move(constraints));
}

Result<kernels::SampledToken> AttentionInstance::DrawChanged(const Sequence& sequence,
                                                             std::span<const float> logits,
                                                             Status& refused) {
  changed_logits_.assign(logits.begin(), logits.end());
  if (sequence.constraint) refused = sequence.constraint->Apply(changed_logits_);
  if (!refused.ok()) return kernels::SampledToken{.token = -1};
  if (sequence.changes) sequence.changes->Apply(changed_logits_);
  kernels::SamplingParams params = ParamsOf(sequence);
  const int top = std::exchange(params.logprobs, -1);
  JANUS_ASSIGN_OR_RETURN(const kernels::SampledToken drawn,
                         epoch_->host_sampler.Draw(changed_logits_, params));
  if (drawn.token < 0 && sequence.constraint) {
    refused = InvalidArgument("the grammar and the other parameters together leave no token");
  }
  if (drawn.token < 0 || top < 0) return drawn;
  JANUS_ASSIGN_OR_RETURN(
      const std::span<const kernels::SampledToken> scored,
      epoch_->host_sampler.Score(logits, std::span(&drawn.token, 1), std::span(&top, 1)));
  return scored[0];
}

Status AttentionInstance::ScorePrompts(std::span<const int32_t> rows, const Batch& batch,
                                       std::vector<TokenEvent>& events) {
  const auto most = static_cast<size_t>(options_.max_batch);
  for (size_t first = 0; first < rows.size(); first += most) {
    JANUS_RETURN_IF_ERROR(
        ScoreRows(rows.subspan(first, std::min(most, rows.size() - first)), batch, events));
  }
  return OkStatus();
}

Status AttentionInstance::ScoreRows(std::span<const int32_t> rows, const Batch& batch,
                                    std::vector<TokenEvent>& events) {
  std::vector<int32_t> tokens;
  std::vector<int> top;
  for (const int32_t i : rows) {
    const BatchRow& row = batch.rows[static_cast<size_t>(i)];
    tokens.push_back(row.sequence->tokens[static_cast<size_t>(row.position) + 1]);
    top.push_back(row.sequence->request.prompt_logprobs);
  }
  JANUS_ASSIGN_OR_RETURN(std::span<const float> logits, epoch_->layers.Logits(rows));
  JANUS_ASSIGN_OR_RETURN(logits, epoch_->layers.OnHost(logits));
  JANUS_ASSIGN_OR_RETURN(const std::span<const kernels::SampledToken> scored,
                         epoch_->host_sampler.Score(logits, tokens, top));
  for (size_t i = 0; i < rows.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(rows[i])];
    Sequence& sequence = *row.sequence;
    if (i == 0 || batch.rows[static_cast<size_t>(rows[i - 1])].sequence != &sequence) {
      TokenEvent& event = events.emplace_back();
      event.key = sequence.request.key;
      event.prompt_logprobs_from = row.position + 1;
    }
    events.back().prompt_logprobs.push_back(LogprobsOf(scored[i]));
    sequence.scored = row.position + 2;
  }
  return OkStatus();
}

bool AttentionInstance::LogitsAreRead(const Batch& batch) const {
  if (WantsAllLogits()) return true;
  return std::any_of(wanted_rows_.begin(), wanted_rows_.end(), [&](int32_t row) {
    const Sequence& sequence = *batch.rows[static_cast<size_t>(row)].sequence;
    return sequence.request.want_logits_hash || sequence.ChangesLogits();
  });
}

// One call for all rows with logits, including those that only WantsAllLogits requested.
Status AttentionInstance::SampleRows(const Batch& batch, std::span<const float> logits) {
  kernels::Staging& sampling = epoch_->sampling;
  const int rows = static_cast<int>(wanted_rows_.size());
  const int max_rows = epoch_->topology.max_rows_per_round;
  const size_t first_drawn = AttentionEpoch::SampledAt(max_rows, 0);
  JANUS_RETURN_IF_ERROR(sampling.Reopen());
  auto* const all_params = sampling.host_at<kernels::SamplingParams>(0);
  std::fill_n(sampling.host_at<kernels::SampledToken>(first_drawn), rows, kernels::SampledToken());
  for (size_t i = 0; i < wanted_rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
    const kernels::SamplingParams from =
        row.last ? ParamsOf(*row.sequence) : kernels::SamplingParams();
    // Assign the fields one by one, so that the padding between them stays as the staging
    // initialised it.
    kernels::SamplingParams& params = all_params[i];
    params.temperature = from.temperature;
    params.top_k = from.top_k;
    params.top_p = from.top_p;
    params.seed = from.seed;
    params.position = from.position;
    params.logprobs = from.logprobs;
  }
  kernels::SampleArgs args;
  args.logits = logits.data();
  args.params = sampling.device_at<kernels::SamplingParams>(0);
  args.tokens = sampling.device_at<kernels::SampledToken>(first_drawn);
  args.logits_stride = model_.vocab;
  args.rows = rows;
  args.vocab = vocabulary_;
  args.workspace = epoch_->sample_workspace.data();
  args.workspace_bytes = static_cast<int64_t>(epoch_->sample_workspace.size());
  JANUS_RETURN_IF_ERROR(EndTiming(kHost));
  JANUS_RETURN_IF_ERROR(
      sampling.Push(0, static_cast<size_t>(rows) * sizeof(kernels::SamplingParams)));
  const Status sampled = kernels::Sample(epoch_->place.stream, args);
  // Rows with unsound logits get no token; the others do.
  if (sampled.code() != StatusCode::kDataLoss) JANUS_RETURN_IF_ERROR(sampled);
  JANUS_RETURN_IF_ERROR(
      sampling.Pull(first_drawn, static_cast<size_t>(rows) * sizeof(kernels::SampledToken)));
  return EndTiming(kKernels);
}

std::span<const kernels::SampledToken> AttentionInstance::drawn() const {
  const size_t first = AttentionEpoch::SampledAt(epoch_->topology.max_rows_per_round, 0);
  return {epoch_->sampling.host_at<kernels::SampledToken>(first), wanted_rows_.size()};
}

void AttentionInstance::FollowGrammar(Constraint& constraint, TokenEvent& event) {
  if (event.finish != FinishReason::kNone && event.finish != FinishReason::kLength) return;
  const Result<bool> complete = constraint.Note(event.token);
  if (!complete.ok()) {
    event.finish = FinishReason::kError;
    event.error = complete.status();
  } else if (*complete) {
    event.finish = FinishReason::kComplete;
  }
}

void AttentionInstance::AddEvent(const BatchRow& row, const kernels::SampledToken& drawn,
                                 const Status& refused, std::span<const float> logits,
                                 std::vector<TokenEvent>& events) {
  Sequence& sequence = *row.sequence;
  const Request& request = sequence.request;
  TokenEvent event;
  event.key = request.key;
  // A replay's client has had this number for a long time.
  if (sequence.generated() == 0) event.cached_prompt_tokens = sequence.cached;
  if (!refused.ok()) {
    event.finish = FinishReason::kError;
    event.error = refused;
  } else if (drawn.token < 0) {
    event.finish = FinishReason::kError;
    event.error = DataLoss("position " + std::to_string(row.position) +
                           ": the logits hold a NaN or nothing finite; are the weights sound?");
  } else {
    event.token = drawn.token;
    event.finish = scheduler_.Append(sequence, drawn.token);
    if (sequence.constraint) FollowGrammar(*sequence.constraint, event);
    NoteToken(sequence, event.finish);
    if (request.logprobs >= 0) {
      event.has_logprobs = true;
      event.logprobs = LogprobsOf(drawn);
    }
    if (request.want_logits_hash) {
      event.has_logits_hash = true;
      event.logits_hash = kernels::HashLogits(logits);
    }
  }
  const bool over = event.finish != FinishReason::kNone;
  events.push_back(std::move(event));
  if (over) scheduler_.Remove(sequence);
}

void AttentionInstance::NoteToken(Sequence& sequence, FinishReason finish) {
  const MonotonicTime now = clock_.Now();
  const int drawn = sequence.generated() - sequence.given;
  if (drawn == 1) {
    sequence.first_token = now;
    // For a replay, the user has had the first token for a long time.
    if (sequence.given == 0) ttft_counts_.Add(Seconds(now - sequence.request.arrived));
  }
  if (finish == FinishReason::kNone || drawn < 2) return;
  const Seconds tpot = Seconds(now - sequence.first_token) / (drawn - 1);
  tpot_seconds_.Add(tpot.count());
  tpot_counts_.Add(tpot);
}

void AttentionInstance::EmitToAll(std::vector<TokenEvent>&& events, bool holding) {
  holding_ = holding;
  EmitOutput(0, std::move(events), true);
}

void AttentionInstance::Emit(uint64_t step, std::vector<TokenEvent>&& events) {
  if (!events.empty()) EmitOutput(step, std::move(events), false);
}

void AttentionInstance::EmitOutput(uint64_t step, std::vector<TokenEvent>&& events,
                                   bool is_for_all) {
  StepOutput output;
  output.holding = holding_;
  output.is_for_all = is_for_all;
  output.step = step;
  output.events = std::move(events);
  output.kv_tokens_in_use = static_cast<uint64_t>(scheduler_.kv_tokens());
  output.keys = static_cast<uint64_t>(scheduler_.keys());
  output.waiting = static_cast<uint32_t>(scheduler_.waiting());
  output.running = static_cast<uint32_t>(scheduler_.running());
  if (options_.pacer != nullptr) {
    const PacerCounts counts = options_.pacer->counts();
    output.timed_waits = counts.waits;
    output.timed_overruns = counts.overruns;
  }
  sink_.Push(std::move(output));
}

void AttentionInstance::UpdateStatistics(const Batch& batch, Seconds took, int drawn) {
  step_seconds_.Add(took.count());
  if (StepMetrics* const metrics = options_.metrics) {
    metrics->step.Observe(took.count());
    metrics->wait_coordinator.Observe(coordinator_wait_.count());
    metrics->wait_peer.Observe(wait_.count());
  }
  const MutexLock lock(mu_);
  PublishLoad();
  statistics_.steps += 1;
  statistics_.rows += batch.rows.size();
  statistics_.tokens += static_cast<uint64_t>(drawn);
  statistics_.step_seconds_median = step_seconds_.value();
  statistics_.compute_seconds += (took - wait_).count();
  statistics_.wait_seconds += wait_.count();
  // It includes handing over the previous step's tokens; this step's are handed over later.
  statistics_.host_seconds += (took - wait_ - kernels_ + emission_).count();
  CountStep(batch, took);
  emission_ = Seconds(0);
  CountMessages();
  if (options_.pacer != nullptr) Report(options_.pacer->counts(), {}, statistics_);
  statistics_.preempted = scheduler_.preempted();
  statistics_.recomputed = scheduler_.recomputed();
  statistics_.cached = scheduler_.cached();
  statistics_.cached_in_host = scheduler_.cached_in_host();
  statistics_.saved_to_host = cache_->saved_positions();
  statistics_.prefix_host_bytes = static_cast<uint64_t>(cache_->prefix_host_used());
  statistics_.tpot_seconds_median = tpot_seconds_.value();
  statistics_.tpot_counts = tpot_counts_;
  statistics_.ttft_counts = ttft_counts_;
}

// A batch has its decode rows first (Scheduler::FormBatch).
void AttentionInstance::CountStep(const Batch& batch, Seconds took) {
  uint64_t keys[2] = {0, 0};
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const bool is_prompt = i >= static_cast<size_t>(batch.decode_rows);
    keys[is_prompt ? 1 : 0] += static_cast<uint64_t>(batch.rows[i].position) + 1;
  }
  LoadCounts& load = *statistics_.load;
  load.decode_rows += static_cast<uint64_t>(batch.decode_rows);
  load.decode_keys += keys[0];
  load.prompt_rows += static_cast<uint64_t>(batch.prefill_rows);
  load.prompt_keys += keys[1];
  load.attention_seconds += kernels_.count();
  load.exchange_seconds += exchange_.count();
  load.step_seconds += (coordinator_wait_ + took + emission_).count();
}

InstanceStatistics AttentionInstance::statistics() const {
  const MutexLock lock(mu_);
  InstanceStatistics now = statistics_;
  // Includes requests that arrived during the running step, however long that takes.
  now.waiting = static_cast<uint64_t>(scheduler_waiting_ + inbox_requests_);
  LoadCounts& load = *now.load;
  load.decoding = static_cast<uint64_t>(load_.decoding);
  load.decoding_kv_tokens = static_cast<uint64_t>(load_.decoding_kv_tokens);
  load.awaiting = static_cast<uint64_t>(load_.awaiting + inbox_requests_);
  load.waiting_prompt_tokens = static_cast<uint64_t>(load_.waiting_positions + inbox_tokens_);
  const std::optional<MonotonicTime> oldest = load_.oldest ? load_.oldest : inbox_oldest_;
  if (oldest) load.oldest_waiting_seconds = std::max(Seconds(clock_.Now() - *oldest).count(), 0.0);
  return now;
}

}  // namespace janus::dataplane
