#pragma once

// The gate in its fast form, for bfloat16: tensor cores compute logits, with the inner axis dealt
// over blocks; then a block for each row adds up its pieces and chooses. The read of the weights is
// the limit, and all of them are loaded at once. Specification: ../reference/gate_top_k.cc
//
// A logit starts at 0 and takes the sums of its pieces from the first to the last. A piece is
// kGateSplit elements of the inner axis; its sum starts at 0 and takes 16 elements after 16. The
// workspace and the other rows only change where a piece is computed, and beside which rows.

#include "kernels/cuda/aebs_fast.h"
#include "kernels/cuda/list_work.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/stages.h"

#include <algorithm>

#ifndef __CUDACC__
#include <bit>
#endif

namespace janus::kernels::cuda {

// A piece of 64 experts by up to 64 rows, as it lies in shared memory: the weights' part of the
// inner axis, then the rows'.
struct GateTile {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kExperts = 16 * kWarps;
  static constexpr int kRows = 64;
  static constexpr int kRowBytes = 2 * kGateSplit;
  static constexpr int kPart = 64;  // elements that are waited for at once: a line of the cache
  static constexpr int kParts = kGateSplit / kPart;
  static constexpr int kChunks = kPart / kChunk;             // of a part, in a row
  static constexpr int kRowsAtOnce = kThreads / kChunks;     // that the threads bring
  static constexpr int kMostRowTurns = kRows / kRowsAtOnce;  // of a thread
  static_assert(kRowsAtOnce == 16 && kParts * kPart == kGateSplit);

  // Rows of activations are brought by 16: two blocks of 8 columns.
  static constexpr int64_t SharedBytes(int64_t rows) {
    const int64_t most = rows < kRows ? rows : kRows;
    return (kExperts + (most + 15) / 16 * 16) * int64_t{kRowBytes};
  }
  // The chunks of a row are permuted by its number, so that the chunks of 8 rows at one place lie
  // in different banks.
  JANUS_DEVICE static constexpr int Offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ row % 8) * kCopyBytes;
  }
};

// Grid [pieces, tiles of rows, tiles of experts], the last fastest; without `partial` each block
// adds up all pieces of its tile.
struct FastGateLogitsKernel {
  static constexpr int kThreads = GateTile::kThreads;
  static constexpr int kBlocksAtOnce = 3;
  static constexpr int64_t kAskedSharedBytes = GateTile::SharedBytes(GateTile::kRows);
  GateTopKArgs a;
  float* partial = nullptr;     // [pieces,T,E]
  uint32_t* arrived = nullptr;  // zeroed for the launch behind this one; may be null

  struct Sums {
    float of[GateTile::kRows / 8][4] = {};
  };
  struct Rows {
    const uint16_t* of[GateTile::kMostRowTurns] = {};
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    const int64_t across = (a.experts + GateTile::kExperts - 1) / GateTile::kExperts;
    const int64_t down = (a.rows + GateTile::kRows - 1) / GateTile::kRows;
    const int64_t e0 = block.index() % across * GateTile::kExperts;
    const int64_t t0 = block.index() / across % down * GateTile::kRows;
    const int64_t piece = block.index() / across / down;
    const int64_t pieces = (a.hidden + kGateSplit - 1) / kGateSplit;
    const int experts = PartOfTile(a.experts, e0, GateTile::kExperts);
    const int rows = PartOfTile(a.rows, t0, GateTile::kRows);
    PerThread<Rows, kThreads> x;
    block.Phase([&](int thread) {
      JANUS_UNROLL
      for (int turn = 0; turn < GateTile::kMostRowTurns; ++turn) {
        const int row = turn * GateTile::kRowsAtOnce + thread / GateTile::kChunks;
        x[thread].of[turn] = static_cast<const uint16_t*>(a.x_rows[t0 + (row < rows ? row : 0)]);
      }
    });
    PerThread<Sums, kThreads> logits;
    const int64_t end = partial != nullptr ? piece + 1 : pieces;
    JANUS_KEEP_LOOP
    for (int64_t p = partial != nullptr ? piece : 0; p < end; ++p) {
      PerThread<Sums, kThreads> sums;
      AddPiece(block, p * kGateSplit, e0, experts, rows, x, sums);
      block.Phase([&](int thread) {
        JANUS_UNROLL
        for (int n = 0; n < GateTile::kRows / 8; ++n) {
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) logits[thread].of[n][i] += sums[thread].of[n][i];
        }
      });
    }
    float* const to = partial != nullptr ? partial + piece * a.rows * a.experts : a.logits;
    block.Phase([&](int thread) {
      if (arrived != nullptr && block.index() == 0 && thread == 0) *arrived = 0;
      const int lane = thread % kLanes;
      JANUS_UNROLL
      for (int n = 0; n < GateTile::kRows / 8; ++n) {
        JANUS_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = 8 * n + lane % 4 * 2 + i % 2;
          const int expert = thread / kLanes * 16 + lane / 4 + i / 2 * 8;
          if (row >= rows || expert >= experts) continue;
          to[(t0 + row) * a.experts + e0 + expert] = logits[thread].of[n][i];
        }
      }
    });
  }

 private:
  // The shared memory must be free at the begin, and is free at the end.
  template <class Block>
  JANUS_DEVICE void AddPiece(Block& block, int64_t k0, int64_t e0, int experts, int rows,
                             PerThread<Rows, kThreads>& x, PerThread<Sums, kThreads>& sums) const {
    JANUS_KEEP_LOOP
    for (int part = 0; part < GateTile::kParts; ++part) {
      block.template CopyingWarps<GateTile::kParts - 1>([&](auto& warp) {
        warp.Lanes([&](int lane) {
          const int thread = warp.index() * kLanes + lane;
          const int first = thread / GateTile::kChunks;
          const int chunk = part * GateTile::kChunks + thread % GateTile::kChunks;
          const int64_t k = k0 + chunk * kChunk;
          const auto* const weights = static_cast<const uint16_t*>(a.weight);
          JANUS_UNROLL
          for (int row = 0; row < GateTile::kExperts; row += GateTile::kRowsAtOnce) {
            Bring(block, row + first, chunk, weights + (e0 + row + first) * a.hidden + k,
                  k < a.hidden && row + first < experts);
          }
          JANUS_UNROLL
          for (int turn = 0; turn < GateTile::kMostRowTurns; ++turn) {
            const int row = turn * GateTile::kRowsAtOnce;
            if (row >= rows) continue;
            Bring(block, GateTile::kExperts + row + first, chunk, x[thread].of[turn] + k,
                  k < a.hidden && row + first < rows);
          }
        });
      });
    }
    JANUS_KEEP_LOOP
    for (int part = 0; part < GateTile::kParts; ++part) {
      // Starts no copies; it only waits for the next part.
      block.template CopyingWarps<GateTile::kParts - 1>(
          [&](auto& warp) { Multiply(block, warp, part * GateTile::kChunks, rows, sums); });
    }
  }

  // A chunk, zeros unless `read`; from any address of an element.
  template <class Block>
  JANUS_DEVICE static void Bring(Block& block, int row, int chunk, const uint16_t* from,
                                 bool read) {
    const bool in_chunks = reinterpret_cast<uintptr_t>(from) % kCopyBytes == 0;
    BringChunk(block, block.shared() + GateTile::Offset(row, chunk), from, read ? kChunk : 0,
               in_chunks);
  }

  // sums += the product over a part: a warp has 16 experts and all rows.
  template <class Block, class Warp>
  JANUS_DEVICE static void Multiply(Block& block, Warp& warp, int first_chunk, int rows,
                                    PerThread<Sums, kThreads>& sums) {
    struct Four {
      uint32_t of[4];
    };
    const unsigned char* const shared = block.shared();
    PerLane<Four> weights;
    PerLane<Four> x;  // of two blocks of 8 rows
    const int first_lane = warp.index() * kLanes;
    JANUS_UNROLL
    for (int c = 0; c < GateTile::kChunks; c += 2) {
      const int chunk = first_chunk + c;
      LoadMatrices(
          warp, [&](int lane) -> uint32_t(&)[4] { return weights[lane].of; },
          [&](int lane) {
            const int row = warp.index() * 16 + lane / 8 % 2 * 8 + lane % 8;
            return shared + GateTile::Offset(row, chunk + lane / 16);
          });
      JANUS_UNROLL
      for (int n = 0; n < GateTile::kRows / 8; n += 2) {
        if (8 * n >= rows) continue;
        LoadMatrices(
            warp, [&](int lane) -> uint32_t(&)[4] { return x[lane].of; },
            [&](int lane) {
              const int row = GateTile::kExperts + 8 * (n + lane / 16) + lane % 8;
              return shared + GateTile::Offset(row, chunk + lane / 8 % 2);
            });
        JANUS_UNROLL
        for (int i = 0; i < 2; ++i) {
          MultiplyAdd(
              warp, [&](int lane) -> float(&)[4] { return sums[first_lane + lane].of[n + i]; },
              [&](int lane) -> const uint32_t* { return weights[lane].of; },
              [&](int lane) -> const uint32_t* { return x[lane].of + 2 * i; });
        }
      }
    }
  }
};

// A logit, or a sum of scores, as a positive integer of the same order: NaN is above all, and -0
// equals +0.
JANUS_DEVICE inline uint32_t RankOf(float logit) {
  if (logit != logit) return ~0u;
#ifdef __CUDACC__
  const uint32_t bits = __float_as_uint(logit + 0.0f);
#else
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
#endif
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
JANUS_DEVICE inline float LogitOf(uint32_t rank) {
  const uint32_t bits = (rank & 0x80000000u) != 0 ? rank & 0x7FFFFFFFu : ~rank;
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

// The choice among a row's logits by a block of kThreads, with the results of GateChoiceKernel.
template <int kThreads>
class GateChoice {
 public:
  // Shared memory, offsets in bytes.
  struct Layout {
    int64_t logits = 0;    // float[E]
    int64_t ranks = 0;     // uint32[E]; 0: not to be chosen
    int64_t of_group = 0;  // uint32[G]: the group's rank
    int64_t open = 0;      // uint32[G]
    int64_t sums = 0;      // float[kSums]
    int64_t largest = 0;   // float
    int64_t ids = 0;       // uint16[k]
    int64_t bytes = 0;
    static constexpr Layout For(int64_t experts, int64_t groups, int64_t top_k) {
      Layout l;
      l.ranks = l.logits + 4 * experts;
      l.of_group = l.ranks + 4 * experts;
      l.open = l.of_group + 4 * groups;
      l.sums = l.open + 4 * groups;
      l.largest = l.sums + 4 * kSums;
      l.ids = l.largest + 4;
      l.bytes = l.ids + 2 * top_k;
      return l;
    }
  };

  // For row block.index(). The logits are the sums of `pieces` pieces in `partial`, or already
  // computed if it is null.
  template <class Block>
  JANUS_DEVICE static void Run(Block& block, const GateTopKArgs& a, const float* partial,
                               int64_t pieces) {
    const auto at = Layout::For(a.experts, a.groups, a.top_k);
    unsigned char* const shared = block.shared();
    auto* const logits = reinterpret_cast<float*>(shared + at.logits);
    auto* const ranks = reinterpret_cast<uint32_t*>(shared + at.ranks);
    auto* const sums = reinterpret_cast<float*>(shared + at.sums);
    auto& largest = *reinterpret_cast<float*>(shared + at.largest);
    auto* const ids = reinterpret_cast<uint16_t*>(shared + at.ids);
    const int64_t row = block.index() * a.experts;
    const bool is_sigmoid = a.score == GateScore::kSigmoid;
    block.Phase([&](int thread) {
      for (int e = thread; e < a.experts; e += kThreads) {
        float sum = 0.0f;
        if (partial == nullptr) {
          sum = a.logits[row + e];
        } else {
          const float* from = partial + row + e;
          // Four reads in flight at once, added in order.
#ifdef __CUDACC__
#pragma unroll 4
#endif
          for (int64_t p = 0; p < pieces; ++p) sum += from[p * a.rows * a.experts];
        }
        if (is_sigmoid) sum = Sigmoid(sum);
        if (is_sigmoid || partial != nullptr) a.logits[row + e] = sum;
        logits[e] = sum;
        ranks[e] = RankOf(ChosenBy(a, logits, e));
      }
    });
    // One warp chooses while others sum up the softmax.
    block.Warps([&](auto& warp) {
      if (warp.index() == 0) {
        if (a.top_groups < a.groups) {
          CloseGroups(warp, a, ranks, reinterpret_cast<uint32_t*>(shared + at.of_group),
                      reinterpret_cast<uint32_t*>(shared + at.open));
        }
        Choose(warp, a, ranks, ids, a.ids + block.index() * a.top_k);
      } else if (!is_sigmoid && warp.index() <= kSums / kLanes) {
        PerLane<uint32_t> best;
        warp.Lanes([&](int lane) {
          for (int e = lane; e < a.experts; e += kLanes) {
            const uint32_t rank = RankOf(logits[e]);
            if (rank > best[lane]) best[lane] = rank;
          }
        });
        const float most = LogitOf(warp.Max([&](int lane) { return best[lane]; }));
        warp.Lanes([&](int lane) {
          const int i = (warp.index() - 1) * kLanes + lane;
          float sum = 0.0f;
          for (int e = i; e < a.experts; e += kSums) sum += expf(logits[e] - most);
          sums[i] = sum;
          if (i == 0) largest = most;
        });
      }
    });
    block.Warps([&](auto& warp) {
      if (warp.index() != 0) return;
      if (is_sigmoid) {
        warp.Lanes([&](int lane) {
          if (lane < a.top_k) {
            a.weights[block.index() * a.top_k + lane] = SigmoidWeight(a, logits, ids, lane);
          }
        });
        return;
      }
      PerLane<float> total;
      warp.Lanes([&](int lane) {
        total[lane] = (sums[lane] + sums[lane + 64]) + (sums[lane + 32] + sums[lane + 96]);
      });
      JANUS_UNROLL
      for (int mask = kLanes / 2; mask > 0; mask /= 2) {
        warp.Exchange(
            mask, [&](int lane) { return total[lane]; },
            [&](int lane, float theirs) { total[lane] += theirs; });
      }
      warp.Lanes([&](int lane) {
        if (lane >= a.top_k) return;
        float all = total[lane];
        if (a.renormalize) {
          all = 0.0f;
          for (int j = 0; j < a.top_k; ++j) all += expf(logits[ids[j]] - largest);
        }
        a.weights[block.index() * a.top_k + lane] =
            expf(logits[ids[lane]] - largest) / all * a.weight_scale;
      });
    });
  }

 private:
  static constexpr int kSums = GateChoiceKernel::kThreads;  // the order of sums is that kernel's
  static_assert(kSums == 4 * kLanes && kThreads >= kLanes + kSums && kMaxTopK <= kLanes);

  // The best of a group's ranks, or that of the sum of its two best scores with their biases.
  JANUS_DEVICE static uint32_t RankOfGroup(const GateTopKArgs& a, const uint32_t* ranks, int size) {
    uint32_t best = 0;
    uint32_t second = 0;
    for (int i = 0; i < size; ++i) {
      const uint32_t rank = ranks[i];
      if (rank > best) {
        second = best;
        best = rank;
      } else if (rank > second) {
        second = rank;
      }
    }
    if (a.score != GateScore::kSigmoid) return best;
    return RankOf(LogitOf(best) + LogitOf(second));
  }

  // A group is open if fewer than top_groups others beat it; the lower group wins a tie.
  template <class Warp>
  JANUS_DEVICE static void CloseGroups(Warp& warp, const GateTopKArgs& a, uint32_t* ranks,
                                       uint32_t* of_group, uint32_t* open) {
    const int size = a.experts / a.groups;
    warp.Lanes([&](int lane) {
      for (int g = lane; g < a.groups; g += kLanes) {
        of_group[g] = RankOfGroup(a, ranks + g * size, size);
      }
    });
    warp.Lanes([&](int lane) {
      for (int g = lane; g < a.groups; g += kLanes) {
        int better = 0;
        for (int other = 0; other < a.groups; ++other) {
          const bool beats =
              of_group[other] > of_group[g] || (of_group[other] == of_group[g] && other < g);
          better += beats ? 1 : 0;
        }
        open[g] = better < a.top_groups ? 1 : 0;
      }
    });
    warp.Lanes([&](int lane) {
      for (int e = lane; e < a.experts; e += kLanes) {
        if (open[e / size] == 0) ranks[e] = 0;
      }
    });
  }

  struct Best {
    uint32_t rank = 0;
    uint32_t id = 0;
  };
  // Among the experts that are a lane's, the lowest of those with the best rank.
  JANUS_DEVICE static Best BestOf(const uint32_t* ranks, int experts, int lane) {
    Best best;
    for (int e = lane; e < experts; e += kLanes) {
      if (ranks[e] > best.rank) best = {ranks[e], static_cast<uint32_t>(e)};
    }
    return best;
  }

  template <class Warp>
  JANUS_DEVICE static void Choose(Warp& warp, const GateTopKArgs& a, uint32_t* ranks, uint16_t* ids,
                                  uint16_t* row_ids) {
    PerLane<Best> best;
    warp.Lanes([&](int lane) { best[lane] = BestOf(ranks, a.experts, lane); });
    for (int j = 0; j < a.top_k; ++j) {
      const uint32_t most = warp.Max([&](int lane) { return best[lane].rank; });
      const uint32_t id =
          warp.Min([&](int lane) { return best[lane].rank == most ? best[lane].id : ~0u; });
      warp.Lanes([&](int lane) {
        if (lane != static_cast<int>(id % kLanes)) return;
        ids[j] = row_ids[j] = static_cast<uint16_t>(id);
        ranks[id] = 0;
        best[lane] = BestOf(ranks, a.experts, lane);
      });
    }
  }
};

// Grid [T].
struct FastGateChoiceKernel {
  static constexpr int kThreads = 256;
  GateTopKArgs a;
  const float* partial = nullptr;
  int64_t pieces = 0;
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    GateChoice<kThreads>::Run(block, a, partial, pieces);
  }
};

// Grid [T]. The last block to finish goes on with AEBS and the lists of its result.
struct GateAndScheduleKernel {
  static constexpr int kThreads = kFastThreads;
  static constexpr int kBlocksAtOnce = 2;  // else registers are held to what AEBS would spill
  GateTopKArgs a;
  const float* partial = nullptr;
  int64_t pieces = 0;
  ScheduleExpertsArgs schedule;
  ListWorkArgs list;  // none where `active` is null
  uint32_t* arrived = nullptr;
  static_assert(kThreads == FastScheduleKernel::kThreads && kThreads == ListWorkKernel::kThreads);
  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    GateChoice<kThreads>::Run(block, a, partial, pieces);
    if (!block.IsLast(arrived)) return;
    FastScheduleKernel{schedule, false}(block);
    if (list.active != nullptr) ListWorkKernel{list}(block);
  }
};

constexpr int64_t GatePieces(const GateTopKArgs& a) {
  return CeilDiv(a.hidden, kGateSplit);
}
// Rows of a call that find room in the workspace; whole tiles where not all do.
constexpr int64_t GateRowsAtOnce(const GateTopKArgs& a) {
  const int64_t fit = a.workspace_bytes / GateTopKWorkspaceBytes(1, a.hidden, a.experts);
  if (fit >= a.rows) return a.rows;
  return fit < GateTile::kRows ? fit : fit / GateTile::kRows * GateTile::kRows;
}
inline Plan PlanFastGateLogits(const GateTopKArgs& a, bool over_pieces) {
  const int64_t pieces = GatePieces(a);
  const int64_t out = 4 * a.rows * a.experts * (over_pieces ? pieces : 1);
  return {CeilDiv(a.experts, GateTile::kExperts) * CeilDiv(a.rows, GateTile::kRows) *
              (over_pieces ? pieces : 1),
          GateTile::kThreads, GateTile::SharedBytes(a.rows),
          a.rows * (8 + 2 * a.hidden) + 2 * a.experts * a.hidden + out,
          2 * a.rows * a.experts * a.hidden};
}
inline Plan PlanFastGateChoice(const GateTopKArgs& a, bool over_pieces) {
  constexpr int kThreads = FastGateChoiceKernel::kThreads;
  return {a.rows, kThreads, GateChoice<kThreads>::Layout::For(a.experts, a.groups, a.top_k).bytes,
          GateChoiceBytes(a, over_pieces ? GatePieces(a) : 0), 0};
}
// The bytes of the three as separate operations, because others read the data between them too.
inline Plan PlanGateAndSchedule(const GateTopKArgs& a, const ScheduleExpertsArgs& schedule,
                                const ListWorkArgs& list) {
  constexpr int kThreads = GateAndScheduleKernel::kThreads;
  const Plan aebs = PlanFastSchedule(schedule, false);
  const Plan lists = list.active != nullptr ? PlanListWork(list) : Plan{};
  const int64_t choice = GateChoice<kThreads>::Layout::For(a.experts, a.groups, a.top_k).bytes;
  return {a.rows, kThreads, std::max({choice, aebs.shared_bytes, lists.shared_bytes}),
          GateChoiceBytes(a, GatePieces(a)) + aebs.bytes + lists.bytes, 0};
}

}  // namespace janus::kernels::cuda
