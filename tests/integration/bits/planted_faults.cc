#include "tests/integration/bits/planted_faults.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "dataplane/attention/layers.h"
#include "kernels/backends.h"
#include "kernels/element.h"
#include "tests/support/passing_exchange.h"

namespace janus::dataplane {
namespace {

std::atomic<Fault> planted{Fault::kNone};

// Adds a row's contributions not in slot order but in the order of their addresses, that is, by
// sender and place in its message.
class ArrivalOrderExchange final : public PassingExchange {
 public:
  using PassingExchange::PassingExchange;

  std::span<const void* const> Contributions(int micro_batch) const override {
    const std::span<const void* const> slots = PassingExchange::Contributions(micro_batch);
    table_.assign(slots.begin(), slots.end());
    for (auto row = table_.begin(); row != table_.end(); row += kTopK) {
      std::sort(row, row + kTopK, std::less<>());
    }
    return table_;
  }
  // Only for members without a GPU.
  std::span<const uint8_t> OnDevice(int) const override { return {}; }

 private:
  static constexpr int kTopK = 3;  // in all of this suite

  mutable std::vector<const void*> table_;
};

}  // namespace

Planted::Planted(Fault fault) {
  planted = fault;
}
Planted::~Planted() {
  planted = Fault::kNone;
}

std::unique_ptr<AttentionExchange> WithPlantedFault(std::unique_ptr<AttentionExchange> exchange) {
  if (planted != Fault::kArrivalOrderSum) return exchange;
  return std::make_unique<ArrivalOrderExchange>(std::move(exchange));
}

#define JANUS_BEGIN "_ZN5janus9dataplane15AttentionLayers5BeginERKNS0_5BatchE"

Status RealBegin(AttentionLayers* layers, const Batch& batch) asm("__real_" JANUS_BEGIN);
Status WrappedBegin(AttentionLayers* layers, const Batch& batch) asm("__wrap_" JANUS_BEGIN);

// A position that is computed for the first time needs logits only if it is the last of its
// sequence.
Status WrappedBegin(AttentionLayers* layers, const Batch& batch) {
  if (planted != Fault::kPromptFormOnReplay) return RealBegin(layers, batch);
  Batch changed = batch;
  for (BatchRow& row : changed.rows) {
    if (!row.last) row.position_class = PositionClass::kPrompt;
  }
  return RealBegin(layers, changed);
}

}  // namespace janus::dataplane

namespace janus::kernels {
namespace {

using dataplane::Fault;
using dataplane::planted;

void LinearByRows(const LinearArgs& a) {
  const int64_t x_stride = a.x_stride != 0 ? a.x_stride : a.inputs;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : a.outputs;
  const int64_t parts = a.rows == 1 ? 1 : 2;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t n = 0; n < a.outputs; ++n) {
      float sum = 0.0f;
      for (int64_t part = 0; part < parts; ++part) {
        float partial = 0.0f;
        for (int64_t k = a.inputs * part / parts; k < a.inputs * (part + 1) / parts; ++k) {
          partial += ReadElement(a.x, a.x_dtype, t * x_stride + k) *
                     ReadElement(a.weight, a.weight_dtype, n * a.inputs + k);
        }
        sum += partial;
      }
      if (a.bias != nullptr) sum += ReadElement(a.bias, a.bias_dtype, n);
      float& y = a.y[t * y_stride + n];
      y = a.accumulate ? y + sum : sum;
    }
  }
}

// Attention in fp32 over pieces of the keys, merged in order. `border(row, j)` is the end of the
// piece that begins at key j.
template <class Border>
void AttendInPieces(const PagedAttentionArgs& a, Border border) {
  const int kv_heads = a.cache.kv_heads;
  const int head_dim = a.cache.head_dim;
  const DType type = a.cache.dtype;
  const int64_t page_bytes = a.cache.page_stride_bytes != 0 ? a.cache.page_stride_bytes
                                                            : KvPageBytes(type, kv_heads, head_dim);
  const int64_t row = int64_t{a.heads} * head_dim;
  const int64_t query_stride = a.query_stride != 0 ? a.query_stride : row;
  const int64_t y_stride = a.y_stride != 0 ? a.y_stride : row;
  for (int64_t t = 0; t < a.num_rows; ++t) {
    const KvRow& r = a.rows[t];
    const auto page_of = [&](int64_t j) {
      return static_cast<const unsigned char*>(a.cache.pages) +
             r.block_table[j / kPageTokens] * page_bytes;
    };
    const int64_t keys = int64_t{r.position} + 1;
    for (int h = 0; h < a.heads; ++h) {
      const float* q_d = a.queries + t * query_stride + int64_t{h} * head_dim;
      const int64_t g = h / (a.heads / kv_heads);
      float largest = -INFINITY;
      float total = 0.0f;
      std::vector<float> y_d(static_cast<size_t>(head_dim), 0.0f);
      for (int64_t begin = 0; begin < keys;) {
        const int64_t end = std::min(keys, border(r, begin));
        std::vector<float> scores;
        for (int64_t j = begin; j < end; ++j) {
          float dot = 0.0f;
          for (int d = 0; d < head_dim; ++d) {
            dot += q_d[d] * ReadElement(page_of(j), type,
                                        (g * head_dim + d) * kPageTokens + j % kPageTokens);
          }
          scores.push_back(dot * a.scale);
        }
        const float peak = std::max(largest, *std::max_element(scores.begin(), scores.end()));
        const float fade = std::exp(largest - peak);
        float part_total = 0.0f;
        std::vector<float> part_d(static_cast<size_t>(head_dim), 0.0f);
        for (int64_t j = begin; j < end; ++j) {
          const float p = std::exp(scores[static_cast<size_t>(j - begin)] - peak);
          part_total += p;
          for (int d = 0; d < head_dim; ++d) {
            part_d[static_cast<size_t>(d)] +=
                p * ReadElement(page_of(j), type,
                                ((kv_heads + g) * kPageTokens + j % kPageTokens) * head_dim + d);
          }
        }
        total = total * fade + part_total;
        for (size_t d = 0; d < y_d.size(); ++d) y_d[d] = y_d[d] * fade + part_d[d];
        largest = peak;
        begin = end;
      }
      for (int d = 0; d < head_dim; ++d) {
        WriteElement(a.y, a.y_dtype, t * y_stride + int64_t{h} * head_dim + d,
                     y_d[static_cast<size_t>(d)] / total);
      }
    }
  }
}

void AttentionSplitByBatch(const PagedAttentionArgs& a) {
  std::set<const int32_t*> sequences;
  for (int64_t t = 0; t < a.num_rows; ++t) sequences.insert(a.rows[t].block_table);
  const auto splits = static_cast<int64_t>(sequences.size());
  AttendInPieces(a, [&](const KvRow& r, int64_t begin) {
    return begin + (int64_t{r.position} + splits) / splits;
  });
}

void AttentionInChunkAlignedBlocks(const PagedAttentionArgs& a) {
  constexpr int64_t kBlock = 8;
  AttendInPieces(a, [&](const KvRow& r, int64_t begin) {
    int64_t chunk = r.position;  // where the sequence's rows in this call begin
    for (int64_t t = 0; t < a.num_rows; ++t) {
      if (a.rows[t].block_table == r.block_table) {
        chunk = std::min<int64_t>(chunk, a.rows[t].position);
      }
    }
    return begin < chunk ? std::min(chunk, begin + kBlock) : begin + kBlock;
  });
}

// Every second row of the call prefers the higher of two equal experts; their weights are equal.
void TiesByPlace(const GateTopKArgs& a) {
  for (int64_t t = 1; t < a.rows; t += 2) {
    const float* logits_e = a.logits + t * a.experts;
    uint16_t* ids_k = a.ids + t * a.top_k;
    for (int j = 0; j < a.top_k; ++j) {
      int best = -1;
      for (int e = 0; e < a.experts; ++e) {
        if (std::find(ids_k, ids_k + j, static_cast<uint16_t>(e)) != ids_k + j) continue;
        if (best < 0 || logits_e[e] >= logits_e[best]) best = e;
      }
      ids_k[j] = static_cast<uint16_t>(best);
    }
  }
}

std::atomic<int64_t> numbers_drawn{0};

}  // namespace

#define JANUS_LINEAR "_ZN5janus7kernels15LinearReferenceERKNS0_10LinearArgsE"
#define JANUS_ATTENTION "_ZN5janus7kernels23PagedAttentionReferenceERKNS0_18PagedAttentionArgsE"
#define JANUS_GATE "_ZN5janus7kernels17GateTopKReferenceERKNS0_12GateTopKArgsE"
#define JANUS_SAMPLE "_ZN5janus7kernels15SampleReferenceERKNS0_10SampleArgsE"

void RealLinear(const LinearArgs& args) asm("__real_" JANUS_LINEAR);
void WrappedLinear(const LinearArgs& args) asm("__wrap_" JANUS_LINEAR);
void RealAttention(const PagedAttentionArgs& args) asm("__real_" JANUS_ATTENTION);
void WrappedAttention(const PagedAttentionArgs& args) asm("__wrap_" JANUS_ATTENTION);
void RealGate(const GateTopKArgs& args) asm("__real_" JANUS_GATE);
void WrappedGate(const GateTopKArgs& args) asm("__wrap_" JANUS_GATE);
int64_t RealSample(const SampleArgs& args) asm("__real_" JANUS_SAMPLE);
int64_t WrappedSample(const SampleArgs& args) asm("__wrap_" JANUS_SAMPLE);

void WrappedLinear(const LinearArgs& args) {
  if (planted == Fault::kLoopByRows) {
    LinearByRows(args);
  } else {
    RealLinear(args);
  }
}

void WrappedAttention(const PagedAttentionArgs& args) {
  if (planted == Fault::kSplitsByBatch) {
    AttentionSplitByBatch(args);
  } else if (planted == Fault::kChunkAlignedBlocks) {
    AttentionInChunkAlignedBlocks(args);
  } else {
    RealAttention(args);
  }
}

void WrappedGate(const GateTopKArgs& args) {
  RealGate(args);
  if (planted == Fault::kTieByArrival) TiesByPlace(args);
}

int64_t WrappedSample(const SampleArgs& args) {
  if (planted != Fault::kSeedByStream) return RealSample(args);
  std::vector<SamplingParams> params(args.params, args.params + args.rows);
  for (SamplingParams& p : params) {
    p.seed = 1;
    p.position = numbers_drawn++;
  }
  SampleArgs changed = args;
  changed.params = params.data();
  return RealSample(changed);
}

}  // namespace janus::kernels
