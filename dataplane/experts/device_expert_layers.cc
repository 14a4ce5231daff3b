#include "dataplane/experts/device_expert_layers.h"

#include <algorithm>
#include <cstring>

#include "dataplane/comm/exchange/row_codec.h"
#include "dataplane/weights/gate.h"
#include "kernels/aebs_round.h"

namespace janus::dataplane {
namespace {

// The gate has workspace for so many rows at once; more rows take several launches.
constexpr int64_t kMostGateRows = 512;
// Rounds of up to so many rows are recorded. Beyond, launching takes less time than the work
// itself.
constexpr int kMostRecordedRows = 512;

// Writes the arrays of the placements one after the other, as the device reads them.
class TableWriter {
 public:
  template <class T>
  size_t Add(const std::vector<T>& values) {
    const size_t at =
        (bytes_.size() + alignof(uint64_t) - 1) / alignof(uint64_t) * alignof(uint64_t);
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

DeviceExpertLayers::DeviceExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                                       const Topology& topology, Rank rank,
                                       const ExpertLayersOptions& options,
                                       const kernels::Place& place)
    : ExpertLayers(model, weights, topology, rank, options),
      stream_(place.stream),
      context_(*place.context),
      device_replies_(options.device_replies),
      contributions_at_(slots_ * sizeof(kernels::ActiveExpert)) {
  const size_t rows = senders_.size() * max_rows_;
  const auto most_rows = static_cast<int64_t>(rows);
  const int experts = model.moe.experts;
  rows_in_ = context_.AllocateOrNote(rows * row_bytes_);
  round_ = kernels::Staging(context_, PointersAt() + rows * sizeof(void*));
  gate_logits_ = context_.AllocateOrNote(rows * static_cast<size_t>(experts) * sizeof(float));
  gate_workspace_ = context_.AllocateOrNote(static_cast<size_t>(
      kernels::GateTopKWorkspaceBytes(std::min(most_rows, kMostGateRows), model.hidden, experts)));
  gate_ids_ = kernels::Staging(context_, pairs() * sizeof(uint16_t));
  gate_weights_ = kernels::Staging(context_, pairs() * sizeof(float));
  PlaceTables();
  scratch_ = context_.AllocateOrNote(static_cast<size_t>(
      kernels::RouteRoundScratchBytes(most_rows, model.moe.top_k, experts, topology.n())));
  work_ = kernels::Staging(context_, contributions_at_ + pairs() * sizeof(kernels::Contribution));
  const auto ffn = kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(pairs()),
                                                           model.moe.intermediate, wire_);
  ffn_workspace_ = context_.AllocateOrNote(static_cast<size_t>(ffn.bytes));
  if (!device_replies_) replies_ = context_.AllocateOrNote(pairs() * term_bytes_);
  if (format_.is_packed()) {
    packed_in_ = context_.AllocateOrNote(rows * format_.bytes());
    if (!sums_.on()) packed_replies_ = context_.AllocateOrNote(pairs() * format_.bytes());
  }
  if (sums_.on()) {
    sums_out_ = context_.AllocateOrNote(rows * SumBytes(sums_.bits, model.hidden));
    staged_ends_ = kernels::Staging(context_, ends_.size() * sizeof(ends_[0]));
    clamped_word_ = kernels::Staging(context_, sizeof(uint32_t));
    if (clamped_word_.host() != nullptr) {
      *clamped_word_.host_at<uint32_t>(0) = 0;
      context_.NoteFailure(clamped_word_.Push(0, sizeof(uint32_t)));
    }
  }
  Result<std::unique_ptr<kernels::Event>> event = context_.MakeEvent();
  if (event.ok()) {
    ids_are_down_ = *std::move(event);
  } else {
    context_.NoteFailure(std::move(event).status());
  }
  // If an allocation failed, there is nothing to record.
  if (options.graphs && CanRoute() && !context_.has_noted_failure()) {
    context_.NoteFailure(RecordAll());
  }
}

void DeviceExpertLayers::PlaceTables() {
  TableWriter tables;
  struct Offsets {
    size_t first, replicas, hosts, by_replicas;
  };
  std::vector<Offsets> at;
  std::vector<kernels::ActiveExpert> tensors;
  for (size_t layer = 0; layer < placements_.size(); ++layer) {
    const LayerPlacement& placement = placements_[layer];
    at.push_back({tables.Add(placement.first), tables.Add(placement.replicas),
                  tables.Add(placement.hosts), tables.Add(placement.by_replicas)});
    for (const std::optional<FfnTensors>& slot : weights_.layers[layer].slots) {
      tensors.push_back(slot ? WeightsOf(*slot) : kernels::ActiveExpert{});
    }
  }
  tables_ = context_.AllocateCopyOrNote(tables.bytes().data(), tables.bytes().size());
  tensors_ = context_.AllocateCopyOrNote(tensors.data(), tensors.size() * sizeof(tensors[0]));
  for (size_t layer = 0; layer < placements_.size(); ++layer) {
    kernels::PlacementView view = kernels::PlacementView::Of(placements_[layer]);
    const auto table = [&]<class T>(size_t offset, const T*& to) {
      to = reinterpret_cast<const T*>(tables_.data() + offset);
    };
    table(at[layer].first, view.first);
    table(at[layer].replicas, view.replicas);
    table(at[layer].hosts, view.hosts);
    table(at[layer].by_replicas, view.by_replicas);
    views_.push_back(view);
  }
}

Status DeviceExpertLayers::RecordAll() {
  const auto layers = placements_.size();
  const auto room = static_cast<int>(senders_.size() * max_rows_);
  graphs_ = kernels::RowGraphs(2 * layers, std::min(room, kMostRecordedRows), room);
  for (const Work work : {Work::kRoute, Work::kExperts}) {
    for (size_t layer = 0; layer < layers; ++layer) {
      JANUS_RETURN_IF_ERROR(graphs_.Record(context_, static_cast<size_t>(work) * layers + layer,
                                           [&](const kernels::Stream& on, int rows) {
                                             return StartOn(on, work, static_cast<int>(layer),
                                                            rows);
                                           }));
    }
  }
  return OkStatus();
}

const std::byte* DeviceExpertLayers::DeviceRows(size_t sender) const {
  const Sender& from = senders_[sender];
  return from.on_device ? from.rows : rows_in_.data() + sender * max_rows_ * row_bytes_;
}

std::byte* DeviceExpertLayers::RepliesTo(size_t sender) const {
  return device_replies_ ? senders_[sender].replies
                         : replies_.data() + sender * sender_stride_ * term_bytes_;
}

Status DeviceExpertLayers::GateRows(size_t sender) {
  const Sender& from = senders_[sender];
  JANUS_CHECK((from.replies != nullptr) == device_replies_ && !from.choices, sender);
  if (from.on_device) return OkStatus();
  std::byte* const rows = rows_in_.data() + sender * max_rows_ * row_bytes_;
  const size_t bytes = static_cast<size_t>(from.count) * format_.bytes();
  if (!format_.is_packed()) return context_.CopyIn(rows, from.rows, bytes);
  std::byte* const packed = packed_in_.data() + sender * max_rows_ * format_.bytes();
  JANUS_RETURN_IF_ERROR(context_.CopyIn(packed, from.rows, bytes));
  return UnpackRows(stream_, format_, packed, from.count, rows);
}

// The device has both forms of AEBS. Of other policies the host schedules.
bool DeviceExpertLayers::CanRoute() const {
  const bool is_aebs =
      scheduling_ == SchedulingPolicy::kAebs || scheduling_ == SchedulingPolicy::kAebsGreedy;
  return is_aebs && slots_ >= 1 && slots_ <= kernels::kMostRoutedSlots;
}

// If splits are possible but unlikely, the device schedules, and the host checks afterwards.
bool DeviceExpertLayers::RoutesItself() const {
  const int64_t ids = int64_t{rows_} * model_.moe.top_k;
  if (ids > kernels::kMostRoutedIds || !CanRoute()) return false;
  return !MaySplitRows(scheduling_, crossover_rows_, rows_) ||
         4 * ids <= int64_t{crossover_rows_} * model_.moe.experts;
}

Status DeviceExpertLayers::PushRows(int computed) {
  JANUS_RETURN_IF_ERROR(round_.Reopen());
  *round_.host_at<int32_t>(0) = rows_;
  auto* const pointers = round_.host_at<const void*>(PointersAt());
  size_t at = 0;
  for (size_t a = 0; a < senders_.size(); ++a) {
    round_.host_at<std::byte*>(kRepliesAt)[a] = RepliesTo(a);
    round_.host_at<int32_t>(FirstRowsAt())[a] = static_cast<int32_t>(at);
    if (!senders_[a].gated) continue;
    for (size_t i = 0; i < static_cast<size_t>(senders_[a].count); ++i, ++at) {
      pointers[at] = DeviceRows(a) + i * row_bytes_;
    }
  }
  const auto all = static_cast<size_t>(computed);
  std::fill(pointers + at, pointers + all, pointers[0]);
  return round_.Push(0, PointersAt() + all * sizeof(pointers[0]));
}

kernels::GateTopKArgs DeviceExpertLayers::GateOf(int layer, int rows) const {
  const ExpertLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  kernels::GateTopKArgs args = dataplane::GateOf(model_, weights.gate, weights.gate_bias);
  args.x_rows = round_.device_at<const void* const>(PointersAt());
  args.logits = gate_logits_.as<float>();
  args.ids = gate_ids_.device_at<uint16_t>(0);
  args.weights = gate_weights_.device_at<float>(0);
  args.rows = rows;
  args.workspace = gate_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(gate_workspace_.size());
  return args;
}

kernels::GroupedExpertFfnArgs DeviceExpertLayers::FfnOverLists(int layer) const {
  kernels::GroupedExpertFfnArgs args = FfnOf(layer);
  args.experts = work_.device_at<kernels::ActiveExpert>(0);
  args.contributions = work_.device_at<kernels::Contribution>(contributions_at_);
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  return args;
}

Status DeviceExpertLayers::StartOn(const kernels::Stream& on, Work work, int layer, int rows) {
  const auto slots = static_cast<int>(slots_);
  if (work == Work::kRoute) {
    kernels::RouteRoundArgs args;
    args.gate = GateOf(layer, rows);
    args.live_rows = round_.device_at<int32_t>(0);
    args.policy = scheduling_;
    args.placement = views_[static_cast<size_t>(layer)];
    args.rank = rank_;
    args.slots = slots;
    args.tensors = tensors_.as<kernels::ActiveExpert>() + static_cast<size_t>(layer) * slots_;
    args.first_rows = round_.device_at<int32_t>(FirstRowsAt());
    args.senders = static_cast<int>(senders_.size());
    args.y = round_.device_at<std::byte* const>(kRepliesAt);
    args.y_row_bytes = static_cast<int64_t>(term_bytes_);
    args.active = work_.device_at<kernels::ActiveExpert>(0);
    args.contributions = work_.device_at<kernels::Contribution>(contributions_at_);
    args.scratch = scratch_.data();
    args.scratch_bytes = static_cast<int64_t>(scratch_.size());
    return kernels::RouteRound(on, args);
  }
  kernels::GroupedExpertFfnArgs args = FfnOverLists(layer);
  args.num_experts = kernels::RoutedExperts(rows, model_.moe.top_k, slots);
  args.num_contributions = int64_t{rows} * model_.moe.top_k;
  // AEBS spreads them over all instances.
  const int instances = placements_[static_cast<size_t>(layer)].instances;
  args.likely_contributions = (args.num_contributions + instances - 1) / instances;
  return kernels::GroupedExpertFfn(on, args);
}

Status DeviceExpertLayers::StartWork(Work work) {
  const int recorded = graphs_.RowsFor(rows_);
  if (recorded == 0) return StartOn(stream_, work, layer_, rows_);
  const size_t piece = static_cast<size_t>(work) * placements_.size() + static_cast<size_t>(layer_);
  return graphs_.Replay(context_, piece, recorded);
}

void DeviceExpertLayers::TakeIds() {
  std::copy_n(gate_ids_.host_at<uint16_t>(0), routed().size(), ids_.begin());
}

Status DeviceExpertLayers::Assign() {
  routes_ = rows_ > 0 && RoutesItself();
  if (rows_ == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(PushRows(routes_ ? std::max(rows_, graphs_.RowsFor(rows_)) : rows_));
  JANUS_RETURN_IF_ERROR(routes_ ? StartWork(Work::kRoute)
                                : kernels::GateTopK(stream_, GateOf(layer_, rows_)));
  JANUS_RETURN_IF_ERROR(gate_ids_.Pull(0, routed().size() * sizeof(uint16_t)));
  // Only the host's lists need the weights.
  if (!routes_) JANUS_RETURN_IF_ERROR(gate_weights_.Pull(0, routed().size() * sizeof(float)));
  return context_.Record(*ids_are_down_);
}

Status DeviceExpertLayers::Start() {
  return routes_ ? StartWork(Work::kExperts) : OkStatus();
}

Result<bool> DeviceExpertLayers::IsAssigned() {
  if (rows_ == 0) return true;
  return context_.Query(*ids_are_down_);
}

Status DeviceExpertLayers::Compute(Begun begin) {
  if (rows_ > 0) {
    JANUS_RETURN_IF_ERROR(context_.Await(*ids_are_down_));
    TakeIds();
  }
  JANUS_ASSIGN_OR_RETURN(const Regime regime, Schedule());
  if (routes_ && regime == Regime::kActivatedExperts) {
    LayReplies(begin, [](const Piece&) {});
  } else {
    if (routes_) {
      JANUS_RETURN_IF_ERROR(gate_weights_.Pull(0, routed().size() * sizeof(float)));
      JANUS_RETURN_IF_ERROR(context_.Wait());
    }
    JANUS_RETURN_IF_ERROR(ComputeLists(begin));
  }
  if (device_replies_ || rows_ == 0) return OkStatus();
  if (sums_.on()) return SendSums();
  for (size_t a = 0; a < senders_.size(); ++a) {
    const Sender& sender = senders_[a];
    if (!sender.gated) continue;
    const std::byte* ready = RepliesTo(a);
    if (format_.is_packed()) {
      std::byte* const packed = packed_replies_.data() + a * sender_stride_ * format_.bytes();
      JANUS_RETURN_IF_ERROR(PackRows(stream_, format_, ready, sender.contributions, packed));
      ready = packed;
    }
    JANUS_RETURN_IF_ERROR(context_.CopyOut(
        sender.reply, ready, static_cast<size_t>(sender.contributions) * format_.bytes()));
  }
  return OkStatus();
}

Status DeviceExpertLayers::SendSums() {
  JANUS_RETURN_IF_ERROR(staged_ends_.Reopen());
  std::copy(ends_.begin(), ends_.end(), staged_ends_.host_at<int32_t>(0));
  JANUS_RETURN_IF_ERROR(staged_ends_.Push(0, ends_.size() * sizeof(ends_[0])));
  const size_t sum_bytes = SumBytes(sums_.bits, model_.hidden);
  for (size_t a = 0; a < senders_.size(); ++a) {
    const Sender& sender = senders_[a];
    if (sender.contributions == 0) continue;
    kernels::AddTermsArgs terms = AddTermsOf(sender);
    terms.terms = reinterpret_cast<const float*>(RepliesTo(a));
    terms.ends = staged_ends_.device_at<int32_t>(0) + a * max_rows_;
    terms.sums = sums_out_.data() + a * max_rows_ * sum_bytes;
    terms.clamped = clamped_word_.device_at<uint32_t>(0);
    JANUS_RETURN_IF_ERROR(kernels::AddTerms(stream_, terms));
    JANUS_RETURN_IF_ERROR(
        context_.CopyOut(sender.reply, terms.sums, static_cast<size_t>(sender.sums) * sum_bytes));
  }
  return clamped_word_.Pull(0, sizeof(uint32_t));
}

uint32_t DeviceExpertLayers::clamped() const {
  return sums_.on() ? *clamped_word_.host_at<uint32_t>(0) : 0;
}

Status DeviceExpertLayers::ComputeLists(Begun begin) {
  JANUS_RETURN_IF_ERROR(work_.Reopen());
  const auto k = static_cast<size_t>(model_.moe.top_k);
  auto* const contributions = work_.host_at<kernels::Contribution>(contributions_at_);
  const auto* const weights = gate_weights_.host_at<float>(0);
  LayReplies(begin, [&](const Piece& piece) {
    kernels::Contribution& c = contributions[ListedAt(piece)];
    c.x = DeviceRows(piece.sender) + piece.pair / k * row_bytes_;
    c.y = RepliesTo(piece.sender) + piece.at * term_bytes_;
    c.weight = weights[piece.pair_of_round];
  });
  kernels::GroupedExpertFfnArgs args = FfnOverLists(layer_);
  auto* const active = work_.host_at<kernels::ActiveExpert>(0);
  args.num_experts = ListActive(active);
  if (args.num_experts == 0) return OkStatus();
  args.num_contributions = active[args.num_experts - 1].first + active[args.num_experts - 1].count;
  JANUS_RETURN_IF_ERROR(
      work_.Push(0, contributions_at_ + static_cast<size_t>(args.num_contributions) *
                                            sizeof(kernels::Contribution)));
  return kernels::GroupedExpertFfn(stream_, args);
}

}  // namespace janus::dataplane
