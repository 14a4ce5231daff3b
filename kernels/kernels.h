#pragma once

// The operations of the data plane, one argument struct and one function each.
//
// Axes: T rows (tokens), H hidden, N outputs and K inputs of a projection, V vocabulary, E experts,
// k top-k, I intermediate, D head dimension. Row-major, last axis contiguous, unless said
// otherwise.
//
// Every function: InvalidArgument for a null pointer, an impossible shape or a number format that
// the operation does not take, always before anything is written; Unimplemented for a device that
// is not built in. Zero rows are a no-op. Nothing is allocated. Buffers must live until the stream
// has run the operation, and inputs may not overlap outputs except where said. Thread-safe for
// streams with different teams.
//
// Batch invariance: the bits of a row depend on that row's own inputs (for attention: on its
// position and the keys up to it) and on the shape's constants, never on T, on the other rows, on
// the order of the rows, on the number of threads or on what else the call holds.
//
// Accumulation is fp32 (double on the reference device) in a fixed order. Weights are read where
// they lie: any address that is a multiple of the element size, no packing.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/dtype.h"
#include "common/model/description.h"
#include "common/model/limits.h"
#include "common/page_tokens.h"
#include "common/status.h"
#include "kernels/stream.h"

namespace janus::kernels {

// ------------------------------------------------------------------------------------------------
// Embedding.

struct EmbedArgs {
  const int32_t* tokens = nullptr;  // [T], each in 0..V-1
  const void* table = nullptr;      // [V,H]
  DType table_dtype = DType::kFloat32;
  float* y = nullptr;  // [T,H]
  int64_t rows = 0;    // T
  int64_t vocab = 0;   // V
  int64_t hidden = 0;  // H
};
// y[t] = table[tokens[t]]. InvalidArgument names the first token outside the vocabulary.
Status Embed(const Stream& stream, const EmbedArgs& args);

// ------------------------------------------------------------------------------------------------
// RMSNorm.

struct RmsNormArgs {
  const float* x = nullptr;      // [T,groups,H]
  const void* weight = nullptr;  // [H], the same for all pieces
  DType weight_dtype = DType::kFloat32;
  void* y = nullptr;                // [T,groups,H]; may be x when y_dtype is Float32
  DType y_dtype = DType::kFloat32;  // Float32 or BFloat16 (rounded once)
  int64_t rows = 0;                 // T
  int64_t groups = 1;               // pieces of a row that are normed each by itself, as heads are
  int64_t hidden = 0;               // H, of one piece
  int64_t x_stride = 0;             // elements from row to row; 0: groups*H
  int64_t y_stride = 0;
  float epsilon = 1e-6f;
};
// For every piece of every row:
// y[h] = x[h] / sqrt(mean_h(x[h]^2) + epsilon) * weight[h]     (Zhang & Sennrich 2019)
Status RmsNorm(const Stream& stream, const RmsNormArgs& args);

// ------------------------------------------------------------------------------------------------
// Projections.

struct LinearArgs {
  const void* x = nullptr;          // [T,K]
  DType x_dtype = DType::kFloat32;  // Float32 or BFloat16
  const void* weight = nullptr;     // [N,K]: as checkpoints store it
  DType weight_dtype = DType::kFloat32;
  const void* bias = nullptr;  // [N] or null
  DType bias_dtype = DType::kFloat32;
  float* y = nullptr;       // [T,N]
  bool accumulate = false;  // add to y (a residual) instead of replacing it
  int64_t rows = 0;         // T
  int64_t outputs = 0;      // N
  int64_t inputs = 0;       // K
  int64_t x_stride = 0;     // elements from row to row of x; 0: K
  int64_t y_stride = 0;     // elements from row to row of y; 0: N
};
// y[t,n] = (accumulate ? y[t,n] : 0) + (sum_k x[t,k] * weight[n,k] + bias[n])
// Also the language-model head.
Status Linear(const Stream& stream, const LinearArgs& args);

// ------------------------------------------------------------------------------------------------
// Functions of single elements.

enum class PointFunction : uint8_t {
  kSigmoid,  // 1 / (1 + e^-x)
  kClip,     // x, or the nearer of -limit and limit beyond them
};

struct PointwiseArgs {
  float* x = nullptr;  // [T,N], changed in place
  PointFunction function = PointFunction::kSigmoid;
  float limit = 0.0f;      // of kClip; above 0
  int64_t rows = 0;        // T
  int64_t columns = 0;     // N
  int64_t row_stride = 0;  // elements from row to row; 0: N
};
// x[t,n] = function(x[t,n]). A NaN stays NaN.
Status Pointwise(const Stream& stream, const PointwiseArgs& args);

// ------------------------------------------------------------------------------------------------
// Rotary position embedding.

struct RopeArgs {
  float* x = nullptr;                  // [T,heads,D], changed in place
  const int32_t* positions = nullptr;  // [T], >= 0
  const float* inv_freq = nullptr;     // [rotary_dim/2]
  float attention_factor = 1.0f;       // multiplies cos and sin
  int64_t rows = 0;                    // T
  int heads = 0;
  int head_dim = 0;    // D, from head to head
  int rotary_dim = 0;  // even, <= D; what lies beyond it is left as it is
  RopePairing pairing = RopePairing::kHalves;
  int64_t row_stride = 0;  // elements from row to row; 0: heads*D. Query and key heads that lie one
                           // after the other in a row take one call.
};
// With a = fp32(position * inv_freq[i]), c = cos(a) * factor, s = sin(a) * factor, for the pair
// (u, v) = (x[i], x[i + rotary_dim/2]), or (x[2i], x[2i+1]) where pairs are interleaved:
// u' = u*c - v*s,  v' = v*c + u*s     (RoFormer, Su et al. 2021). The angle is rounded to fp32
// before cos and sin, as published implementations do; that rounding is part of the specification.
// Angles are below 2^31. CPUs are fully accurate below 2^22. A GPU gives NaN from 2^31 on.
Status Rope(const Stream& stream, const RopeArgs& args);

// ------------------------------------------------------------------------------------------------
// Factors by position.

struct ScaleByPositionArgs {
  float* x = nullptr;                  // [T,N], changed in place
  const int32_t* positions = nullptr;  // [T], >= 0
  const float* factors = nullptr;      // [F]
  int64_t num_factors = 0;             // F
  int32_t step = 0;                    // S, above 0: positions that share a factor
  int64_t rows = 0;                    // T
  int64_t columns = 0;                 // N
  int64_t row_stride = 0;              // elements from row to row; 0: N
};
// x[t,n] *= factors[min((positions[t] + 1) / S, F - 1)], the quotient rounded down. One product, so
// all devices give the same bits.
Status ScaleByPosition(const Stream& stream, const ScaleByPositionArgs& args);

// ------------------------------------------------------------------------------------------------
// Paged key/value cache and attention.

// Positions per page. Position p of a sequence lies in page block_table[p / kPageTokens].
using janus::kPageTokens;
// Scores are computed in blocks of this many keys, softmax states merged in splits of that many;
// both begin at absolute positions that are multiples of their length. Another length of splits
// gives other bits. Only benchmarks change it, for a whole program, by JANUS_KEY_SPLIT
// (bench/gpu/attention_split.cu).
#ifndef JANUS_KEY_SPLIT
#define JANUS_KEY_SPLIT 1024
#endif
inline constexpr int kKeyBlock = 64;
inline constexpr int kKeySplit = JANUS_KEY_SPLIT;
static_assert(kKeySplit == 512 || kKeySplit == 1024 || kKeySplit == 2048);

// Caches of Float8E4M3 (OCP fp8) hold scaled pieces: a number is its element times the piece's fp32
// scale. The scale is found when the piece is written, from that piece alone, so nothing is
// calibrated and a position's bits depend on that position's numbers only. Pages of such a cache,
// and their stride, are multiples of 4 bytes.
//
// 448 is the largest number of the format. The scale is the least power of 2 for which 448 * scale
// is at least the piece's largest magnitude, and not below 2^-100. An element is round(x / scale),
// to nearest, ties to even. Scales that are powers of 2 cost at most one of the format's 15
// octaves, and make a number of the cache exact in bfloat16: attention over fp8 computes what it
// does over a bfloat16 cache of these numbers. A piece with an infinity or a NaN is NaN as a whole:
// its scale is NaN, its elements are zeros. No element is written as NaN. Numbers beyond
// 1.93 * 2^127 become infinity.

// One layer's cache. A page holds, for each kv head, keys as [D][kPageTokens] (so that 16 positions
// are one vector), then, for each kv head, values as [kPageTokens][D]. A page of Float8E4M3 holds
// behind them the scales of keys as [kv heads][kPageTokens], then those of values: the key of a
// position and kv head is a piece, and so is its value.
struct KvCache {
  void* pages = nullptr;
  int64_t num_pages = 0;
  int64_t page_stride_bytes = 0;  // from page to page; 0: KvPageBytes
  DType dtype = DType::kFloat32;  // Float32, BFloat16 or Float8E4M3
  int kv_heads = 0;
  int head_dim = 0;  // D, 1..kMaxHeadDim
};
// The bytes of a page's elements; its scales begin behind them. (Always inline: the objects of one
// instruction set export no code.)
[[gnu::always_inline]] constexpr int64_t KvElementBytes(DType dtype, int kv_heads, int head_dim) {
  return int64_t{2} * kv_heads * head_dim * kPageTokens * SizeOf(dtype);
}
[[gnu::always_inline]] constexpr int64_t KvPageBytes(DType dtype, int kv_heads, int head_dim) {
  const int64_t scales = dtype == DType::kFloat8E4M3 ? int64_t{2} * kv_heads * kPageTokens * 4 : 0;
  return KvElementBytes(dtype, kv_heads, head_dim) + scales;
}

// A position of a sequence: its new key is written, or its query attends.
struct KvRow {
  const int32_t* block_table = nullptr;  // page numbers of positions 0..15, 16..31, ...; entries of
                                         // pages before the first key that is seen are not read
  int32_t position = 0;
};

struct KvWriteArgs {
  KvCache cache;
  const KvRow* rows = nullptr;    // [T]; distinct (sequence, position)
  const float* keys = nullptr;    // [T,kv_heads,D], rotary embedding applied
  const float* values = nullptr;  // [T,kv_heads,D]
  int64_t num_rows = 0;           // T
  int64_t key_stride = 0;         // elements from row to row; 0: kv_heads*D
  int64_t value_stride = 0;
};
// Rounds to the cache's format and stores, by the same rule on every device: the bytes are the
// same. Writing the same row again stores the same bits.
Status KvWrite(const Stream& stream, const KvWriteArgs& args);

struct PagedAttentionArgs {
  KvCache cache;
  const KvRow* rows = nullptr;  // [T]; rows of one sequence should be neighbours: they share loads
  const float* queries = nullptr;   // [T,heads,D], rotary embedding applied
  int64_t query_stride = 0;         // elements from row to row; 0: heads*D
  void* y = nullptr;                // [T,heads,D]
  DType y_dtype = DType::kFloat32;  // Float32 or BFloat16 (rounded once)
  int64_t y_stride = 0;             // elements; 0: heads*D
  int64_t num_rows = 0;             // T
  int heads = 0;       // a multiple of cache.kv_heads; head h reads kv head h / (heads/kv_heads)
  float scale = 0.0f;  // multiplies q.k
  int sliding_window = 0;        // keys a row sees, itself included; 0: all
  int chunk = 0;                 // positions of a chunk, of which a row sees its own; 0: all. Not
                                 // with a sliding window
  const float* sinks = nullptr;  // [heads], finite, or null
  // Optional. With it the splits of long contexts are dealt over the threads too; the bits are the
  // same with and without it and for every size. A few MiB serve on a CPU, on a GPU
  // PagedAttentionStateBytes.
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};
// With so many bytes a GPU deals all splits of `rows` rows that together see so many keys, without
// a sliding window. Rows without room in a smaller workspace have one block of threads each.
constexpr int64_t PagedAttentionStateBytes(int heads, int head_dim, int64_t rows, int64_t keys) {
  return (rows + keys / kKeySplit) * heads * (head_dim + 2) * 4;
}
// Row t attends to the keys at max(0, position-window+1)..position of its sequence, or with chunks
// at position/chunk*chunk..position (its own key must have been written):
// y = sum_j softmax_j(scale * q.k_j) v_j. With sinks the sum of the
// softmax of head h has one more term, exp(sinks[h]), without a value (gpt-oss, 2025). It is added
// last, to the merged state of all splits.
// One algorithm for prompt and generated rows: online softmax (Milakov & Gimelshein 2018) over key
// blocks in order, per split, splits merged in order (FlashDecoding); blocks and splits lie at
// absolute positions. A row computed alone, within a chunk of its prompt or beside other sequences
// has the same bits.
Status PagedAttention(const Stream& stream, const PagedAttentionArgs& args);

// ------------------------------------------------------------------------------------------------
// Latent attention.

// One layer's cache of a model with latent attention (DeepSeek-V2): a page holds, for each of its
// kPageTokens positions, [rank] of the latent vector, then [rope] of the key that all heads share.
// In a cache of Float8E4M3 only the latent vector has this format, in pieces of kScaleBlock numbers
// (the last may have fewer); the rope key is BFloat16. A position then is its [rank] elements, the
// pieces' scales and the rope key, each padded to a multiple of 4 bytes. With rank 512 and rope 64
// these are the 656 bytes of DeepSeek-V3.2's cache (FlashMLA), 41 copies of 16.
struct LatentCache {
  void* pages = nullptr;
  int64_t num_pages = 0;
  int64_t page_stride_bytes = 0;  // from page to page; 0: LatentPageBytes
  DType dtype = DType::kFloat32;  // Float32, BFloat16 or Float8E4M3
  int rank = 0;                   // R, 1..kMaxLatentRank
  int rope = 0;                   // P, 1..kMaxHeadDim
};
// Offsets of the scales and of the rope key of a position of Float8E4M3, from its first byte.
constexpr int64_t LatentScalesAt(int rank) {
  return (int64_t{rank} + 3) / 4 * 4;
}
constexpr int64_t LatentRopeAt(int rank) {
  return LatentScalesAt(rank) + 4 * ScaleBlocks(rank);
}
// Of a position.
constexpr int64_t LatentEntryBytes(DType dtype, int rank, int rope) {
  return dtype == DType::kFloat8E4M3 ? LatentRopeAt(rank) + (int64_t{rope} + 1) / 2 * 4
                                     : (int64_t{rank} + rope) * SizeOf(dtype);
}
constexpr int64_t LatentPageBytes(DType dtype, int rank, int rope) {
  return kPageTokens * LatentEntryBytes(dtype, rank, rope);
}

struct LatentWriteArgs {
  LatentCache cache;
  const KvRow* rows = nullptr;     // [T]; distinct (sequence, position)
  const float* entries = nullptr;  // [T,R+P]: normed latent vector, key with rope applied
  int64_t num_rows = 0;            // T
  int64_t entry_stride = 0;        // elements from row to row; 0: R+P
};
// Rounds to the cache's format and stores, by the same rule on every device: the bytes are the
// same. Writing the same row again stores the same bits.
Status LatentWrite(const Stream& stream, const LatentWriteArgs& args);

// One small projection per head.
struct HeadLinearArgs {
  const float* x = nullptr;      // [T,heads,K]
  const void* weight = nullptr;  // of head h from element h * weight_head_stride on: [N,K] as
                                 // checkpoints store it, or [K,N] when transposed
  DType weight_dtype = DType::kFloat32;
  bool transposed = false;
  void* y = nullptr;                // [T,heads,N]
  DType y_dtype = DType::kFloat32;  // Float32 or BFloat16 (rounded once)
  int64_t rows = 0;                 // T
  int64_t heads = 0;
  int64_t outputs = 0;  // N
  int64_t inputs = 0;   // K
  // Elements from row to row and from head to head.
  int64_t x_row_stride = 0;
  int64_t x_head_stride = 0;
  int64_t y_row_stride = 0;
  int64_t y_head_stride = 0;
  int64_t weight_head_stride = 0;
};
// y[t,h,n] = sum_k x[t,h,k] * weight_h[n,k]
Status HeadLinear(const Stream& stream, const HeadLinearArgs& args);

// Attention in the latent space, for generated positions: a head's query was multiplied by its key
// expansion beforehand ("absorbed"), so that all heads read the cache as it is.
struct AbsorbedAttentionArgs {
  LatentCache cache;
  const KvRow* rows = nullptr;  // [T]; rows of one sequence should be neighbours: they share loads
  const float* latent_queries = nullptr;  // [T,heads,R]
  const float* rope_queries = nullptr;    // [T,heads,P], rotary embedding applied
  int64_t rope_query_row_stride = 0;      // elements; 0: heads*P
  int64_t rope_query_head_stride = 0;     // elements; 0: P
  float* y = nullptr;                     // [T,heads,R]
  int64_t num_rows = 0;                   // T
  int heads = 0;
  float scale = 0.0f;  // multiplies q.k; above 0
  // Optional. With it a GPU deals the splits of long contexts over its multiprocessors; the bits
  // are the same with and without it and for every size. AbsorbedAttentionStateBytes; others do not
  // use it.
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};
// Whether a GPU has a form for the cache and as many heads that deals splits: bfloat16 or fp8 of
// rank 512 and rope 64, up to 64 heads or a multiple of 64.
inline constexpr int kAbsorbedRank = 512;
inline constexpr int kAbsorbedRope = 64;
constexpr bool HasAbsorbedStates(const LatentCache& cache, int heads) {
  return (cache.dtype == DType::kBFloat16 || cache.dtype == DType::kFloat8E4M3) &&
         cache.rank == kAbsorbedRank && cache.rope == kAbsorbedRope &&
         (heads <= 64 || heads % 64 == 0);
}
// With so many bytes a GPU deals all splits of `rows` rows that together see so many keys. Rows
// without room in a smaller workspace have one block of threads each, or one for 64 heads. 0 if no
// form deals splits.
constexpr int64_t AbsorbedAttentionStateBytes(const LatentCache& cache, int heads, int64_t rows,
                                              int64_t keys) {
  return HasAbsorbedStates(cache, heads) ? (rows + keys / kKeySplit) * heads * (cache.rank + 2) * 4
                                         : 0;
}
// With c_j and r_j the cached latent vector and rope key of position j <= the row's own:
// y = sum_j softmax_j(scale * (q_latent.c_j + q_rope.r_j)) c_j. Blocks and splits of keys as in
// PagedAttention.
Status AbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args);

// Attention over keys and values that are expanded from the cache, for prompt positions: the
// expansion is paid once per block of keys and head for all rows of a sequence, which then need
// D+V products per key instead of 2R+P.
struct ExpandedAttentionArgs {
  LatentCache cache;
  const KvRow* rows = nullptr;     // [T]; rows of one sequence should be neighbours: they share
                                   // the expansion
  const float* queries = nullptr;  // [T,heads,N+P]: rotary embedding applied to the last P
  int64_t query_stride = 0;        // elements from row to row; 0: heads*(N+P)
  const void* expand = nullptr;    // [heads,N+V,R]: of a head the key's rows, then the value's
  DType expand_dtype = DType::kFloat32;
  void* y = nullptr;                // [T,heads,V]
  DType y_dtype = DType::kFloat32;  // Float32 or BFloat16 (rounded once)
  int64_t num_rows = 0;             // T
  int heads = 0;
  int nope_dim = 0;   // N >= 1; N+P <= kMaxHeadDim
  int value_dim = 0;  // V, 1..kMaxHeadDim
  float scale = 0.0f;
  // A GPU with HasSharedExpansion plans its launches by this number, since only the host knows
  // positions when it launches: at least the key blocks that the rows see, counted for each run of
  // neighbours of one sequence up to its largest position. It refuses 0. No bit depends on it.
  int64_t key_blocks = 0;
  void* workspace = nullptr;  // ExpandedAttentionWorkspaceBytes, 64-byte aligned
  int64_t workspace_bytes = 0;
};
// Rows of one sequence that share an expansion.
inline constexpr int kExpandedRows = 512;
// What ExpandedAttention needs on a team of so many threads: per thread one block of keys and
// values, and the softmax states of its rows.
constexpr int64_t ExpandedAttentionWorkspaceBytes(int head_dim, int value_dim, int threads) {
  const int64_t padded = (value_dim + 15) / 16 * 16;
  return (int64_t{kKeyBlock} * ((head_dim + 15) / 16 * 16 + padded) +
          kExpandedRows * (padded + 16)) *
         4 * threads;
}
// Whether a GPU has a form that expands keys and values into the workspace, for all rows of a call:
// bfloat16 of rank 512 and rope 64, keys and values of 128 a head.
inline constexpr int kSharedExpansion = 128;
constexpr bool HasSharedExpansion(const LatentCache& cache, DType expand_dtype, int nope_dim,
                                  int value_dim) {
  return cache.dtype == DType::kBFloat16 && cache.rank == kAbsorbedRank &&
         cache.rope == kAbsorbedRope && expand_dtype == DType::kBFloat16 &&
         nope_dim == kSharedExpansion && value_dim == kSharedExpansion;
}
// So many bytes keep it busy for up to so many rows: 2,048 keys of up to 64 heads (21 MB for 16,
// 84 MB for 64 heads or more and 512 rows), however long contexts are. It accepts
// ExpandedAttentionWorkspaceBytes of one thread and anything above it, with the same bits.
constexpr int64_t SharedExpansionBytes(int heads, int64_t rows) {
  const int64_t at_once = heads < 64 ? heads : 64;
  const int64_t in_cache = rows < kExpandedRows ? rows : kExpandedRows;
  const int64_t keys = 2048;
  return 64 + (32 * in_cache + 63) / 64 * 64 +
         keys * 2 * (at_once * 2 * kSharedExpansion + kAbsorbedRope) +
         at_once * in_cache * (kSharedExpansion + 2) * 4;
}
// What `key_blocks` asks for, of rows that the host can look into; no block table is followed.
int64_t KeyBlocksOf(const KvRow* rows, int64_t count);
// With k_j = (expand_key c_j, r_j) and v_j = expand_value c_j:
// y = sum_j softmax_j(scale * q.k_j) v_j. Key blocks of kKeyBlock at absolute positions, in order,
// without splits (work is dealt over heads); expanded keys and values stay in fp32, except where
// HasSharedExpansion: there they are rounded to bfloat16.
Status ExpandedAttention(const Stream& stream, const ExpandedAttentionArgs& args);

// ------------------------------------------------------------------------------------------------
// Experts.

struct GateTopKArgs {
  const void* const* x_rows = nullptr;  // [T] pointers to rows [H], wherever they lie
  DType x_dtype = DType::kFloat32;      // Float32 or BFloat16
  const void* weight = nullptr;         // [E,H]
  DType weight_dtype = DType::kFloat32;
  float* logits = nullptr;   // [T,E]: gate logits (kSigmoid: scores), also the workspace
  uint16_t* ids = nullptr;   // [T,k], by descending score
  float* weights = nullptr;  // [T,k]
  int64_t rows = 0;          // T
  int64_t hidden = 0;        // H
  int experts = 0;           // E, 1..kMaxExperts
  int top_k = 0;             // k, 1..min(E, kMaxTopK)
  GateScore score = GateScore::kSoftmax;
  const float* bias = nullptr;  // [E], finite. kSoftmax: a part of the logits, or null
                                // kSigmoid: added to scores for the choice; kSigmoidOfChosen: null
  bool renormalize = false;     // divide the k weights by their sum; not of kSigmoidOfChosen
  float weight_scale = 1.0f;    // multiplies the k weights in the end
  int groups = 1;      // G, 1..kMaxGroups, divides E: group g holds experts g*E/G .. (g+1)*E/G-1
  int top_groups = 1;  // 1..G, with at least k experts in so many groups
  // Optional, of a GPU: with it the inner axis is dealt over blocks of threads. The bits are the
  // same with and without it and for every size.
  void* workspace = nullptr;  // 64-byte aligned
  int64_t workspace_bytes = 0;
};
// A GPU that takes bfloat16 adds up a logit in pieces of so many elements.
inline constexpr int kGateSplit = 256;
// With so many bytes a GPU deals the pieces of so many rows at once; more rows are more launches.
constexpr int64_t GateTopKWorkspaceBytes(int64_t rows, int64_t hidden, int experts) {
  return (hidden + kGateSplit - 1) / kGateSplit * rows * experts * 4;
}
// kSoftmax: p = softmax over all E of the logits x.weight^T + bias. The top_groups groups with the
// largest best logit are kept, ties to the lower group; of their experts the k largest logits are
// chosen, ties to the lower id; weights are their p (DeepSeek-V2's group-limited greedy choice). A
// NaN logit gives distinct ids and NaN weights. kSigmoid: s = sigmoid(x.weight^T), c = s + bias, in
// fp32. The top_groups groups with the largest sum of their two largest c are kept, ties to the
// lower group; of their experts the k largest c are chosen, ties to the lower id; weights are their
// s, renormalized by their sum + 1e-20 (DeepSeek-V3's "noaux_tc"). Groups of one expert are refused
// where not all are kept. A NaN logit counts as the largest c, so does a group's sum with it; ids
// are distinct, its weight is NaN and so are all when renormalized. kSigmoidOfChosen: chosen as by
// kSoftmax, from the logits; each weight is the sigmoid of its own logit. A NaN logit gives
// distinct ids, and its own weight is NaN.
Status GateTopK(const Stream& stream, const GateTopKArgs& args);

// One (row, top-k slot) that an expert computes.
struct Contribution {
  const void* x = nullptr;  // the row's [H], read in place
  void* y = nullptr;        // where the contribution [H] goes; no two overlap
  float weight = 0.0f;      // the gate's
};

// Weights of fp8 have a scale for each block of so many outputs and inputs: [N,K] weights have
// [ceil(N/128),ceil(K/128)] of them, as checkpoints store it ("weight_scale_inv", DeepSeek-V3 2024,
// 3.3.2), and a weight is its value times its block's scale.
using janus::kScaleBlock;
using janus::ScaleBlocks;
// Weights of mxfp4, as common/dtype.h defines them. Each is exactly a number of bfloat16, and
// results have the bits of the same weights in bfloat16.
using janus::kMxBlock;

// A replica that this round activates, with its rows.
struct ActiveExpert {
  const void* gate = nullptr;  // [I,H]  (w1, gate_proj)
  const void* up = nullptr;    // [I,H]  (w3, up_proj)
  const void* down = nullptr;  // [H,I]  (w2, down_proj)
  int32_t first = 0;           // its contributions are first .. first+count-1
  int32_t count = 0;           // >= 0
  // Of Float8E4M3 weights: float, finite. Of Mxfp4 weights: uint8_t, 0..kMaxMxScale. Else null.
  const void* gate_scales = nullptr;
  const void* up_scales = nullptr;
  const void* down_scales = nullptr;
  // Finite; of has_bias, else null.
  const float* gate_bias = nullptr;  // [I]
  const float* up_bias = nullptr;    // [I]
  const float* down_bias = nullptr;  // [H]
};

struct GroupedExpertFfnArgs {
  const ActiveExpert* experts = nullptr;        // [num_experts]
  const Contribution* contributions = nullptr;  // [num_contributions]
  int64_t num_experts = 0;
  int64_t num_contributions = 0;
  // Where that is only the most that a device may list: how many it is likely to, a matter of speed
  // alone. 0: all.
  int64_t likely_contributions = 0;
  int64_t hidden = 0;        // H
  int64_t intermediate = 0;  // I
  // Float8E4M3 too, of which none is NaN, and Mxfp4, with H and I multiples of kMxBlock.
  DType weight_dtype = DType::kFloat32;
  DType row_dtype = DType::kFloat32;  // Float32 or BFloat16: of x and h
  DType y_dtype = DType::kFloat32;    // Float32 or BFloat16: of y
  bool weighs_inputs = false;         // the weight multiplies x, not the result
  bool has_bias = false;              // the experts have biases
  float swiglu_limit = 0.0f;          // above 0: h is the clamped SwiGLU
  float swiglu_alpha = 0.0f;          // of that, above 0
  void* workspace = nullptr;          // GroupedExpertFfnWorkspace(...).bytes, 64-byte aligned
  int64_t workspace_bytes = 0;
};
// The workspace of a call with at most so many contributions.
struct GroupedExpertFfnWorkspace {
  int64_t h_row_bytes = 0;  // one row of [num_contributions, I] in row_dtype, rounded up to 64
  int64_t bytes = 0;
  static constexpr GroupedExpertFfnWorkspace For(int64_t num_contributions, int64_t intermediate,
                                                 DType row_dtype) {
    const int64_t row = (intermediate * SizeOf(row_dtype) + 63) / 64 * 64;
    return {row, row * num_contributions};
  }
};
// Per contribution: g = gate x + gate_bias, u = up x + up_bias, h = round(silu(g) * u),
// y = round(weight * (down h + down_bias)), with round to row_dtype and y_dtype and everything
// before it in fp32. All experts of a round go into one call, so that threads are dealt over
// experts and columns.
// Clamped SwiGLU: with g' = min(g, swiglu_limit) and u' = u clipped to -swiglu_limit..swiglu_limit,
// h = round(g' * sigmoid(swiglu_alpha * g') * (u' + 1)) (gpt-oss, 2025). A NaN stays NaN.
// Weighed inputs: g = weight * (gate x) + gate_bias, u = weight * (up x) + up_bias, and
// y = round(down h + down_bias) (Llama-4, 2025).
Status GroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args);

struct CombineSlotsArgs {
  const void* const* contributions = nullptr;  // [T,k] pointers to [H], wherever they lie
  DType dtype = DType::kFloat32;               // Float32 or BFloat16: of the contributions
  const float* local = nullptr;                // [T,H]: of FFNs beside the routed experts; or null
  const float* residual = nullptr;             // [T,H]
  float* y = nullptr;                          // [T,H]; may be residual
  int64_t rows = 0;                            // T
  int64_t hidden = 0;                          // H
  int top_k = 0;                               // k; 0 only with `local`
};
// y[t] = residual[t] + (((c[t,0] + c[t,1]) + ... + c[t,k-1]) + local[t]), in this order, in fp32
// (on the reference device too: this order is the sum rule `Contributions`, not an approximation of
// it).
Status CombineSlots(const Stream& stream, const CombineSlotsArgs& args);

// The two sides of the sum rule FixedPoint (common/fixed_point.h has the arithmetic of an element,
// and its bounds). A sum is H elements of `bits` bits, 32 or 24.
struct AddTermsArgs {
  const float* terms = nullptr;   // [N,H]: those of a sum are neighbours
  const int32_t* ends = nullptr;  // [T], ascending: sum t has the terms before ends[t] that sum t-1
                                  // has not
  void* sums = nullptr;           // [T,H]
  uint32_t* clamped = nullptr;    // grows by the clamped elements of terms, modulo 2^32; or null
  int bits = 32;
  int exponent = 0;   // s
  int32_t limit = 0;  // janus::FixedLimit
  int64_t rows = 0;   // T
  int64_t hidden = 0;
};
// sums[t] = the sum of ToFixed(term) over the terms of t.
Status AddTerms(const Stream& stream, const AddTermsArgs& args);

struct CombineSumsArgs {
  const void* const* sums = nullptr;  // [T,k] pointers to [H], wherever they lie; null: none
  int bits = 32;
  int exponent = 0;                 // s
  const float* local = nullptr;     // [T,H]: of FFNs beside the routed experts; or null
  const float* residual = nullptr;  // [T,H]
  float* y = nullptr;               // [T,H]; may be residual
  int64_t rows = 0;                 // T
  int64_t hidden = 0;               // H
  int top_k = 0;                    // k, at least 1
};
// y[t] = residual[t] + (FromFixed(sums[t,0] + ... + sums[t,k-1]) + local[t]): the integers in any
// order, then fp32 in this order.
Status CombineSums(const Stream& stream, const CombineSumsArgs& args);

// ------------------------------------------------------------------------------------------------
// Rows on their way between instances.

struct PermuteRowsArgs {
  // X rows to read: x_stride_bytes apart, or wherever the pointers say. One of the two is null.
  const void* x = nullptr;
  const void* const* x_list = nullptr;  // [X]
  // Y rows to write, which overlap neither each other nor x.
  void* y = nullptr;
  void* const* y_list = nullptr;   // [Y]
  const int32_t* x_map = nullptr;  // [T], below X; null: row i
  const int32_t* y_map = nullptr;  // [T], below Y, no two that are written alike; null: row i
  int64_t rows = 0;                // T
  int64_t x_rows = 0;              // X
  int64_t y_rows = 0;              // Y
  int64_t row_bytes = 0;
  int64_t x_stride_bytes = 0;  // from row to row of x; 0: row_bytes
  int64_t y_stride_bytes = 0;
};
// y[y_map[i]] = x[x_map[i]] for every i for which neither number is negative. The rest of y does
// not change, so several calls, one for each sender, can fill one y (MegaScale-MoE 2025, 3.2:
// scatter and gather by row maps). Two uses: gather the rows of all senders in the order of the
// experts (x_list, x_map); write contributions to their (row, slot) (y_map, or y_list into the
// slots of several receivers). T may be an upper bound: the rest of a map is then -1.
// InvalidArgument names the first number beyond X or Y, and the first null pointer of a row that
// moves. A GPU cannot report them: it does not move rows with a number beyond.
Status PermuteRows(const Stream& stream, const PermuteRowsArgs& args);

// Rows in fp8 with a scale for each block of kScaleBlock neighbours, of which the last may have
// fewer. They may lie anywhere, as may those in fp32 and bfloat16.
struct PackFp8Args {
  const void* x = nullptr;          // [T,H]
  DType x_dtype = DType::kFloat32;  // Float32 or BFloat16
  uint8_t* packed = nullptr;        // [T,H], Float8E4M3
  float* scales = nullptr;          // [T,ceil(H/128)]
  int64_t rows = 0;                 // T
  int64_t hidden = 0;               // H
  int64_t x_stride = 0;             // elements from row to row; 0: H
  int64_t packed_stride = 0;        // 0: H
  int64_t scale_stride = 0;         // 0: ceil(H/128)
};
inline constexpr float kLeastFp8Amax = 0x1p-100f;
// With amax the largest |x| of a block's finite elements: scale = amax / 448, and an element is
// x * (448 / amax), rounded to nearest, ties to even, to at most 448 (DeepSeek-V3 2024, 3.3.2:
// tiles of 1x128). Each operation is rounded to fp32, so all devices give the same bits. An element
// that is not finite becomes NaN with its sign, as E4M3 has no infinity. A block with an amax below
// kLeastFp8Amax, or with no finite element, has scale 0; its finite elements are 0 with their sign.
Status PackFp8(const Stream& stream, const PackFp8Args& args);

struct UnpackFp8Args {
  const uint8_t* packed = nullptr;  // [T,H], Float8E4M3
  const float* scales = nullptr;    // [T,ceil(H/128)], finite
  // Or rows that lie apart: the elements of each, and from list_scales_at bytes behind its first
  // element on its scales, which lie at a multiple of 4. Then packed and scales are null.
  const void* const* packed_list = nullptr;  // [T]
  int64_t list_scales_at = 0;
  void* y = nullptr;                // [T,H]
  DType y_dtype = DType::kFloat32;  // Float32 or BFloat16 (rounded once)
  int64_t rows = 0;                 // T
  int64_t hidden = 0;               // H
  int64_t packed_stride = 0;        // elements from row to row; 0: H
  int64_t scale_stride = 0;         // 0: ceil(H/128)
  int64_t y_stride = 0;             // 0: H
};
// y = packed * scale in fp32. NaN becomes the NaN without sign and payload.
Status UnpackFp8(const Stream& stream, const UnpackFp8Args& args);

// ------------------------------------------------------------------------------------------------
// Sampling.

inline constexpr int kMaxLogprobs = 20;
inline constexpr float kMinTemperature = 1e-5f;

struct SamplingParams {
  float temperature = 1.0f;  // >= 0; below kMinTemperature: the largest logit
  int32_t top_k = 0;         // keep the k largest; 0: all
  float top_p = 1.0f;        // in (0,1]: keep the shortest prefix by descending probability that
                             // reaches it, of what top_k kept
  uint64_t seed = 0;         // with the position the only source of randomness
  int64_t position = 0;      // of the token that is drawn, >= 0
  int32_t logprobs = -1;     // -1: none; 0: of the drawn token; n <= kMaxLogprobs: of the top n too
};

struct SampledToken {
  int32_t token = -1;
  float logprob = 0.0f;  // log softmax of the logits as given (no temperature), if asked for
  int32_t num_top = 0;   // min(n, V) entries below, by descending logit
  int32_t top_tokens[kMaxLogprobs] = {};
  float top_logprobs[kMaxLogprobs] = {};
};

struct SampleArgs {
  const float* logits = nullptr;           // [T,V]
  int64_t logits_stride = 0;               // elements from row to row; 0: V
  const SamplingParams* params = nullptr;  // [T]
  SampledToken* tokens = nullptr;          // [T]
  const int32_t* given = nullptr;          // [T], not on CUDA: a token that is taken in place of a
                                           // draw, for its logprob; -1: it is drawn. Null: all are
  int64_t rows = 0;                        // T
  int64_t vocab = 0;                       // V, below 2^31
  void* workspace = nullptr;               // SampleWorkspaceBytes, 64-byte aligned
  int64_t workspace_bytes = 0;
};
// The workspace of Sample for a vocabulary on a team of so many threads, for any number of rows.
constexpr int64_t SampleWorkspaceBytes(int64_t vocab, int threads) {
  return (vocab * 12 + 127) / 64 * 64 * threads;
}
// Draws one token per row. Ties go to the lower id. The draw is Philox4x32-10(seed, position): the
// uniform number u of UniformAt (common/philox.h) picks the first token, in id order, at which the
// running sum of the kept probabilities exceeds u times their total.
// DataLoss names the first row with a NaN (or no finite number) among its logits. That row has no
// token; the other rows are drawn.
Status Sample(const Stream& stream, const SampleArgs& args);

// 64-bit hash of the bits of a row of logits, for comparing runs of one build. A NaN, a sign of
// zero and the length all change it. Pure.
uint64_t HashLogits(std::span<const float> logits);

}  // namespace janus::kernels
