#pragma once

// RMSNorm at the rate of a copy: a piece is read once and kept in registers until its sum is known.
// Specification: ../reference/rms_norm.cc
//
// The order of a piece's sum follows from its length H alone. W lanes share it: 16 up to 64
// elements, 32 up to 1,024, else 256. A lane takes four neighbours, the next lane the next four,
// and so on in turns. A lane adds the squares of its elements in order, each by one fma, to a sum
// that begins at 0. Lanes l and l ^ m then add up, for m from 16 (8 where W is 16) down to 1. Of
// 256 lanes, the sums of 32 each are added from the first to the last. With s = 1 / sqrt(sum / H +
// epsilon) an element is x * s * weight, multiplied in this order.

#include <cmath>

#include "kernels/cuda/row_vectors.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp.h"

namespace janus::kernels::cuda {

inline constexpr int kMostWarpNorm = 1024;  // elements of a piece that a warp or less has

// Where a piece lies.
struct NormPiece {
  const float* x;
  void* y;
};
JANUS_DEVICE inline NormPiece NormPieceOf(const RmsNormArgs& a, uint32_t piece) {
  const auto groups = static_cast<uint32_t>(a.groups);
  const int64_t t = piece / groups;
  const int64_t g = piece % groups;
  const int64_t row = a.groups * a.hidden;
  return {a.x + t * (a.x_stride != 0 ? a.x_stride : row) + g * a.hidden,
          static_cast<unsigned char*>(a.y) +
              (t * (a.y_stride != 0 ? a.y_stride : row) + g * a.hidden) * SizeOf(a.y_dtype)};
}

JANUS_DEVICE inline bool GoesByVectors(const RmsNormArgs& a) {
  return GoesByVectors(a.x, DType::kFloat32, a.hidden, a.x_stride) &&
         GoesByVectors(a.y, a.y_dtype, a.hidden, a.y_stride) &&
         GoesByVectors(a.weight, a.weight_dtype, a.hidden, a.hidden);
}

template <bool kByVectors>
JANUS_DEVICE inline Four LoadOfNorm(const NormPiece& piece, int64_t h, int64_t hidden) {
  return FourOf(LoadFourWords<4, kByVectors>(piece.x, h, hidden), DType::kFloat32);
}

JANUS_DEVICE inline float AddSquares(float sum, const Four& four) {
  JANUS_UNROLL
  for (int i = 0; i < kFour; ++i) sum = fmaf(four.of[i], four.of[i], sum);
  return sum;
}

JANUS_DEVICE inline float NormScale(const RmsNormArgs& a, float sum) {
  return 1.0f / sqrtf(sum / static_cast<float>(a.hidden) + a.epsilon);
}

// Stores kCount fours of a piece; number `turn` begins at element element_of(turn). Four weights
// are loaded at the same time.
template <bool kByVectors, int kWords, int kCount, class ElementOf>
JANUS_DEVICE inline void StoreNormedOf(const RmsNormArgs& a, const NormPiece& piece, float scale,
                                       const Four* x, ElementOf element_of) {
  constexpr int kAtOnce = kCount < 4 ? kCount : 4;
  static_assert(kCount % kAtOnce == 0);
  JANUS_UNROLL
  for (int first = 0; first < kCount; first += kAtOnce) {
    Words<kWords> words[kAtOnce];
    JANUS_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      words[i] = LoadFourWords<kWords, kByVectors>(a.weight, element_of(first + i), a.hidden);
    }
    JANUS_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const Four weight = FourOf(words[i], a.weight_dtype);
      Four y;
      JANUS_UNROLL
      for (int j = 0; j < kFour; ++j) y.of[j] = x[first + i].of[j] * scale * weight.of[j];
      StoreFour<kByVectors>(piece.y, a.y_dtype, element_of(first + i), a.hidden, y);
    }
  }
}
template <bool kByVectors, int kCount, class ElementOf>
JANUS_DEVICE inline void StoreNormed(const RmsNormArgs& a, const NormPiece& piece, float scale,
                                     const Four* x, ElementOf element_of) {
  if (a.weight_dtype == DType::kFloat32) {
    StoreNormedOf<kByVectors, 4, kCount>(a, piece, scale, x, element_of);
  } else {
    StoreNormedOf<kByVectors, 2, kCount>(a, piece, scale, x, element_of);
  }
}

// Adds every lane's float over each group of kWidth lanes; all lanes of the group get the sum.
template <int kWidth, class Warp, class Sum>
JANUS_DEVICE void AddLanes(Warp& warp, Sum sum) {
  JANUS_UNROLL
  for (int mask = kWidth / 2; mask > 0; mask /= 2) {
    warp.Exchange(
        mask, [&](int lane) { return sum(lane); },
        [&](int lane, float theirs) { sum(lane) += theirs; });
  }
}

// Pieces of up to kHidden elements, 64 to 1,024: a warp has one, or several at the same time.
template <int kHidden>
struct FastNormPiecesKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kWidth = kHidden <= 64 ? 16 : kLanes;
  static constexpr int kTurns = kHidden / (kWidth * kFour);    // of a lane, over a piece
  static constexpr int kAtOnce = kTurns < 4 ? 4 / kTurns : 1;  // pieces of a lane
  static constexpr int kPieces = kAtOnce * (kLanes / kWidth);  // of a warp
  RmsNormArgs a;

  struct Held {
    Four x[kAtOnce][kTurns];
    float sum[kAtOnce];
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    GoesByVectors(a) ? Run<true>(block) : Run<false>(block);
  }

 private:
  template <bool kByVectors, class Block>
  JANUS_DEVICE void Run(Block& block) const {
    block.Warps([&](auto& warp) {
      const auto first =
          (static_cast<uint32_t>(block.index()) * kRowWarps + static_cast<uint32_t>(warp.index())) *
          kPieces;
      const auto pieces = static_cast<uint32_t>(a.rows * a.groups);
      const auto piece_of = [&](int lane, int p) {
        return first + static_cast<uint32_t>(p * (kLanes / kWidth) + lane / kWidth);
      };
      const auto element_of = [](int lane, int turn) {
        return static_cast<int64_t>((turn * kWidth + lane % kWidth) * kFour);
      };
      PerLane<Held> held;
      warp.Lanes([&](int lane) {
        Held& mine = held[lane];
        JANUS_UNROLL
        for (int p = 0; p < kAtOnce; ++p) {
          if (piece_of(lane, p) >= pieces) continue;
          const NormPiece piece = NormPieceOf(a, piece_of(lane, p));
          JANUS_UNROLL
          for (int i = 0; i < kTurns; ++i) {
            mine.x[p][i] = LoadOfNorm<kByVectors>(piece, element_of(lane, i), a.hidden);
          }
        }
        JANUS_UNROLL
        for (int p = 0; p < kAtOnce; ++p) {
          mine.sum[p] = 0.0f;
          JANUS_UNROLL
          for (int i = 0; i < kTurns; ++i) mine.sum[p] = AddSquares(mine.sum[p], mine.x[p][i]);
        }
      });
      JANUS_UNROLL
      for (int p = 0; p < kAtOnce; ++p) {
        AddLanes<kWidth>(warp, [&](int lane) -> float& { return held[lane].sum[p]; });
      }
      // y may be x: a lane writes only what it alone reads.
      warp.Lanes([&](int lane) {
        const Held& mine = held[lane];
        JANUS_UNROLL
        for (int p = 0; p < kAtOnce; ++p) {
          if (piece_of(lane, p) >= pieces) continue;
          const NormPiece piece = NormPieceOf(a, piece_of(lane, p));
          const float scale = NormScale(a, mine.sum[p]);
          StoreNormed<kByVectors, kTurns>(a, piece, scale, mine.x[p],
                                          [&](int turn) { return element_of(lane, turn); });
        }
      });
    });
  }
};
template <int kHidden>
Plan PlanFastNormPieces(const RmsNormArgs& a) {
  using Kernel = FastNormPiecesKernel<kHidden>;
  const Plan plain = PlanRmsNorm(a);
  const int64_t pieces = a.rows * a.groups;
  // More than 32 bits count are more than a launch takes.
  const int64_t blocks =
      pieces > kMaxBlocks ? pieces : CeilDiv(pieces, kRowWarps * Kernel::kPieces);
  return {blocks, Kernel::kThreads, 0, plain.bytes, plain.flops};
}

// Block per piece, of more than kMostWarpNorm elements. What exceeds kHeld is read again.
struct FastNormKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kLanes;
  static constexpr int kTurns = 8;
  static constexpr int kStep = kThreads * kFour;
  static constexpr int kHeld = kTurns * kStep;
  RmsNormArgs a;

  struct Held {
    Four x[kTurns];
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    GoesByVectors(a) ? Run<true>(block) : Run<false>(block);
  }

 private:
  template <bool kByVectors, class Block>
  JANUS_DEVICE void Run(Block& block) const {
    const NormPiece piece = NormPieceOf(a, static_cast<uint32_t>(block.index()));
    const auto load = [&](int64_t h) { return LoadOfNorm<kByVectors>(piece, h, a.hidden); };
    const auto element_of = [](int thread, int turn) {
      return static_cast<int64_t>(turn * kStep + thread * kFour);
    };
    auto* const partial = reinterpret_cast<float*>(block.shared());
    PerThread<Held, kThreads> held;
    block.Warps([&](auto& warp) {
      PerLane<float> sum;
      warp.Lanes([&](int lane) {
        const int thread = warp.index() * kLanes + lane;
        Held& mine = held[thread];
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) mine.x[i] = load(element_of(thread, i));
        float mine_sum = 0.0f;
        JANUS_UNROLL
        for (int i = 0; i < kTurns; ++i) mine_sum = AddSquares(mine_sum, mine.x[i]);
        JANUS_KEEP_LOOP
        for (int64_t h = kHeld + thread * kFour; h < a.hidden; h += kStep) {
          mine_sum = AddSquares(mine_sum, load(h));
        }
        sum[lane] = mine_sum;
      });
      AddLanes<kLanes>(warp, [&](int lane) -> float& { return sum[lane]; });
      warp.Lanes([&](int lane) {
        if (lane == 0) partial[warp.index()] = sum[lane];
      });
    });
    // y may be x: a thread writes only what it alone reads.
    block.Phase([&](int thread) {
      float sum = partial[0];
      JANUS_UNROLL
      for (int w = 1; w < kWarps; ++w) sum += partial[w];
      const float scale = NormScale(a, sum);
      const Held& mine = held[thread];
      StoreNormed<kByVectors, kTurns>(a, piece, scale, mine.x,
                                      [&](int turn) { return element_of(thread, turn); });
      JANUS_KEEP_LOOP
      for (int64_t h = kHeld + thread * kFour; h < a.hidden; h += kStep) {
        const Four more = load(h);
        StoreNormed<kByVectors, 1>(a, piece, scale, &more, [&](int) { return h; });
      }
    });
  }
};
inline Plan PlanFastNorm(const RmsNormArgs& a) {
  const Plan plain = PlanRmsNorm(a);
  return {a.rows * a.groups, FastNormKernel::kThreads, FastNormKernel::kWarps * 4, plain.bytes,
          plain.flops};
}

}  // namespace janus::kernels::cuda
