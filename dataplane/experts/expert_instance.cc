#include "dataplane/experts/expert_instance.h"

#include <algorithm>
#include <cstring>

#include "dataplane/comm/wire.h"

namespace janus::dataplane {

ExpertInstance::ExpertInstance(const ExpertOptions& options, const ModelDescription& model,
                               const ExpertWeights& weights, const Topology& topology, Rank rank,
                               Transport& transport, ExpertExchange& exchange, const Clock& clock,
                               const kernels::Stream& stream)
    : options_(options),
      model_(model),
      weights_(weights),
      topology_(topology),
      rank_(rank),
      transport_(transport),
      exchange_(exchange),
      clock_(clock),
      stream_(stream),
      wire_(WireType(model)),
      aebs_(model.moe.experts, topology.n()) {
  for (int layer = 0; layer < model.layers; ++layer) {
    placements_.push_back(LayerPlacement::Of(topology.placement, layer, model.moe.experts));
  }
  const auto m = static_cast<size_t>(topology.m());
  const auto rows = static_cast<size_t>(topology.max_rows_per_round);
  const auto k = static_cast<size_t>(model.moe.top_k);
  const auto slots = static_cast<size_t>(topology.experts[static_cast<size_t>(rank.value)].slots);
  sources_.resize(m);
  row_pointers_.resize(rows);
  router_logits_.resize(rows * static_cast<size_t>(model.moe.experts));
  gate_ids_.resize(m * rows * k);
  gate_weights_.resize(m * rows * k);
  ids_.resize(m * rows * k);
  replicas_.resize(m * rows * k);
  slot_count_.resize(slots);
  slot_first_.resize(slots);
  contributions_.resize(m * rows * k);
  active_.resize(slots);
  const auto ffn = kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(m * rows * k),
                                                           model.moe.intermediate, wire_);
  ffn_workspace_ = AlignedBuffer(static_cast<size_t>(ffn.bytes));
  statistics_.role = Role::kExperts;
  statistics_.rank = rank;
}

bool ExpertInstance::NextTicket(RoundKey& key, std::vector<bool>& participants) {
  while (transport_.Receive({Role::kAttention, Rank{0}}, control_header_, control_payload_)) {
    if (control_header_.kind != MessageKind::kTicket) continue;
    if (control_payload_.size() != sources_.size() * sizeof(TicketShare)) continue;
    key = control_header_.key();
    participants.resize(sources_.size());
    for (size_t a = 0; a < sources_.size(); ++a) {
      TicketShare share;
      std::memcpy(&share, control_payload_.data() + a * sizeof(TicketShare), sizeof share);
      participants[a] = share.row_limit > 0;
    }
    return true;
  }
  return false;
}

Status ExpertInstance::Run(std::stop_token stop) {
  stop_ = stop;
  const std::stop_callback wake(stop, [this] { transport_.Wake(); });
  RoundKey key;
  std::vector<bool> participants;
  while (!stop.stop_requested()) {
    bool have_ticket = false;
    const Status waited = transport_.Wait(MonotonicClock::now() + std::chrono::seconds(3600), [&] {
      have_ticket = have_ticket || NextTicket(key, participants);
      return have_ticket || stop.stop_requested();
    });
    if (!waited.ok() && waited.code() != StatusCode::kDeadlineExceeded) return waited;
    if (!have_ticket) continue;
    const Status executed = ExecuteStep(key, participants);
    if (executed.code() == StatusCode::kCancelled) return OkStatus();
    if (!executed.ok()) return executed.Annotate("step " + std::to_string(key.step));
  }
  return OkStatus();
}

Status ExpertInstance::ExecuteStep(RoundKey key, const std::vector<bool>& participants) {
  const MonotonicTime start = clock_.Now();
  wait_ = Seconds(0);
  rows_ = rounds_ = activated_ = 0;
  const int b = topology_.micro_batches;
  // Who still has rows, per micro-batch: told by the headers of the first layer.
  std::vector<std::vector<bool>> active(static_cast<size_t>(b), participants);
  for (int layer = 0; layer < model_.layers; ++layer) {
    for (int i = 0; i < b; ++i) {
      std::vector<bool>& who = active[static_cast<size_t>(i)];
      if (std::none_of(who.begin(), who.end(), [](bool in) { return in; })) continue;
      key.layer = static_cast<uint16_t>(layer);
      key.micro_batch = static_cast<uint8_t>(i);
      for (size_t a = 0; a < sources_.size(); ++a) {
        sources_[a] = Source();
        sources_[a].awaited = who[a];
      }
      const Status done = [&] {
        JANUS_RETURN_IF_ERROR(AwaitRows(key));
        return Compute(key);
      }();
      if (done.code() == StatusCode::kCancelled) return done;
      if (!done.ok()) return done.Annotate("layer " + std::to_string(layer));
      for (size_t a = 0; a < sources_.size(); ++a) who[a] = who[a] && sources_[a].rows.count > 0;
    }
  }
  const Seconds took = clock_.Now() - start;
  const MutexLock lock(mu_);
  statistics_.steps += 1;
  statistics_.rows += rows_;
  statistics_.rounds += rounds_;
  statistics_.activated_experts += activated_;
  statistics_.compute_seconds += (took - wait_).count();
  statistics_.wait_seconds += wait_.count();
  return OkStatus();
}

// Gates the rows of whoever is here while the others are awaited.
Status ExpertInstance::AwaitRows(const RoundKey& key) {
  const MonotonicTime start = clock_.Now();
  const MonotonicTime deadline =
      start + std::chrono::duration_cast<MonotonicClock::duration>(options_.detection_deadline);
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
      return !missing || stop_.stop_requested();
    };
    const Status waited = transport_.Wait(deadline, any_new);
    if (!failed.ok()) return failed;
    if (!waited.ok()) {
      std::string who;
      for (size_t a = 0; a < sources_.size(); ++a) {
        if (sources_[a].awaited && !sources_[a].here) who += " " + std::to_string(a);
      }
      return waited.Annotate("waiting for the rows of attention" + who);
    }
    if (stop_.stop_requested()) return Cancelled("stopped");
    if (came == sources_.size()) break;
    sources_[came].here = true;
    const MonotonicTime gate_start = clock_.Now();
    JANUS_RETURN_IF_ERROR(Gate(key, Rank{static_cast<int32_t>(came)}));
    gating += clock_.Now() - gate_start;
  }
  all_here_ = clock_.Now();
  wait_ += all_here_ - start - gating;
  return OkStatus();
}

Status ExpertInstance::Gate(const RoundKey& key, Rank from) {
  const ArrivedRows& rows = sources_[static_cast<size_t>(from.value)].rows;
  const size_t row_bytes = static_cast<size_t>(model_.hidden) * static_cast<size_t>(SizeOf(wire_));
  for (int i = 0; i < rows.count; ++i) {
    row_pointers_[static_cast<size_t>(i)] = rows.rows + static_cast<size_t>(i) * row_bytes;
  }
  const size_t offset = static_cast<size_t>(from.value) *
                        static_cast<size_t>(topology_.max_rows_per_round) *
                        static_cast<size_t>(model_.moe.top_k);
  const Tensor& router = weights_.layers[key.layer].router;
  kernels::GateTopKArgs args;
  args.x_rows = row_pointers_.data();
  args.x_dtype = wire_;
  args.weight = router.data;
  args.weight_dtype = router.dtype;
  args.logits = router_logits_.data();
  args.ids = gate_ids_.data() + offset;
  args.weights = gate_weights_.data() + offset;
  args.rows = rows.count;
  args.hidden = model_.hidden;
  args.experts = model_.moe.experts;
  args.top_k = model_.moe.top_k;
  args.score = model_.moe.score;
  args.renormalize = model_.moe.renormalize;
  return kernels::GateTopK(stream_, args);
}

void ExpertInstance::GatherWork(const RoundKey& key) {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  const size_t stride = static_cast<size_t>(topology_.max_rows_per_round) * k;
  const size_t row_bytes = static_cast<size_t>(model_.hidden) * static_cast<size_t>(SizeOf(wire_));
  std::fill(slot_count_.begin(), slot_count_.end(), 0);
  size_t at = 0;
  for (Source& source : sources_) {
    if (!source.awaited) continue;
    for (size_t i = 0; i < static_cast<size_t>(source.rows.count) * k; ++i, ++at) {
      if (replicas_[at].instance != rank_.value) continue;
      ++slot_count_[replicas_[at].slot];
      ++source.contributions;
    }
  }
  int first = 0;
  for (size_t slot = 0; slot < slot_count_.size(); ++slot) {
    slot_first_[slot] = first;
    first += slot_count_[slot];
  }
  at = 0;
  std::vector<int>& next = slot_count_;  // counts again while the lists are filled
  std::fill(next.begin(), next.end(), 0);
  for (size_t a = 0; a < sources_.size(); ++a) {
    Source& source = sources_[a];
    if (!source.awaited) continue;
    source.out =
        exchange_.Begin(key.micro_batch, Rank{static_cast<int32_t>(a)}, source.contributions);
    for (size_t i = 0; i < static_cast<size_t>(source.rows.count) * k; ++i, ++at) {
      const Replica replica = replicas_[at];
      if (replica.instance != rank_.value) continue;
      const auto written = static_cast<size_t>(source.written++);
      source.out.refs[written] = {static_cast<uint16_t>(i / k), static_cast<uint8_t>(i % k), 0};
      kernels::Contribution& c =
          contributions_[static_cast<size_t>(slot_first_[replica.slot] + next[replica.slot]++)];
      c.x = source.rows.rows + i / k * row_bytes;
      c.y = source.out.rows + written * row_bytes;
      c.weight = gate_weights_[a * stride + i];
    }
  }
}

Status ExpertInstance::Compute(const RoundKey& key) {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  const size_t stride = static_cast<size_t>(topology_.max_rows_per_round) * k;
  size_t total = 0;
  for (size_t a = 0; a < sources_.size(); ++a) {
    if (!sources_[a].awaited) continue;
    const size_t count = static_cast<size_t>(sources_[a].rows.count) * k;
    std::copy_n(gate_ids_.begin() + static_cast<ptrdiff_t>(a * stride), count,
                ids_.begin() + static_cast<ptrdiff_t>(total));
    total += count;
  }
  ScheduleActivatedExperts(options_.scheduling, placements_[key.layer],
                           std::span(ids_).first(total), aebs_, std::span(replicas_).first(total));
  GatherWork(key);

  const ExpertLayerWeights& layer = weights_.layers[key.layer];
  kernels::GroupedExpertFfnArgs args;
  for (size_t slot = 0; slot < slot_count_.size(); ++slot) {
    if (slot_count_[slot] == 0) continue;
    const std::optional<ExpertTensors>& tensors = layer.slots[slot];
    if (!tensors)
      return Internal("slot " + std::to_string(slot) + " was assigned work and holds no expert");
    kernels::ActiveExpert& expert = active_[static_cast<size_t>(args.num_experts++)];
    expert.gate = tensors->gate.data;
    expert.up = tensors->up.data;
    expert.down = tensors->down.data;
    expert.first = slot_first_[slot];
    expert.count = slot_count_[slot];
    args.num_contributions += expert.count;
    args.weight_dtype = tensors->gate.dtype;
  }
  args.experts = active_.data();
  args.contributions = contributions_.data();
  args.hidden = model_.hidden;
  args.intermediate = model_.moe.intermediate;
  args.row_dtype = wire_;
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::GroupedExpertFfn(stream_, args));

  for (size_t a = 0; a < sources_.size(); ++a) {
    if (!sources_[a].awaited) continue;
    JANUS_RETURN_IF_ERROR(exchange_.Post(key, Rank{static_cast<int32_t>(a)}, all_here_));
  }
  rows_ += total / k;
  ++rounds_;
  activated_ += static_cast<uint64_t>(args.num_experts);
  return OkStatus();
}

InstanceStatistics ExpertInstance::statistics() const {
  const MutexLock lock(mu_);
  return statistics_;
}

}  // namespace janus::dataplane
