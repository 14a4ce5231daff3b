#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/model/description.h"
#include "dataplane/attention/self_attention.h"
#include "dataplane/engine/kv_cache.h"
#include "dataplane/engine/scheduler.h"
#include "dataplane/weights/attention_weights.h"
#include "kernels/device/context.h"
#include "kernels/device/row_graphs.h"
#include "kernels/device/staging.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The attention side of the model over one batch: everything but the routed experts. The residual
// stream is fp32; inputs of projections and rows for the experts are of the wire type.
//
// An MoE layer is Attend, SharedExperts (while the rows are with the routed ones), TakeExperts and
// AddExperts; a dense layer is DenseLayer alone. Each is of one part of the batch, a micro-batch of
// it (micro_batch.h), and parts of a layer come in any order. A part has a place of its own in
// every buffer, whatever the others hold.
//
// On a GPU everything lies in its memory, weights and cache included. What a step tells of its rows
// goes up in one copy (Begin), rows for the experts come down into the exchange's slot (Attend),
// contributions go up gathered (TakeExperts); but what the experts read, or have, in a GPU's memory
// stays where it is. All of it is queued: who reads a result on the host waits for the context
// first. Parts for which launches were
// recorded (Record) are computed by one launch each, for as many rows as those were recorded with:
// what is computed beyond the part's own goes to the cache's spare page and to nobody.
//
// Confined to the step thread. Buffers are sized once; on the host the logits grow, to the most
// rows that were asked for at once. What the place's context has not enough memory for it tells by
// TakeFailure.
class AttentionLayers {
 public:
  struct Room {
    int max_rows = 0;
    int micro_batches = 1;  // the parts of a batch
    // Of a GPU alone: the most rows that logits are asked for at once, and whether they are wanted
    // on the host.
    int most_logits = 0;
    bool logits_on_host = false;
    // Where each part's rows for the experts lie, [part's rows, H] of the wire type, where the
    // experts read them in the GPU's memory; empty: they come down.
    std::vector<std::byte*> sent = {};
  };
  AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                  const KvCache& cache, const kernels::Place& place, const Room& room);

  // Of a GPU, before the first batch: records what parts of up to so many rows start, of models
  // whose attention computes prompts by launches of their own of generated rows alone. Beside steps
  // of others; takes memory of the device.
  Status Record(int most_rows);

  // Takes up a batch (at most max_rows rows, which must stay valid), of which the first layer
  // embeds the tokens.
  Status Begin(const Batch& batch);
  // Rows of a part of it.
  int rows(int part) const { return parts_[static_cast<size_t>(part)].rows; }

  // A part through one layer's attention, up to the FFN's input, which goes to `out` [rows, H] of
  // the wire type, in the host's memory, or where Room::sent says. Rows of one sequence must be
  // attended in order of position within a layer.
  Status Attend(int layer, int part, std::byte* out);

  // Computes the shared experts on what Attend gave; a no-op for models without.
  Status SharedExperts(int layer, int part, const std::byte* rows);

  // Takes up the experts' contributions, pointers [rows, K] to rows [H] of the wire type. Those of
  // which on_device is not 0 are addresses of the GPU's operations; empty: none is. Of the others
  // the rows are there now, until AddExperts has returned; of those, for what is queued then.
  Status TakeExperts(int part, std::span<const void* const> contributions,
                     std::span<const uint8_t> on_device = {});
  // Adds them, then what SharedExperts computed, to the residual stream.
  Status AddExperts(int part);

  // A whole layer without experts.
  Status DenseLayer(int layer, int part);

  // Logits of the given rows of the batch (indices ascending), [rows.size(), V], where sampling
  // reads them; valid until the next call.
  Result<std::span<const float>> Logits(std::span<const int32_t> rows);
  // The same where the host reads them.
  Result<std::span<const float>> OnHost(std::span<const float> logits);

 private:
  // What a step tells of its rows, by offset. T is room_rows_, parts one after the other.
  struct StepLayout {
    size_t rows = 0;       // KvRow [T]
    size_t experts = 0;    // of a GPU: ActiveExpert [layers, b], the local FFN of each part
    size_t tokens = 0;     // int32 [T]
    size_t positions = 0;  // int32 [T]
    size_t tables = 0;     // of a GPU: int32 [pages], one sequence's after the other's
    size_t bytes = 0;
    static StepLayout For(const ModelDescription& model, const KvCache& cache, int parts,
                          int room_rows, bool is_host);
  };
  // A part of the batch.
  struct PartRows {
    int first = 0;  // of the batch
    int rows = 0;
    int recorded = 0;  // for how many rows what it starts was recorded; 0: it is started anew
    std::span<const void* const> contributions;  // that were taken up
  };
  // Of a GPU: a part's contributions, on their way to it. Of its own, since what another part took
  // up may lie behind what the stream waits for, which the host then would, too.
  struct Taken {
    kernels::Staging rows;      // [part_room_, K, H] of the wire type
    kernels::Staging pointers;  // [part_room_, K], into it or to what lies on a device
  };
  // What a device computes of one layer for one part.
  enum class Work : unsigned char {
    kLayer = 0,  // attention up to the rows for the experts, or all of a dense layer
    kLocal = 1,  // the shared experts
  };
  // What is computed at once: rows of a part, from row `at` of the buffers on.
  struct Rows {
    int part;
    int at;
    int count;
    const PositionClass* classes;
  };

  void PrepareDevice(int32_t spare_page);
  // Where a part's rows for the experts lie in the device's memory.
  std::byte* SentRows(int part) const;
  // The first row of a part in the buffers.
  int RowAt(int part) const { return part * part_room_; }
  Rows RowsOf(int part) const;
  // Where a row of the batch lies in the buffers.
  int PlaceOf(int batch_row) const;
  size_t PlaceRows(const Batch& batch);
  void PlaceUnused(int part);
  void PlaceLocalExperts();
  // The work of a layer on rows in the device's memory, as one launch where it was recorded.
  Status Start(Work work, int layer, int part);
  Status StartOn(const kernels::Stream& on, Work work, int layer, const Rows& rows);
  size_t PieceOf(Work work, int layer, int part) const;
  // Attend into the device's memory, where `out` may be the host's if that is the same.
  Status AttendInto(const kernels::Stream& on, int layer, const Rows& rows, std::byte* out);
  Status EmbedRows(const kernels::Stream& on, const Rows& rows);
  // The layer's local FFN over rows [count, H] of the wire type, into local_. On a GPU they are
  // those of to_experts_.
  Status Ffn(const kernels::Stream& on, int layer, int intermediate, const Rows& rows,
             const std::byte* x);
  // DenseLayer, with rows for the FFN in the device's memory.
  Status Dense(const kernels::Stream& on, int layer, const Rows& rows, std::byte* x);
  // residual += contributions in slot order, then (if `local`) local_.
  Status Combine(const kernels::Stream& on, const Rows& rows,
                 std::span<const void* const> contributions, int top_k, bool local);
  Status NormRows(const kernels::Stream& on, const float* x, const Tensor& weight, void* y,
                  int count) const;

  const ModelDescription model_;
  const AttentionWeights& weights_;
  const kernels::Stream stream_;
  kernels::Context& context_;
  const bool is_host_;  // whether the device's memory is the host's
  const DType wire_;
  const size_t row_bytes_;  // of the wire type
  const Room room_;
  const int part_room_;  // rows of a part, at most
  const int room_rows_;  // of all parts
  const StepLayout layout_;
  const std::unique_ptr<SelfAttention> attention_;

  std::vector<PartRows> parts_;
  kernels::RowGraphs graphs_;           // by PieceOf
  std::vector<PositionClass> classes_;  // [T]
  kernels::Staging step_;               // StepLayout
  kernels::Buffer residual_;            // fp32 [T,H]
  kernels::Buffer normed_;              // [T,H] of the wire type
  kernels::Buffer attended_;            // [T, AttendedWidth] of the wire type
  kernels::Buffer picked_;              // fp32 [T,H]: rows whose logits are asked for
  kernels::Buffer logits_;              // fp32; on the host it grows to the most rows asked for
  kernels::Buffer host_logits_;         // of a GPU
  // Of a dense layer's FFN or the shared experts; empty for models with neither.
  kernels::Buffer local_;  // fp32 [T,H]
  kernels::Buffer ffn_workspace_;
  std::vector<kernels::Contribution> local_rows_;  // [T], of the host
  // Of a GPU: rows on their way to the experts and back.
  kernels::Buffer to_experts_;         // [T,H] of the wire type; none where Room::sent says
  kernels::Buffer device_local_rows_;  // Contribution [T]: from there to local_
  std::vector<Taken> taken_;           // by part
  kernels::Buffer unused_table_;       // int32: the spare page, for as many positions as a part has
};

}  // namespace janus::dataplane
