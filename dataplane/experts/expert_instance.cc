#include "dataplane/experts/expert_instance.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dataplane/comm/wire/wire.h"
#include "dataplane/steps/await_device.h"
#include "dataplane/steps/goodbye.h"

namespace janus::dataplane {
namespace {

RoutingRecord::Epoch RoutingEpochOf(const ModelDescription& model, const Topology& topology,
                                    Rank rank) {
  return {topology.epoch,
          model.moe_layers(),
          model.moe.experts,
          model.moe.top_k,
          rank.value,
          topology.n(),
          static_cast<size_t>(topology.m()) * static_cast<size_t>(topology.max_rows_per_round) *
              static_cast<size_t>(model.moe.top_k)};
}

// What the time between two marks of a round was spent on.
enum Timing : int { kReceive, kGate, kAebs, kExperts, kSend };

StepWork WorkOf(int timing) {
  constexpr std::array kWorks = {StepWork::kReceive, StepWork::kGate, StepWork::kAebs,
                                 StepWork::kExperts, StepWork::kSend};
  return kWorks[static_cast<size_t>(timing)];
}

// A number that no other round of the epoch has: 48 bits of the step, the layer, the micro-batch.
uint64_t DrawOf(const RoundKey& key) {
  const uint64_t layer = key.layer;
  return key.step << 16 ^ layer << 4 ^ key.micro_batch;
}

size_t MaxTimings(const ModelDescription& model, const Topology& topology) {
  return static_cast<size_t>(model.moe_layers()) * static_cast<size_t>(MostSpansOfLayer(topology));
}

StepTraceRecord::Epoch TraceEpochOf(const ModelDescription& model, const Topology& topology,
                                    Rank rank) {
  return {Role::kExperts,
          rank,
          topology.epoch,
          model.moe_layers(),
          MostSpansOfLayer(topology),
          MaxTimings(model, topology)};
}

}  // namespace

ExpertInstance::ExpertInstance(const ExpertOptions& options, const ModelDescription& model,
                               const ExpertWeights& weights, const Topology& topology, Rank rank,
                               Transport& transport, ExpertExchange& exchange, const Clock& clock,
                               const kernels::Place& place)
    : options_(options),
      model_(model),
      epoch_(topology.epoch),
      micro_batches_(topology.micro_batches),
      mode_(topology.mode),
      routing_epoch_(RoutingEpochOf(model, topology, rank)),
      trace_epoch_(TraceEpochOf(model, topology, rank)),
      transport_(transport),
      exchange_(exchange),
      clock_(clock),
      layers_(MakeExpertLayers(
          model, weights, topology, rank,
          {options.scheduling, options.crossover_rows, options.graphs,
           exchange.DeviceReplies(0, Rank{0}) != nullptr, exchange.compression(), exchange.sums()},
          place)),
      control_(transport, topology.m(), topology.max_rows_per_round, topology.epoch,
               options.deadlines, options.log),
      sources_(static_cast<size_t>(topology.m())),
      timings_(*place.context, clock, MaxTimings(model, topology)) {
  statistics_.role = Role::kExperts;
  statistics_.rank = rank;
  statistics_.detection_seconds = control_.detection().count();
  statistics_.load.emplace();
}

void ExpertInstance::CountOnFrom(const InstanceStatistics& before) {
  const MutexLock lock(mu_);
  const Rank rank = statistics_.rank;
  statistics_ = before;
  statistics_.role = Role::kExperts;
  statistics_.rank = rank;
  statistics_.detection_seconds = control_.detection().count();
  if (!statistics_.load) statistics_.load.emplace();
  counted_ = CountsOf(before);
  paced_ = {before.timed_waits, before.timed_overruns};
}

Status ExpertInstance::Run(std::stop_token stop) {
  stop_ = stop;
  const std::stop_callback wake(stop, [this] { transport_.Wake(); });
  if (options_.routing != nullptr) options_.routing->Enter(routing_epoch_);
  if (options_.trace != nullptr) options_.trace->Enter(trace_epoch_);
  Status ended = RunSteps(stop);
  LetGo(exchange_, options_.deadlines.loss);
  ended = JudgeLoss(std::move(ended), transport_, control_.left(), stop, options_.departing,
                    options_.deadlines.detection);
  if (ended.ok()) SayGoodbye(transport_, epoch_);
  return ended;
}

Status ExpertInstance::RunSteps(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Status waited = transport_.Wait(MonotonicClock::now() + std::chrono::seconds(3600),
                                          [&] { return control_.Poll() || stop.stop_requested(); });
    if (!waited.ok() && waited.code() != StatusCode::kDeadlineExceeded) return waited;
    JANUS_RETURN_IF_ERROR(control_.error());
    Status done;
    if (control_.leaving()) {
      done = LeaveStep();
    } else if (const std::optional<Ticket> ticket = control_.Next()) {
      done = ExecuteStep(*ticket);
      if (done.code() == StatusCode::kAborted) continue;
      if (!done.ok()) done = done.Annotate("step " + std::to_string(ticket->step));
    }
    if (done.code() == StatusCode::kCancelled) return OkStatus();
    JANUS_RETURN_IF_ERROR(done);
  }
  return OkStatus();
}

Status ExpertInstance::LeaveStep() {
  JANUS_RETURN_IF_ERROR(control_.Leave(
      exchange_, [] { return Demand(); }, stop_));
  const MutexLock lock(mu_);
  statistics_.steps_aborted += 1;
  CountMessages();
  return OkStatus();
}

Status ExpertInstance::Missed(const RoundKey& round, const Status& why) {
  JANUS_RETURN_IF_ERROR(control_.Miss(round, why));
  // Update the counts now: giving the step up may take as long as the slowest member.
  const MutexLock lock(mu_);
  CountMessages();
  return Aborted("the step is given up");
}

void ExpertInstance::CountMessages() {
  statistics_.detection_seconds = control_.detection().count();
  Report(counted_ + CountsOf(control_, transport_, exchange_), statistics_);
}

Status ExpertInstance::ExecuteStep(const Ticket& ticket) {
  RoundKey key;
  key.epoch = epoch_;
  key.step = ticket.step;
  const Participants participants = ticket.participants();
  exchange_.BeginStep(key, participants);
  const MonotonicTime start = clock_.Now();
  if (options_.routing != nullptr) options_.routing->BeginStep();
  if (options_.trace != nullptr) options_.trace->BeginStep(ticket.step, start);
  wait_ = gate_ = aebs_ = computed_ = Seconds(0);
  rows_ = rounds_ = activated_ = clamped_ = 0;
  is_overlapped_ = false;
  JANUS_RETURN_IF_ERROR(timings_.Start());
  const int b = micro_batches_;
  // Per micro-batch, the participants that still have rows. The headers of the first layer tell
  // that.
  std::vector<std::vector<bool>> active(static_cast<size_t>(b), participants);
  for (int layer = 0; layer < model_.moe_layers(); ++layer) {
    for (int i = 0; i < b; ++i) {
      std::vector<bool>& who = active[static_cast<size_t>(i)];
      if (std::none_of(who.begin(), who.end(), [](bool in) { return in; })) continue;
      key.layer = static_cast<uint16_t>(layer);
      key.micro_batch = static_cast<uint8_t>(i);
      for (size_t a = 0; a < sources_.size(); ++a) {
        sources_[a] = Source();
        sources_[a].awaited = who[a];
      }
      if (options_.trace != nullptr) options_.trace->Enters(layer, i);
      layers_->Begin(layer, DrawOf(key));
      const Status done = [&] {
        JANUS_RETURN_IF_ERROR(AwaitRows(key));
        JANUS_RETURN_IF_ERROR(AwaitArrival(key));
        JANUS_RETURN_IF_ERROR(layers_->Assign());
        JANUS_RETURN_IF_ERROR(EndTiming(kAebs));
        JANUS_RETURN_IF_ERROR(layers_->Start());
        JANUS_RETURN_IF_ERROR(AwaitAssigned(key));
        return Answer(key);
      }();
      if (done.code() == StatusCode::kCancelled || done.code() == StatusCode::kAborted) return done;
      if (!done.ok()) return done.Annotate("MoE layer " + std::to_string(layer));
      for (size_t a = 0; a < sources_.size(); ++a) who[a] = who[a] && sources_[a].rows.count > 0;
    }
  }
  JANUS_RETURN_IF_ERROR(AwaitEnd(key));
  JANUS_RETURN_IF_ERROR(ObserveTimings());
  if (options_.routing != nullptr) options_.routing->EndStep();
  if (options_.trace != nullptr) options_.trace->EndStep();
  const Seconds took = clock_.Now() - start;
  if (options_.metrics != nullptr) {
    options_.metrics->step.Observe(took.count());
    options_.metrics->wait_peer.Observe(wait_.count());
  }
  const MutexLock lock(mu_);
  statistics_.steps += 1;
  statistics_.rows += rows_;
  statistics_.rounds += rounds_;
  CountMessages();
  statistics_.activated_experts += activated_;
  statistics_.clamped_elements += clamped_;
  if (options_.pacer != nullptr) Report(options_.pacer->counts(), paced_, statistics_);
  statistics_.compute_seconds += (took - wait_).count();
  statistics_.wait_seconds += wait_.count();
  statistics_.load->gate_seconds += gate_.count();
  statistics_.load->aebs_seconds += aebs_.count();
  statistics_.load->expert_seconds += computed_.count();
  return OkStatus();
}

Status ExpertInstance::AwaitRound(const RoundKey& key, bool of_device, FunctionRef<bool()> ready,
                                  FunctionRef<std::string()> what) {
  const MonotonicTime deadline = Later(wait_began_, control_.detection());
  bool is_ready = false;
  const Status waited = Await(of_device, transport_, deadline, [&] {
    is_ready = ready();
    if (is_ready) return true;
    control_.Poll();
    return control_.leaving() || stop_.stop_requested();
  });
  if (stop_.stop_requested()) return Cancelled("stopped");
  if (control_.leaving()) {
    return is_ready ? Aborted("the step is given up") : Missed(key, Aborted(what()));
  }
  if (waited.ok()) return OkStatus();
  const Status why = waited.Annotate(what());
  return waited.code() == StatusCode::kDeadlineExceeded ? Missed(key, why) : why;
}

// Waits for the rows, and gates those that are here meanwhile.
Status ExpertInstance::AwaitRows(const RoundKey& key) {
  wait_began_ = clock_.Now();
  for (;;) {
    Status failed;
    size_t came = sources_.size();
    const auto any_new = [&] {
      bool missing = false;
      for (size_t a = 0; a < sources_.size(); ++a) {
        Source& source = sources_[a];
        if (!source.awaited || source.here) continue;
        const Result<bool> here = exchange_.Poll(key, Rank{static_cast<int32_t>(a)}, source.rows);
        if (!here.ok()) {
          failed = here.status();
          return true;
        }
        if (*here) {
          came = a;
          return true;
        }
        missing = true;
      }
      return !missing;
    };
    JANUS_RETURN_IF_ERROR(AwaitRound(key, false, any_new, [&] {
      std::string who;
      for (size_t a = 0; a < sources_.size(); ++a) {
        if (sources_[a].awaited && !sources_[a].here) who += " " + std::to_string(a);
      }
      return "waiting for the rows of attention" + who;
    }));
    if (!failed.ok()) return Missed(key, failed);
    JANUS_RETURN_IF_ERROR(exchange_.StreamWait());
    JANUS_RETURN_IF_ERROR(EndTiming(kReceive));
    if (came == sources_.size()) break;
    Source& source = sources_[came];
    source.here = true;
    const Rank from{static_cast<int32_t>(came)};
    JANUS_RETURN_IF_ERROR(
        layers_->Gate(from, source.rows, exchange_.DeviceReplies(key.micro_batch, from)));
    JANUS_RETURN_IF_ERROR(EndTiming(kGate));
  }
  all_here_ = clock_.Now();
  return OkStatus();
}

Status ExpertInstance::AwaitArrival(const RoundKey& key) {
  if (options_.pacer == nullptr) return OkStatus();
  int rows = 0;
  MonotonicTime sent;
  for (const Source& source : sources_) {
    if (!source.here) continue;
    rows += source.rows.count;
    sent = std::max(sent, source.rows.ready);
  }
  const bool is_first = key.layer == 0 && key.micro_batch == 0;
  if (is_first) is_overlapped_ = micro_batches_ > 1 && rows > 0;
  JANUS_RETURN_IF_ERROR(
      AwaitMoment(key, options_.pacer->Receive(rows, sent, is_first && is_overlapped_)));
  all_here_ = clock_.Now();
  return EndTiming(kReceive);
}

Result<MonotonicTime> ExpertInstance::AwaitDue(const RoundKey& key) {
  const bool is_last = is_overlapped_ && key.layer + 1 == model_.moe_layers() &&
                       key.micro_batch + 1 == micro_batches_;
  const MonotonicTime due =
      options_.pacer->Compute({key.layer, layers_->RowsOfHeldSlots(), layers_->routed()}, is_last);
  JANUS_RETURN_IF_ERROR(AwaitMoment(key, due));
  return options_.pacer->Send(options_.pacer->Show(due, clock_.Now()), is_last);
}

Status ExpertInstance::AwaitMoment(const RoundKey& key, MonotonicTime moment) {
  const Status waited = transport_.Wait(moment, [&] {
    if (clock_.Now() >= moment) return true;
    control_.Poll();
    return control_.leaving() || stop_.stop_requested();
  });
  if (stop_.stop_requested()) return Cancelled("stopped");
  if (control_.leaving()) return Missed(key, Aborted("waiting for the timed device"));
  return waited.code() == StatusCode::kDeadlineExceeded ? OkStatus() : waited;
}

Status ExpertInstance::AwaitGpu(const RoundKey& key, FunctionRef<Result<bool>()> ask,
                                FunctionRef<std::string()> what) {
  Result<bool> is_done = ask();
  const auto come = [&] {
    is_done = ask();
    return !is_done.ok() || *is_done;
  };
  if (is_done.ok() && !*is_done) JANUS_RETURN_IF_ERROR(AwaitRound(key, true, come, what));
  return is_done.status();
}

Status ExpertInstance::AwaitAssigned(const RoundKey& key) {
  const auto what = [&] {
    std::string who;
    for (size_t a = 0; a < sources_.size(); ++a) {
      const Rank from{static_cast<int32_t>(a)};
      if (sources_[a].here && !exchange_.IsThere(key, from, sources_[a].rows)) {
        who += " " + std::to_string(a);
      }
    }
    return who.empty() ? "waiting for the GPU to route the rows"
                       : "waiting for the GPU of attention" + who;
  };
  JANUS_RETURN_IF_ERROR(AwaitGpu(
      key, [&] { return layers_->IsAssigned(); }, what));
  longest_wait_ = clock_.Now() - wait_began_;
  return OkStatus();
}

Status ExpertInstance::Answer(const RoundKey& key) {
  JANUS_RETURN_IF_ERROR(layers_->Compute(
      [&](Rank to, int count) { return exchange_.Begin(key.micro_batch, to, count); }));
  MonotonicTime ready = all_here_;
  if (options_.pacer != nullptr) {
    JANUS_ASSIGN_OR_RETURN(ready, AwaitDue(key));
  }
  JANUS_RETURN_IF_ERROR(EndTiming(kExperts));
  if (exchange_.PostsBehindGpu()) {
    // This wait gets a full deadline, however late the rows were.
    wait_began_ = clock_.Now();
    JANUS_RETURN_IF_ERROR(AwaitGpu(
        key, [&] { return timings_.Query(); },
        [] { return std::string("waiting for the GPU's experts"); }));
    longest_wait_ = std::max<Seconds>(longest_wait_, clock_.Now() - wait_began_);
  }
  control_.OnArrival(longest_wait_);
  for (size_t a = 0; a < sources_.size(); ++a) {
    if (!sources_[a].awaited) continue;
    JANUS_RETURN_IF_ERROR(exchange_.Post(key, Rank{static_cast<int32_t>(a)}, ready));
  }
  JANUS_RETURN_IF_ERROR(EndTiming(kSend));
  // Record the routing now, while attention continues with the answer.
  if (options_.routing != nullptr) options_.routing->Add(key, layers_->routed(), all_here_);
  rows_ += static_cast<uint64_t>(layers_->rows());
  ++rounds_;
  activated_ += static_cast<uint64_t>(layers_->activated());
  const uint32_t clamped = layers_->clamped();
  clamped_ += clamped - std::exchange(clamped_before_, clamped);
  return OkStatus();
}

Status ExpertInstance::AwaitEnd(const RoundKey& key) {
  wait_began_ = clock_.Now();
  return AwaitGpu(
      key, [&] { return timings_.Query(); },
      [] { return std::string("waiting for the GPU's last round"); });
}

Status ExpertInstance::ObserveTimings() {
  std::array<Seconds, kSend + 1> of_round{};
  return timings_.Read([&](int what, Seconds took) {
    if (options_.trace != nullptr) options_.trace->Took(WorkOf(what), took);
    of_round[static_cast<size_t>(what)] += took;
    if (what != kSend) return;
    wait_ += of_round[kReceive];
    gate_ += of_round[kGate];
    aebs_ += of_round[kAebs];
    computed_ += of_round[kExperts];
    if (StepMetrics* const metrics = options_.metrics) {
      metrics->Of(mode_).receive.Observe(of_round[kReceive].count());
      metrics->gate.Observe(of_round[kGate].count());
      metrics->aebs.Observe(of_round[kAebs].count());
      metrics->experts.Observe(of_round[kExperts].count());
      metrics->Of(mode_).send.Observe(of_round[kSend].count());
    }
    of_round = {};
  });
}

InstanceStatistics ExpertInstance::statistics() const {
  const MutexLock lock(mu_);
  return statistics_;
}

}  // namespace janus::dataplane
