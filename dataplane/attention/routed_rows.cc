#include "dataplane/attention/routed_rows.h"

#include <algorithm>
#include <string>

#include "dataplane/attention/micro_batch.h"

namespace janus::dataplane {

RoutedRows::RoutedRows(const ModelDescription& model)
    : layers_(static_cast<size_t>(model.layers)),
      top_k_(static_cast<size_t>(model.moe.top_k)),
      experts_(model.moe.experts) {
  for (int layer = 0; layer < model.layers; ++layer) {
    if (!model.IsDense(layer)) layer_of_.push_back(static_cast<size_t>(layer));
  }
}

bool RoutedRows::AreKnown(const ModelDescription& model) {
  return model.moe.experts <= ContributionRef::kMostExperts;
}

void RoutedRows::Begin(const Batch& batch, int micro_batches, int turn) {
  batch_rows_ = static_cast<int>(batch.rows.size());
  micro_batches_ = micro_batches;
  turn_ = turn;
  rows_.clear();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    if (row.sequence->RoutesAt(row.position)) rows_.push_back(static_cast<int>(i));
  }
  if (any()) ids_.assign(rows_.size() * layers_ * top_k_, kNoExpert);
}

Status RoutedRows::Take(const RoundKey& round, std::span<const uint16_t> experts) {
  const Part part = MicroBatch(batch_rows_, round.micro_batch, micro_batches_, turn_);
  const size_t layer = layer_of_[round.layer];
  const auto first = std::lower_bound(rows_.begin(), rows_.end(), part.first);
  for (auto row = first; row != rows_.end() && *row < part.first + part.rows; ++row) {
    const std::span<const uint16_t> from =
        experts.subspan(static_cast<size_t>(*row - part.first) * top_k_, top_k_);
    for (const uint16_t expert : from) {
      if (expert < experts_) continue;
      return Internal("a contribution names expert " + std::to_string(expert) + " of " +
                      std::to_string(experts_));
    }
    const auto at = static_cast<size_t>(row - rows_.begin()) * layers_ + layer;
    std::ranges::copy(from, ids_.begin() + static_cast<ptrdiff_t>(at * top_k_));
  }
  return OkStatus();
}

void RoutedRows::Finish(const Batch& batch, std::vector<TokenEvent>& events) const {
  const size_t width = layers_ * top_k_;
  const Sequence* last = nullptr;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const BatchRow& row = batch.rows[static_cast<size_t>(rows_[i])];
    if (row.sequence != last) {
      TokenEvent& event = events.emplace_back();
      event.key = row.sequence->request.key;
      event.routed_from = row.position;
    }
    last = row.sequence;
    const auto from = ids_.begin() + static_cast<ptrdiff_t>(i * width);
    std::vector<uint16_t>& to = events.back().routed;
    to.insert(to.end(), from, from + static_cast<ptrdiff_t>(width));
    row.sequence->routed = row.position + 1;
  }
}

}  // namespace janus::dataplane
