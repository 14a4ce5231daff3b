// Attention over expanded keys and values: its two forms, and which of them runs.

#include "kernels/cuda/expanded_attention.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/expanded_deal.h"
#include "kernels/cuda/start.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "ExpandedAttention";

template <int kTileRows>
Status AttendTo(const Stream& stream, const ExpandedAttentionArgs& part, const ExpandedDeal& deal,
                const ExpandedChunk& chunk) {
  JANUS_RETURN_IF_ERROR(Start(kName, stream, ExpandKeysKernel{part, chunk}, PlanExpandKeys(chunk)));
  return Start(kName, stream, FastExpandedKernel<kTileRows>{part, chunk},
               PlanFastExpanded<kTileRows>(deal));
}

// The rows of `part`, head after head and chunk after chunk.
Status RunPart(const Stream& stream, const ExpandedAttentionArgs& part, const ExpandedDeal& deal) {
  auto* const space = static_cast<unsigned char*>(part.workspace);
  auto* const runs = reinterpret_cast<ExpandedRuns*>(space);
  const ExpandedSpace at(deal);
  JANUS_RETURN_IF_ERROR(Start(kName, stream,
                              FindExpandedRunsKernel{part.rows, part.num_rows, deal.tile, runs},
                              PlanFindExpandedRuns()));
  ExpandedChunk chunk{.runs = runs,
                      .halves = reinterpret_cast<uint16_t*>(space + at.halves),
                      .rope = reinterpret_cast<uint16_t*>(space + at.rope),
                      .states = reinterpret_cast<float*>(space + at.states)};
  for (int64_t head = 0; head < part.heads; head += deal.heads) {
    chunk.head = static_cast<int>(head);
    chunk.heads = static_cast<int>(std::min(deal.heads, part.heads - head));
    for (int64_t first = 0; first < deal.all_blocks; first += deal.blocks) {
      chunk.first_block = static_cast<int32_t>(first);
      chunk.blocks = static_cast<int32_t>(std::min(deal.blocks, deal.all_blocks - first));
      chunk.is_last = first + deal.blocks >= deal.all_blocks;
      JANUS_RETURN_IF_ERROR(deal.tile == 128 ? AttendTo<128>(stream, part, deal, chunk)
                                             : AttendTo<64>(stream, part, deal, chunk));
    }
  }
  return OkStatus();
}

}  // namespace

Status RunFastExpanded(const Stream& stream, const ExpandedAttentionArgs& args,
                       const ExpandedDeal& deal) {
  const int64_t query = int64_t{args.heads} * (args.nope_dim + args.cache.rope);
  const int64_t y = int64_t{args.heads} * args.value_dim * SizeOf(args.y_dtype);
  ExpandedAttentionArgs part = args;
  for (int64_t first = 0; first < args.num_rows; first += deal.rows) {
    part.num_rows = std::min(args.num_rows - first, deal.rows);
    part.rows = args.rows + first;
    part.queries = args.queries + first * (args.query_stride != 0 ? args.query_stride : query);
    part.y = static_cast<char*>(args.y) + first * y;
    JANUS_RETURN_IF_ERROR(RunPart(stream, part, deal));
  }
  return OkStatus();
}

Status RunExpandedAttention(const Stream& stream, const ExpandedAttentionArgs& args,
                            AttentionForm form) {
  if (form == AttentionForm::kFast) return RunFastExpanded(stream, args, DealExpanded(args));
  return Start(kName, stream, ExpandedAttentionKernel{args, ExpandedAreaFloats(args)},
               PlanExpandedAttention(args));
}

}  // namespace cuda

Status ExpandedAttentionCuda(const Stream& stream, const ExpandedAttentionArgs& args) {
  const bool fits = cuda::DeviceHasSharedBytes(cuda::ExpandKeysKernel::kAskedSharedBytes);
  return cuda::RunExpandedAttention(
      stream, args, fits ? cuda::ExpandedFormFor(args) : cuda::AttentionForm::kPlain);
}

}  // namespace janus::kernels
