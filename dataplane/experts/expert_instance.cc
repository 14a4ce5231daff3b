#include "dataplane/experts/expert_instance.h"

#include <algorithm>
#include <cstring>

#include "dataplane/comm/goodbye.h"
#include "dataplane/comm/wire.h"

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
      transport_(transport),
      exchange_(exchange),
      clock_(clock),
      layers_(MakeExpertLayers(model, weights, topology, rank,
                               {options.scheduling, options.crossover_rows, options.graphs,
                                exchange.DeviceReplies(0, Rank{0}) != nullptr},
                               place)),
      control_(transport, topology.m(), topology.max_rows_per_round, topology.epoch,
               options.deadlines, options.log),
      sources_(static_cast<size_t>(topology.m())) {
  statistics_.role = Role::kExperts;
  statistics_.rank = rank;
  statistics_.detection_seconds = control_.detection().count();
}

void ExpertInstance::CountOnFrom(const InstanceStatistics& before) {
  const MutexLock lock(mu_);
  const Rank rank = statistics_.rank;
  statistics_ = before;
  statistics_.role = Role::kExperts;
  statistics_.rank = rank;
  statistics_.detection_seconds = control_.detection().count();
  counted_ = CountsOf(before);
}

Status ExpertInstance::Run(std::stop_token stop) {
  stop_ = stop;
  const std::stop_callback wake(stop, [this] { transport_.Wake(); });
  if (options_.routing != nullptr) options_.routing->Enter(routing_epoch_);
  Status ended = RunSteps(stop);
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
  // At once: giving the step up may take as long as the slowest member.
  const MutexLock lock(mu_);
  CountMessages();
  return Aborted("the step is given up");
}

void ExpertInstance::CountMessages() {
  statistics_.detection_seconds = control_.detection().count();
  Show(counted_ + CountsOf(control_, transport_, exchange_), statistics_);
}

Status ExpertInstance::ExecuteStep(const Ticket& ticket) {
  RoundKey key;
  key.epoch = epoch_;
  key.step = ticket.step;
  std::vector<bool> participants(ticket.shares.size());
  for (size_t a = 0; a < participants.size(); ++a) {
    participants[a] = ticket.participates(static_cast<int>(a));
  }
  const MonotonicTime start = clock_.Now();
  if (options_.routing != nullptr) options_.routing->BeginStep();
  wait_ = Seconds(0);
  rows_ = rounds_ = activated_ = 0;
  const int b = micro_batches_;
  // Who still has rows, per micro-batch: told by the headers of the first layer.
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
      layers_->Begin(layer);
      const Status done = [&] {
        JANUS_RETURN_IF_ERROR(AwaitRows(key));
        return Answer(key);
      }();
      if (done.code() == StatusCode::kCancelled || done.code() == StatusCode::kAborted) return done;
      if (!done.ok()) return done.Annotate("MoE layer " + std::to_string(layer));
      for (size_t a = 0; a < sources_.size(); ++a) who[a] = who[a] && sources_[a].rows.count > 0;
    }
  }
  if (options_.routing != nullptr) options_.routing->EndStep();
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
  statistics_.compute_seconds += (took - wait_).count();
  statistics_.wait_seconds += wait_.count();
  return OkStatus();
}

// Gates the rows of whoever is here while the others are awaited.
Status ExpertInstance::AwaitRows(const RoundKey& key) {
  const MonotonicTime start = clock_.Now();
  const MonotonicTime deadline = Later(start, control_.detection());
  Seconds gating{0};
  for (;;) {
    Status failed;
    size_t came = sources_.size();
    bool missing = false;
    const auto any_new = [&] {
      missing = false;
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
      if (missing) control_.Poll();
      return !missing || control_.leaving() || stop_.stop_requested();
    };
    const Status waited = transport_.Wait(deadline, any_new);
    if (stop_.stop_requested()) return Cancelled("stopped");
    if (control_.leaving()) return Aborted("the step is given up");
    if (!failed.ok()) return Missed(key, failed);
    if (!waited.ok()) {
      std::string who;
      for (size_t a = 0; a < sources_.size(); ++a) {
        if (sources_[a].awaited && !sources_[a].here) who += " " + std::to_string(a);
      }
      const Status why = waited.Annotate("waiting for the rows of attention" + who);
      return waited.code() == StatusCode::kDeadlineExceeded ? Missed(key, why) : why;
    }
    if (came == sources_.size()) break;
    Source& source = sources_[came];
    source.here = true;
    const MonotonicTime gate_start = clock_.Now();
    const Rank from{static_cast<int32_t>(came)};
    JANUS_RETURN_IF_ERROR(
        layers_->Gate(from, source.rows, exchange_.DeviceReplies(key.micro_batch, from)));
    gating += clock_.Now() - gate_start;
  }
  all_here_ = clock_.Now();
  control_.OnArrival(all_here_ - start);
  const Seconds waited = all_here_ - start - gating;
  wait_ += waited;
  if (options_.metrics != nullptr) {
    options_.metrics->gate.Observe(gating.count());
    options_.metrics->Of(mode_).receive.Observe(waited.count());
  }
  return OkStatus();
}

Status ExpertInstance::Answer(const RoundKey& key) {
  JANUS_RETURN_IF_ERROR(layers_->Assign());
  const MonotonicTime assigned = clock_.Now();
  JANUS_RETURN_IF_ERROR(layers_->Compute(
      [&](Rank to, int count) { return exchange_.Begin(key.micro_batch, to, count); }));
  const MonotonicTime computed = clock_.Now();
  for (size_t a = 0; a < sources_.size(); ++a) {
    if (!sources_[a].awaited) continue;
    JANUS_RETURN_IF_ERROR(exchange_.Post(key, Rank{static_cast<int32_t>(a)}, all_here_));
  }
  // While attention goes on with the answer.
  if (options_.metrics != nullptr) {
    options_.metrics->aebs.Observe(Seconds(assigned - all_here_).count());
    options_.metrics->experts.Observe(Seconds(computed - assigned).count());
    options_.metrics->Of(mode_).send.Observe(Seconds(clock_.Now() - computed).count());
  }
  if (options_.routing != nullptr) options_.routing->Add(key, layers_->routed(), all_here_);
  rows_ += static_cast<uint64_t>(layers_->rows());
  ++rounds_;
  activated_ += static_cast<uint64_t>(layers_->activated());
  return OkStatus();
}

InstanceStatistics ExpertInstance::statistics() const {
  const MutexLock lock(mu_);
  return statistics_;
}

}  // namespace janus::dataplane
