#include "dataplane/attention/attention_instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "dataplane/attention/leader.h"
#include "dataplane/comm/follower.h"
#include "dataplane/comm/goodbye.h"
#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

// Adds the time of its life to a sum.
class Timed {
 public:
  Timed(const Clock& clock, Seconds& sum) : clock_(clock), sum_(sum), start_(clock.Now()) {}
  ~Timed() { sum_ += clock_.Now() - start_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const Clock& clock_;
  Seconds& sum_;
  const MonotonicTime start_;
};

// Part i of `rows` rows cut into b micro-batches.
struct Part {
  int first = 0;
  int rows = 0;
};
Part MicroBatch(int rows, int i, int b) {
  const int first = rows * i / b;
  return {first, rows * (i + 1) / b - first};
}

// What sampling would refuse in the middle of a step, where it would cost everybody.
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
  if (request.max_tokens < 1) return refuse("max_tokens", request.max_tokens, "1 or more");
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<AttentionInstance>> AttentionInstance::Create(
    const AttentionOptions& options, const ModelDescription& model, const AttentionWeights& weights,
    const Topology& topology, Rank rank, Transport& transport, AttentionExchange& exchange,
    TokenSink& sink, const Clock& clock, const kernels::Stream& stream) {
  if (options.max_batch < 1 || options.max_batch > topology.max_rows_per_round) {
    return InvalidArgument("maxBatchSize " + std::to_string(options.max_batch) + ": want 1.." +
                           std::to_string(topology.max_rows_per_round) + ", the rows of a round");
  }
  if (options.max_model_len > model.max_positions) {
    return InvalidArgument("maxModelLen " + std::to_string(options.max_model_len) +
                           ": the model has " + std::to_string(model.max_positions) + " positions");
  }
  KvCacheOptions cache_options;
  cache_options.layers = model.layers;
  cache_options.page_bytes = CachePageBytes(model);
  cache_options.bytes = options.kv_bytes;
  cache_options.swap_bytes = options.swap_bytes;
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, KvCache::Create(cache_options));
  return std::unique_ptr<AttentionInstance>(new AttentionInstance(options, model, weights, topology,
                                                                  rank, transport, exchange, sink,
                                                                  clock, stream, std::move(cache)));
}

AttentionInstance::AttentionInstance(const AttentionOptions& options, const ModelDescription& model,
                                     const AttentionWeights& weights, const Topology& topology,
                                     Rank rank, Transport& transport, AttentionExchange& exchange,
                                     TokenSink& sink, const Clock& clock,
                                     const kernels::Stream& stream, std::unique_ptr<KvCache> cache)
    : options_(options),
      model_(model),
      topology_(topology),
      rank_(rank),
      max_model_len_(options.max_model_len > 0 ? options.max_model_len : model.max_positions),
      transport_(transport),
      exchange_(exchange),
      sink_(sink),
      clock_(clock),
      stream_(stream),
      cache_(std::move(cache)),
      scheduler_({options.max_batch, options.max_waiting, max_model_len_}, *cache_),
      layers_(model, weights, *cache_, stream, topology.max_rows_per_round) {
  if (rank.value == 0) {
    CoordinatorOptions coordinator;
    coordinator.m = topology.m();
    coordinator.max_rows = topology.max_rows_per_round;
    coordinator.tpot_target = options.tpot_target;
    coordinator.least_prefill_share = options.least_prefill_share;
    control_ = std::make_unique<Leader>(coordinator, topology, options.deadlines, transport, clock,
                                        options.log);
  } else {
    control_ = std::make_unique<Follower>(transport, topology.m(), topology.max_rows_per_round,
                                          topology.epoch, options.deadlines, options.log);
  }
  const int threads = stream.team == nullptr ? 1 : stream.team->size();
  sample_workspace_ =
      AlignedBuffer(static_cast<size_t>(kernels::SampleWorkspaceBytes(model.vocab, threads)));
  statistics_.role = Role::kAttention;
  statistics_.rank = rank;
  statistics_.detection_seconds = control_->detection().count();
  statistics_.kv_tokens_capacity = static_cast<uint64_t>(kv_capacity_tokens());
}

Status AttentionInstance::CheckTokens(std::span<const int32_t> tokens, const char* whose) const {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < model_.vocab) continue;
    return InvalidArgument("token id " + std::to_string(token) + " of " + whose +
                           ": the vocabulary has " + std::to_string(model_.vocab));
  }
  return OkStatus();
}

Status AttentionInstance::Submit(Request request) {
  if (request.prompt.empty()) return InvalidArgument("the prompt is empty");
  JANUS_RETURN_IF_ERROR(CheckTokens(request.prompt, "the prompt"));
  JANUS_RETURN_IF_ERROR(CheckTokens(request.generated, "the generated tokens"));
  JANUS_RETURN_IF_ERROR(ValidateSampling(request));
  if (request.want_logits_hash && !options_.logits_hashes) {
    return InvalidArgument(
        "logits_hash: this service hashes no logits; start it with --debug-logits-hash");
  }
  {
    const MutexLock lock(mu_);
    if (inbox_requests_ + scheduler_waiting_ >= options_.max_waiting) {
      return ResourceExhausted(std::to_string(inbox_requests_ + scheduler_waiting_) +
                               " requests are waiting already");
    }
    ++inbox_requests_;
    inbox_.emplace_back(std::move(request));
  }
  inbox_pending_.store(true, std::memory_order_release);
  transport_.Wake();
  return OkStatus();
}

// Cancels are bounded by the requests they end: the callers send one per request.
void AttentionInstance::Cancel(const RequestKey& key) {
  {
    const MutexLock lock(mu_);
    inbox_.emplace_back(key);
  }
  inbox_pending_.store(true, std::memory_order_release);
  transport_.Wake();
}

void AttentionInstance::CancelStream(uint64_t stream) {
  {
    const MutexLock lock(mu_);
    inbox_.emplace_back(CancelStreamNote{stream});
  }
  inbox_pending_.store(true, std::memory_order_release);
  transport_.Wake();
}

void AttentionInstance::DrainInbox(std::vector<TokenEvent>& events) {
  if (!InboxPending()) return;
  inbox_pending_.store(false, std::memory_order_release);
  std::deque<Inbound> taken;
  {
    const MutexLock lock(mu_);
    taken.swap(inbox_);
    scheduler_waiting_ += inbox_requests_;
    scheduler_open_ += inbox_requests_;  // at no moment does a request count nowhere
    inbox_requests_ = 0;
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
      // Nobody waits for this event, but with it goes the load, which is now less.
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
  demand.kv_tokens = static_cast<uint64_t>(scheduler_.kv_tokens());
  last_step_ = Demand();
  demand_sent_for_ = for_step;
  demand_sent_work_ = demand.decode_rows + demand.prefill_rows > 0;
  demand_sent_at_ = MonotonicClock::now();
  return demand;
}

Status AttentionInstance::SendDemand(uint64_t for_step, const Scheduler::Outlook& outlook) {
  return control_->Say(for_step, MakeDemand(for_step, outlook));
}

MonotonicTime AttentionInstance::DemandExpires() const {
  return Later(demand_sent_at_, control_->detection());
}

// Between steps: work that no demand has announced yet is announced for the next ticket.
Status AttentionInstance::OfferWork() {
  if (scheduler_.idle()) return OkStatus();
  const bool said = demand_sent_for_ > control_->newest() && demand_sent_work_;
  if (said && MonotonicClock::now() < DemandExpires()) return OkStatus();
  return SendDemand(control_->newest() + 1, scheduler_.After(Batch()));
}

Status AttentionInstance::Run(std::stop_token stop) {
  stop_ = stop;
  const std::stop_callback wake(stop, [this] { transport_.Wake(); });
  Status ended = RunSteps(stop);
  ended =
      JudgeLoss(std::move(ended), transport_, control_->left(), stop, options_.deadlines.detection);
  if (ended.ok()) SayGoodbye(transport_, topology_.epoch);
  return ended;
}

Status AttentionInstance::RunSteps(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<TokenEvent> events;
    DrainInbox(events);
    Emit(control_->newest(), std::move(events));
    control_->Poll();
    JANUS_RETURN_IF_ERROR(control_->error());
    if (control_->leaving()) {
      const Status left = LeaveStep();
      if (left.code() == StatusCode::kCancelled) return OkStatus();
      JANUS_RETURN_IF_ERROR(left);
      continue;
    }
    if (const std::optional<Ticket> next = control_->Next()) {
      const Ticket& ticket = *next;
      if (ticket.participates(rank_.value)) {
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
    MonotonicTime deadline =
        std::min(MonotonicClock::now() + std::chrono::seconds(3600), control_->NextDeadline());
    if (!scheduler_.idle()) deadline = std::min(deadline, DemandExpires());
    const Status waited = transport_.Wait(deadline, [&] {
      if (control_->Poll() || InboxPending() || stop.stop_requested()) return true;
      return control_->NextDeadline() < deadline;  // patience has begun
    });
    if (!waited.ok() && waited.code() != StatusCode::kDeadlineExceeded) return waited;
  }
  return OkStatus();
}

// What was announced of work here counted on the step that is given up, so it is said anew.
Status AttentionInstance::LeaveStep() {
  JANUS_RETURN_IF_ERROR(control_->Leave(
      exchange_, [&] { return MakeDemand(control_->newest() + 1, scheduler_.After(Batch())); },
      stop_));
  given_up_ = scheduler_.idle() ? 0 : given_up_ + 1;
  {
    const MutexLock lock(mu_);
    statistics_.steps_aborted += 1;
    CountMessages();
  }
  if (given_up_ <= options_.most_repeats) return OkStatus();
  return Internal("step " + std::to_string(control_->newest()) +
                  " and those before it were given up " + std::to_string(given_up_) +
                  " times in a row; at last: " + control_->reason());
}

void AttentionInstance::CountMessages() {
  statistics_.rounds_missed = control_->missed();
  statistics_.detection_seconds = control_->detection().count();
  statistics_.messages_malformed = transport_.dropped();
  statistics_.messages_late = exchange_.stale();
  statistics_.messages_dropped =
      statistics_.messages_malformed + statistics_.messages_late + control_->dropped();
  statistics_.bytes_sent = exchange_.bytes_sent();
  statistics_.bytes_received = exchange_.bytes_received();
}

Status AttentionInstance::ExecuteStep(const Ticket& ticket) {
  const MonotonicTime start = clock_.Now();
  wait_ = Seconds(0);
  kernels_ = Seconds(0);
  const TicketShare share = ticket.shares[static_cast<size_t>(rank_.value)];
  BatchLimits limits{share.row_limit, share.prefill_budget};
  if (options_.prefill_override) limits.prefill_rows = options_.prefill_override(ticket.step);
  if (options_.preempt_override && options_.preempt_override(ticket.step)) {
    scheduler_.PreemptNewest();
  }
  const Batch batch = scheduler_.FormBatch(limits);
  JANUS_RETURN_IF_ERROR(SendDemand(ticket.step + 1, scheduler_.After(batch)));

  {
    const Timed kernel(clock_, kernels_);
    JANUS_RETURN_IF_ERROR(layers_.Begin(batch));
  }
  JANUS_RETURN_IF_ERROR(RunLayers(ticket, batch));
  scheduler_.MarkComputed(batch);
  std::vector<TokenEvent> events;
  JANUS_RETURN_IF_ERROR(Finish(batch, events));

  const Seconds took = clock_.Now() - start;
  given_up_ = 0;
  last_step_.last_decode_rows = static_cast<uint32_t>(batch.decode_rows);
  last_step_.last_prefill_rows = static_cast<uint32_t>(batch.prefill_rows);
  last_step_.last_step_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  UpdateStatistics(batch, took, static_cast<int>(events.size()));
  const Timed emission(clock_, emission_);
  Emit(ticket.step, std::move(events));
  return OkStatus();
}

Status AttentionInstance::RunLayers(const Ticket& ticket, const Batch& batch) {
  const int b = topology_.micro_batches;
  const int rows = static_cast<int>(batch.rows.size());
  RoundKey key;
  key.epoch = topology_.epoch;
  key.step = ticket.step;
  // Per micro-batch: the MoE layer whose rows are with the experts; -1: none.
  std::array<int, kMaxMicroBatches> away;
  away.fill(-1);
  const auto collect = [&](int i) -> Status {
    const int from = std::exchange(away[static_cast<size_t>(i)], -1);
    if (from < 0) return OkStatus();
    const Part part = MicroBatch(rows, i, b);
    key.layer = static_cast<uint16_t>(from);
    key.micro_batch = static_cast<uint8_t>(i);
    return Collect(key, part.first, part.rows);
  };
  for (int layer = 0, moe = 0; layer < model_.layers; ++layer) {
    const bool dense = model_.IsDense(layer);
    for (int i = 0; i < b; ++i) {
      const Part part = MicroBatch(rows, i, b);
      JANUS_RETURN_IF_ERROR(collect(i));
      if (dense) {
        const Timed kernel(clock_, kernels_);
        JANUS_RETURN_IF_ERROR(layers_.DenseLayer(layer, part.first, part.rows));
        continue;
      }
      // A micro-batch of no rows is announced in the first round and then left out.
      if (part.rows == 0 && moe > 0) continue;
      key.layer = static_cast<uint16_t>(moe);
      key.micro_batch = static_cast<uint8_t>(i);
      const std::span<std::byte> out = exchange_.Rows(i);
      const MonotonicTime ready = clock_.Now();
      {
        const Timed kernel(clock_, kernels_);
        JANUS_RETURN_IF_ERROR(layers_.Attend(layer, part.first, part.rows, out.data()));
      }
      JANUS_RETURN_IF_ERROR(exchange_.Post(key, part.rows, ready));
      away[static_cast<size_t>(i)] = moe;
      const Timed kernel(clock_, kernels_);
      JANUS_RETURN_IF_ERROR(layers_.SharedExperts(layer, part.first, part.rows, out.data()));
    }
    if (!dense) ++moe;
  }
  for (int i = 0; i < b; ++i) JANUS_RETURN_IF_ERROR(collect(i));
  return OkStatus();
}

Status AttentionInstance::Collect(const RoundKey& key, int first, int rows) {
  const MonotonicTime start = clock_.Now();
  Result<bool> all = false;
  const auto arrived = [&] {
    all = exchange_.Poll(key);
    if (!all.ok() || *all || stop_.stop_requested()) return true;
    control_->Poll();
    return control_->leaving();
  };
  const Status waited = transport_.Wait(Later(start, control_->detection()), arrived);
  if (stop_.stop_requested()) return Cancelled("stopped");
  if (control_->leaving()) return Aborted("the step is given up");
  if (!all.ok()) return Missed(key, all.status());
  if (waited.code() == StatusCode::kDeadlineExceeded) {
    std::string who = "waiting for the contributions of experts";
    for (const Rank e : exchange_.Awaited(key.micro_batch)) who += " " + std::to_string(e.value);
    return Missed(key, waited.Annotate(who));
  }
  if (!waited.ok()) {
    return waited.Annotate("MoE layer " + std::to_string(key.layer) + ": waiting for the experts");
  }
  const Seconds took = clock_.Now() - start;
  control_->OnArrival(took);
  wait_ += took;
  const Timed kernel(clock_, kernels_);
  return layers_.AddExperts(first, rows, exchange_.Contributions(key.micro_batch));
}

Status AttentionInstance::Missed(const RoundKey& round, const Status& why) {
  JANUS_RETURN_IF_ERROR(control_->Miss(round, why));
  // At once: giving the step up may take as long as the slowest member.
  const MutexLock lock(mu_);
  CountMessages();
  return Aborted("the step is given up");
}

Status AttentionInstance::Finish(const Batch& batch, std::vector<TokenEvent>& events) {
  wanted_rows_.clear();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i].last || options_.logits_tap) wanted_rows_.push_back(static_cast<int32_t>(i));
  }
  if (wanted_rows_.empty()) return OkStatus();
  std::span<const float> logits;
  {
    const Timed kernel(clock_, kernels_);
    JANUS_ASSIGN_OR_RETURN(logits, layers_.Logits(wanted_rows_));
  }
  const auto vocab = static_cast<size_t>(model_.vocab);
  if (options_.logits_tap) {
    for (size_t i = 0; i < wanted_rows_.size(); ++i) {
      const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
      options_.logits_tap(row.sequence->request.key, row.position,
                          logits.subspan(i * vocab, vocab));
    }
  }
  JANUS_RETURN_IF_ERROR(SampleRows(batch, logits));
  for (size_t i = 0; i < wanted_rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
    if (row.last) AddEvent(row, drawn_[i], logits.subspan(i * vocab, vocab), events);
  }
  return OkStatus();
}

// One call for all rows that have logits, those included that only a tap asked for.
Status AttentionInstance::SampleRows(const Batch& batch, std::span<const float> logits) {
  sampling_.assign(wanted_rows_.size(), {});
  drawn_.assign(wanted_rows_.size(), {});
  for (size_t i = 0; i < wanted_rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(wanted_rows_[i])];
    if (!row.last) continue;
    const Request& request = row.sequence->request;
    kernels::SamplingParams& params = sampling_[i];
    params.temperature = request.temperature;
    params.top_k = request.top_k;
    params.top_p = request.top_p;
    params.seed = request.seed;
    params.position = static_cast<int64_t>(row.sequence->tokens.size());
    params.logprobs = request.logprobs;
  }
  kernels::SampleArgs args;
  args.logits = logits.data();
  args.params = sampling_.data();
  args.tokens = drawn_.data();
  args.rows = static_cast<int64_t>(wanted_rows_.size());
  args.vocab = model_.vocab;
  args.workspace = sample_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(sample_workspace_.size());
  const Timed kernel(clock_, kernels_);
  Status sampled = kernels::Sample(stream_, args);
  // Rows of unsound logits have no token; the others do.
  return sampled.code() == StatusCode::kDataLoss ? OkStatus() : sampled;
}

void AttentionInstance::AddEvent(const BatchRow& row, const kernels::SampledToken& drawn,
                                 std::span<const float> logits, std::vector<TokenEvent>& events) {
  Sequence& sequence = *row.sequence;
  const Request& request = sequence.request;
  TokenEvent event;
  event.key = request.key;
  if (drawn.token < 0) {
    event.finish = FinishReason::kError;
    event.error = DataLoss("position " + std::to_string(row.position) +
                           ": the logits hold a NaN or nothing finite; are the weights sound?");
  } else {
    event.token = drawn.token;
    event.finish = scheduler_.Append(sequence, drawn.token);
    NoteToken(sequence, event.finish);
    if (request.logprobs >= 0) {
      event.has_logprobs = true;
      event.logprobs.logprob = drawn.logprob;
      for (int t = 0; t < drawn.num_top; ++t) {
        event.logprobs.top.emplace_back(drawn.top_tokens[t], drawn.top_logprobs[t]);
      }
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
  if (drawn == 1) sequence.first_token = now;
  if (finish == FinishReason::kNone || drawn < 2) return;
  tpot_seconds_.Add(Seconds(now - sequence.first_token).count() / (drawn - 1));
}

void AttentionInstance::Emit(uint64_t step, std::vector<TokenEvent>&& events) {
  if (events.empty()) return;
  StepOutput output;
  output.step = step;
  output.events = std::move(events);
  output.kv_tokens_in_use = static_cast<uint64_t>(scheduler_.kv_tokens());
  output.waiting = static_cast<uint32_t>(scheduler_.waiting());
  output.running = static_cast<uint32_t>(scheduler_.running());
  sink_.Push(std::move(output));
}

void AttentionInstance::UpdateStatistics(const Batch& batch, Seconds took, int drawn) {
  step_seconds_.Add(took.count());
  if (options_.step_seconds != nullptr) options_.step_seconds->Observe(took.count());
  const MutexLock lock(mu_);
  PublishLoad();
  statistics_.steps += 1;
  statistics_.rows += batch.rows.size();
  statistics_.tokens += static_cast<uint64_t>(drawn);
  statistics_.kv_tokens_used = static_cast<uint64_t>(scheduler_.kv_tokens());
  statistics_.step_seconds_median = step_seconds_.value();
  statistics_.compute_seconds += (took - wait_).count();
  statistics_.wait_seconds += wait_.count();
  // Handing over what the step before brought is part of it; this step's is still to come.
  statistics_.host_seconds += (took - wait_ - kernels_ + emission_).count();
  emission_ = Seconds(0);
  CountMessages();
  statistics_.preempted = scheduler_.preempted();
  statistics_.recomputed = scheduler_.recomputed();
  statistics_.tpot_seconds_median = tpot_seconds_.value();
}

InstanceStatistics AttentionInstance::statistics() const {
  const MutexLock lock(mu_);
  InstanceStatistics now = statistics_;
  // What came while a step runs counts, however long that takes.
  now.waiting = static_cast<uint64_t>(scheduler_waiting_ + inbox_requests_);
  return now;
}

}  // namespace janus::dataplane
