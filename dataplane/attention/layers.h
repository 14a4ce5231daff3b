#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/fixed_point.h"
#include "common/model/description.h"
#include "common/row_format.h"
#include "common/topology.h"
#include "dataplane/attention/self_attention.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/scheduler.h"
#include "dataplane/weights/attention_weights.h"
#include "kernels/device/context.h"
#include "kernels/device/row_graphs.h"
#include "kernels/device/staging.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// The attention side of the model over one batch: everything but the routed experts. The residual
// stream is fp32. Inputs of projections and rows for the experts have the wire type.
//
// An MoE layer is Attend, SharedExperts (while the rows are with the routed experts), TakeExperts
// and AddExperts. A dense layer is DenseLayer alone. Each call computes one part of the batch, a
// micro-batch (micro_batch.h). The parts of a layer may be computed in any order. A part has its
// own area in every buffer.
//
// On a GPU everything lies in its memory, including weights and cache. A step's row descriptions go
// up in one copy (Begin). Rows for the experts come down into the exchange's slot (Attend), and
// gathered contributions go up (TakeExperts); the host adds the sums of a row first. What the
// experts read or write in GPU memory stays there instead. If the exchange compresses, rows are
// packed on the way out and contributions unpacked on the way in, on the layers' device. Shared
// experts compute from the rows as they were. All of this is queued: a caller must wait for the
// context before it reads a result on the host. If the launches of a part were recorded (Record),
// one launch starts each piece of work. It computes as many rows as were recorded. Rows beyond the
// part's own write to the cache's spare page, and their results are not read.
//
// Confined to the step thread. Buffers are sized once; only the host's logits grow, to the most
// rows requested at once. If the context lacks memory, it reports that by TakeFailure.
class AttentionLayers {
 public:
  struct Room {
    int max_rows = 0;
    int micro_batches = 1;  // the parts of a batch
    // Only for a GPU: the most rows that logits are requested for at once, and whether the host
    // needs the logits.
    int most_logits = 0;
    bool logits_on_host = false;
    // Where each part's rows for the experts lie in GPU memory, [part's rows, H] of the wire type,
    // if the experts read them there. Empty: rows are copied to the host.
    std::vector<std::byte*> sent = {};
    // Of the rows for the experts and of their contributions, as the exchange has it
    // (Exchange::compression). Not with `sent`.
    Compression compression = Compression::kNone;
    // What comes back for the rows, as the exchange has it (Exchange::sums). Not with `sent`.
    FixedPointSums sums = {};
    // Whether Gate is called. Only for the host.
    GateSide gate = GateSide::kExperts;
    int turn = 0;  // which parts get rows that are left over (micro_batch.h)
  };
  AttentionLayers(const ModelDescription& model, const AttentionWeights& weights,
                  const KvPagePool& cache, const kernels::Place& place, const Room& room);

  // Only for a GPU, before the first batch: records the launches of parts of up to so many rows.
  // Models that compute prompts by other launches record only parts of generated rows. May run
  // while other epochs run steps. Takes device memory.
  Status Record(int most_rows);

  // Starts a batch of at most max_rows rows, which must stay valid. The first layer embeds its
  // tokens.
  Status Begin(const Batch& batch);
  // Whether prompt and generated positions are computed in two forms, whose bits differ.
  bool has_classes() const { return attention_->has_classes(); }
  // Rows of one part of the batch.
  int rows(int part) const { return parts_[static_cast<size_t>(part)].rows; }

  // Computes one layer of a part up to the FFN's input. That goes to `out` [rows] in the exchange's
  // format, in host memory, or where Room::sent says. Within a layer, rows of one sequence must be
  // attended in order of position.
  Status Attend(int layer, int part, std::byte* out);

  // Gate and top-k of the rows that Attend gave, exactly as the experts would compute them from
  // these rows. Writes [rows, K].
  Status Gate(int layer, int part, const std::byte* rows, std::span<uint16_t> ids,
              std::span<float> weights);

  // Computes the shared experts on what Attend gave; a no-op for models without.
  Status SharedExperts(int layer, int part, const std::byte* rows);

  // Takes the experts' contributions, pointers [rows, K] to rows in the exchange's format. If
  // on_device is not 0, the pointer is a GPU address, and the row is there for work queued from now
  // on. Otherwise the row must be there now. All rows must stay valid until AddExperts has
  // returned. Empty on_device: all rows are on the host. With sums, the pointers are those of
  // AttentionExchange::Contributions, all of them on the host.
  Status TakeExperts(int part, std::span<const void* const> contributions,
                     std::span<const uint8_t> on_device = {});
  // Adds them, then the output of SharedExperts, to the residual stream.
  Status AddExperts(int part);

  // Computes a whole layer without experts.
  Status DenseLayer(int layer, int part);

  // Logits of the given rows of the batch (indices ascending), [rows.size(), V], where sampling
  // reads them. Valid until the next call.
  Result<std::span<const float>> Logits(std::span<const int32_t> rows);
  // The same logits in host memory.
  Result<std::span<const float>> OnHost(std::span<const float> logits);

 private:
  // Offsets of a step's row descriptions. T is room_rows_, parts one after the other.
  struct StepLayout {
    size_t rows = 0;       // KvRow [T]
    size_t experts = 0;    // of a GPU: ActiveExpert [layers, b], the local FFN of each part
    size_t tokens = 0;     // int32 [T]
    size_t positions = 0;  // int32 [T]
    size_t tables = 0;     // of a GPU: int32 [pages], one sequence's after the other's
    size_t bytes = 0;
    static StepLayout For(const ModelDescription& model, const KvPagePool& cache, int parts,
                          int room_rows, bool is_host);
  };
  // A part of the batch.
  struct PartRows {
    int first = 0;  // of the batch
    int rows = 0;
    int recorded = 0;  // number of rows that its recorded launches compute; 0: not recorded
    int layer = 0;     // as passed to Attend
    std::span<const void* const> contributions;  // as passed to TakeExperts
  };
  // For a GPU: a part's contributions on their way up. Each part has its own staging. Otherwise the
  // host would wait for copies of another part, which may be queued behind the stream's waits for
  // peers.
  struct Taken {
    // [part_room_, K] in the exchange's format; with sums, one for each row.
    kernels::Staging rows;
    kernels::Staging pointers;  // [part_room_, K], into it, into unpacked_, or to what lies on a
                                // device; with sums [part_room_]
  };
  // Pieces of a layer's work for one part that a device starts by one launch.
  enum class Work : unsigned char {
    kLayer = 0,  // attention up to the rows for the experts, or all of a dense layer
    kLocal = 1,  // the shared experts
  };
  // Rows of a part that are computed together, starting at row `at` of the buffers.
  struct Rows {
    int part;
    int at;
    int count;
    const PositionClass* classes;
  };

  // Parts of a row's contributions that are added on the layers' device.
  int PartsOnDevice() const { return sums_.on() && !is_host_ ? 1 : model_.moe.top_k; }
  // For a GPU with sums: adds those of each row, and queues their copy to the device.
  Status TakeSums(int part, std::span<const void* const> sums);
  // residual += the sum of each row, then local_.
  Status CombineRowSums(const kernels::Stream& on, const Rows& rows, int layer);
  void PrepareDevice(int32_t spare_page);
  void PreparePacking();
  // Where a part's rows for the experts lie in device memory.
  std::byte* SentRows(int part) const;
  // Where a part's unpacked contributions begin.
  std::byte* UnpackedOf(int part) const;
  // The first row of a part in the buffers.
  int RowAt(int part) const { return part * part_room_; }
  Rows RowsOf(int part) const;
  // Where a row of the batch lies in the buffers.
  int PlaceOf(int batch_row) const;
  size_t PlaceRows(const Batch& batch);
  void PlaceUnused(int part);
  void PlaceLocalExperts();
  // Starts the work of a layer on rows in device memory, by one launch if it was recorded.
  Status Start(Work work, int layer, int part);
  Status StartOn(const kernels::Stream& on, Work work, int layer, const Rows& rows);
  size_t PieceOf(Work work, int layer, int part) const;
  // Attend into device memory. `out` may be host memory if the device is the host.
  Status AttendInto(const kernels::Stream& on, int layer, const Rows& rows, std::byte* out);
  Status EmbedRows(const kernels::Stream& on, const Rows& rows);
  // The layer's local FFN over rows [count, H] of the wire type, into local_. On a GPU the rows are
  // those in to_experts_. `gate` multiplies a row by the sigmoid of its projection; null: by 1.
  Status Ffn(const kernels::Stream& on, const FfnTensors& ffn, const Tensor& gate, int layer,
             int intermediate, const Rows& rows, const std::byte* x);
  // Writes the weights of the rows' contributions.
  Status WeighRows(const kernels::Stream& on, const Tensor& gate, const Rows& rows,
                   const std::byte* x, kernels::Contribution* contributions);
  Status Shared(const kernels::Stream& on, int layer, const Rows& rows, const std::byte* x);
  // DenseLayer on rows in device memory.
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
  const RowFormat format_;  // in the exchange
  const FixedPointSums sums_;
  const size_t row_bytes_;  // of the wire type
  const Room room_;
  const int part_room_;  // rows of a part, at most
  const int room_rows_;  // of all parts
  const StepLayout layout_;
  const std::unique_ptr<SelfAttention> attention_;

  std::vector<int> moe_layer_;  // by layer: its number among those with experts
  std::vector<PartRows> parts_;
  kernels::RowGraphs graphs_;           // by PieceOf
  std::vector<PositionClass> classes_;  // [T]
  kernels::Staging step_;               // StepLayout
  kernels::Buffer residual_;            // fp32 [T,H]
  kernels::Buffer normed_;              // [T,H] of the wire type
  kernels::Buffer attended_;            // [T, AttendedWidth] of the wire type
  kernels::Buffer picked_;              // fp32 [T,H]: the rows that need logits
  kernels::Buffer logits_;              // fp32; on the host it grows to the most rows asked for
  kernels::Buffer host_logits_;         // host copy of a GPU's logits
  // For a dense layer's FFN or the shared experts; empty for models with neither.
  kernels::Buffer local_;  // fp32 [T,H]
  kernels::Buffer ffn_workspace_;
  std::vector<kernels::Contribution> local_rows_;  // [T], of the host
  // If the exchange compresses. Contributions of a part begin at its first row's.
  size_t unpacked_of_row_ = 0;                  // K; with sums 1 if Gate is called, else 0
  kernels::Buffer unpacked_;                    // [T,unpacked_of_row_,H] of the wire type
  kernels::Buffer packed_;                      // of a GPU: rows [T] in the exchange's format
  std::vector<const void*> unpacked_pointers_;  // of the host: [T,K], into unpacked_
  // For a GPU, or if the exchange compresses: rows for the experts [T,H] of the wire type; empty if
  // Room::sent is used.
  kernels::Buffer to_experts_;
  // With the gate on attention, of one part:
  kernels::Buffer gate_logits_;          // fp32 [rows,E]
  std::vector<const void*> gated_rows_;  // [rows]
  // For a GPU: rows on their way to the experts and back.
  kernels::Buffer device_local_rows_;  // Contribution [T]: from there to local_
  kernels::Buffer device_gated_rows_;  // the same for shared experts with a gate, or empty
  std::vector<Taken> taken_;           // by part
  kernels::Buffer unused_table_;       // int32: the spare page, for as many positions as a part has
};

}  // namespace janus::dataplane
