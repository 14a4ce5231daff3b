#include "dataplane/experts/host_expert_layers.h"

#include <algorithm>

namespace janus::dataplane {

HostExpertLayers::HostExpertLayers(const ModelDescription& model, const ExpertWeights& weights,
                                   const Topology& topology, Rank rank,
                                   const ExpertLayersOptions& options, const kernels::Place& place)
    : ExpertLayers(model, weights, topology, rank, options.scheduling, options.crossover_rows),
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
                                  .bytes))) {}

Status HostExpertLayers::GateRows(size_t sender) {
  const Sender& from = senders_[sender];
  JANUS_CHECK(!from.on_device && from.replies == nullptr, sender);
  for (size_t i = 0; i < static_cast<size_t>(from.count); ++i) {
    row_pointers_[i] = from.rows + i * row_bytes_;
  }
  kernels::GateTopKArgs args = GateOf(layer_);
  args.x_rows = row_pointers_.data();
  args.logits = gate_logits_.data();
  args.ids = gate_ids_.data() + sender * sender_stride_;
  args.weights = gate_weights_.data() + sender * sender_stride_;
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
    const Sender& sender = senders_[piece.sender];
    kernels::Contribution& c = contributions_[ListedAt(piece)];
    c.x = sender.rows + piece.pair / k * row_bytes_;
    c.y = sender.reply + piece.at * row_bytes_;
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
  return kernels::GroupedExpertFfn(stream_, args);
}

}  // namespace janus::dataplane
