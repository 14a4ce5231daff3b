#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/description.h"
#include "common/status.h"
#include "dataplane/comm/wire/wire.h"
#include "dataplane/engine/scheduler.h"

namespace janus::dataplane {

// Collects the experts of a step's rows for the sequences that report them. They come with the
// contributions of each round. A step without such rows collects nothing and allocates nothing.
//
// Confined to the step thread.
class RoutedRows {
 public:
  explicit RoutedRows(const ModelDescription& model);

  // Whether contributions name every expert of the model.
  static bool AreKnown(const ModelDescription& model);

  // A step begins, with its batch cut into `micro_batches` parts (micro_batch.h). What an earlier
  // one has collected is dropped.
  void Begin(const Batch& batch, int micro_batches, int turn);
  bool any() const { return !rows_.empty(); }
  // The experts of a round of the step, [rows of its part, K]: outside data. Internal: one does not
  // exist.
  Status Take(const RoundKey& round, std::span<const uint16_t> experts);
  // The step has ended: adds one event for each of the sequences, and marks what it reports.
  void Finish(const Batch& batch, std::vector<TokenEvent>& events) const;

 private:
  const size_t layers_;
  const size_t top_k_;
  const int experts_;
  std::vector<size_t> layer_of_;  // by MoE layer: the model's layer
  int batch_rows_ = 0;
  int micro_batches_ = 1;
  int turn_ = 0;
  std::vector<int> rows_;      // of the batch, ascending
  std::vector<uint16_t> ids_;  // [rows_, layers, K]
};

}  // namespace janus::dataplane
