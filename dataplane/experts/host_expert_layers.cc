#include "dataplane/experts/host_expert_layers.h"

#include <algorithm>

#include "dataplane/comm/exchange/row_codec.h"
#include "dataplane/weights/gate.h"

namespace janus::dataplane {

HostExpertLayers::HostExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                                   const Topology& topology, Rank rank,
                                   const ExpertLayersOptions& options, const kernels::Place& place)
    : ExpertLayers(model, weights, topology, rank, options),
      stream_(place.stream),
      row_pointers_(max_rows_),
      gate_logits_(max_rows_ * static_cast<size_t>(model.moe.experts)),
      gate_ids_(pairs()),
      gate_weights_(pairs()),
      active_(slots_),
      contributions_(pairs()),
      ffn_workspace_(place.context->AllocateOrNote(
          static_cast<size_t>(kernels::GroupedExpertFfnWorkspace::For(static_cast<int64_t>(pairs()),
                                                                      model.moe.intermediate, wire_)
                                  .bytes))) {
  if (format_.is_packed()) {
    unpacked_ = place.context->AllocateOrNote(senders_.size() * max_rows_ * row_bytes_);
  }
  if (format_.is_packed() || sums_.on()) {
    replies_ = place.context->AllocateOrNote(pairs() * term_bytes_);
  }
}

const std::byte* HostExpertLayers::RowsOf(size_t sender) const {
  return format_.is_packed() ? unpacked_.data() + sender * max_rows_ * row_bytes_
                             : senders_[sender].rows;
}

size_t HostExpertLayers::PlaceOf(size_t sender, size_t row) const {
  if (!senders_[sender].choices) return row;
  // This instance computes only experts that it holds, and their rows came.
  const int32_t place = senders_[sender].choices->place_of[row];
  JANUS_CHECK(place >= 0, sender, row);
  return static_cast<size_t>(place);
}

std::byte* HostExpertLayers::RepliesTo(size_t sender) const {
  return format_.is_packed() || sums_.on() ? replies_.data() + sender * sender_stride_ * term_bytes_
                                           : senders_[sender].reply;
}

Status HostExpertLayers::GateRows(size_t sender) {
  const Sender& from = senders_[sender];
  JANUS_CHECK(!from.on_device && from.replies == nullptr, sender);
  if (format_.is_packed()) {
    JANUS_RETURN_IF_ERROR(UnpackRows(stream_, format_, from.rows, from.came,
                                     unpacked_.data() + sender * max_rows_ * row_bytes_));
  }
  uint16_t* const ids = gate_ids_.data() + sender * sender_stride_;
  float* const weights = gate_weights_.data() + sender * sender_stride_;
  if (from.choices) {
    std::ranges::copy(from.choices->ids, ids);
    std::ranges::copy(from.choices->weights, weights);
    return OkStatus();
  }
  for (size_t i = 0; i < static_cast<size_t>(from.count); ++i) {
    row_pointers_[i] = RowsOf(sender) + i * row_bytes_;
  }
  kernels::GateTopKArgs args = GateOf(model_, layer_weights().gate, layer_weights().gate_bias);
  args.x_rows = row_pointers_.data();
  args.logits = gate_logits_.data();
  args.ids = ids;
  args.weights = weights;
  args.rows = from.count;
  return kernels::GateTopK(stream_, args);
}

Status HostExpertLayers::Assign() {
  size_t total = 0;
  for (size_t a = 0; a < senders_.size(); ++a) {
    if (!senders_[a].gated) continue;
    const size_t count =
        static_cast<size_t>(senders_[a].count) * static_cast<size_t>(model_.moe.top_k);
    std::copy_n(gate_ids_.begin() + static_cast<ptrdiff_t>(a * sender_stride_), count,
                ids_.begin() + static_cast<ptrdiff_t>(total));
    total += count;
  }
  return Schedule().status();
}

Status HostExpertLayers::Compute(Begun begin) {
  const auto k = static_cast<size_t>(model_.moe.top_k);
  LayReplies(begin, [&](const Piece& piece) {
    kernels::Contribution& c = contributions_[ListedAt(piece)];
    c.x = RowsOf(piece.sender) + PlaceOf(piece.sender, piece.pair / k) * row_bytes_;
    c.y = RepliesTo(piece.sender) + piece.at * term_bytes_;
    c.weight = gate_weights_[piece.sender * sender_stride_ + piece.pair];
  });
  kernels::GroupedExpertFfnArgs args = FfnOf(layer_);
  args.num_experts = ListActive(active_.data());
  if (args.num_experts == 0) return OkStatus();
  const kernels::ActiveExpert& last = active_[static_cast<size_t>(args.num_experts) - 1];
  args.num_contributions = last.first + last.count;
  args.experts = active_.data();
  args.contributions = contributions_.data();
  args.workspace = ffn_workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(ffn_workspace_.size());
  JANUS_RETURN_IF_ERROR(kernels::GroupedExpertFfn(stream_, args));
  if (!format_.is_packed() && !sums_.on()) return OkStatus();
  for (size_t a = 0; a < senders_.size(); ++a) {
    const Sender& sender = senders_[a];
    if (sender.contributions == 0) continue;
    if (!sums_.on()) {
      JANUS_RETURN_IF_ERROR(
          PackRows(stream_, format_, RepliesTo(a), sender.contributions, sender.reply));
      continue;
    }
    kernels::AddTermsArgs terms = AddTermsOf(sender);
    terms.terms = reinterpret_cast<const float*>(RepliesTo(a));
    terms.ends = ends_.data() + a * max_rows_;
    terms.sums = sender.reply;
    terms.clamped = &clamped_;
    JANUS_RETURN_IF_ERROR(kernels::AddTerms(stream_, terms));
  }
  return OkStatus();
}

}  // namespace janus::dataplane
