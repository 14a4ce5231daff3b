#pragma once

// Rotary embedding at the rate of a copy: a block has some rows, or a part of one row's heads. Its
// threads start their loads, compute the cosines and sines of the angles once for the block
// meanwhile, and then rotate the pairs. Specification: ../reference/rope.cc
//
// The bits of a pair follow from its two elements, its position, its frequency and the factor
// alone. The angle is rounded to fp32; CosSin is arithmetic of this file, not a library's; factor
// times cosine and sine are rounded from double to fp32; v*s and u*s are rounded, then u*c and v*c
// are added to them by one fma.

#include <cmath>

#include "kernels/cuda/row_vectors.h"
#include "kernels/cuda/rows.h"

namespace janus::kernels::cuda {

// From this angle on results are NaN. A position times a frequency of at most 1 is below it.
inline constexpr double kMostAngle = 0x1p31;

// In double, within 1e-13: what is left beside multiples of pi/2, in two parts, goes into the
// Taylor polynomials of degree 13 and 14.
JANUS_DEVICE inline void CosSin(float angle, double* cosine, double* sine) {
  const double x = angle;
  const double n = rint(x * 0x1.45f306dc9c883p-1);
  double r = fma(n, -0x1.921fb54442d18p+0, x);
  r = fma(n, -0x1.1a62633145c07p-54, r);
  const double z = r * r;
  double s = fma(z, 1.0 / 6227020800.0, -1.0 / 39916800.0);
  s = fma(z, s, 1.0 / 362880.0);
  s = fma(z, s, -1.0 / 5040.0);
  s = fma(z, s, 1.0 / 120.0);
  s = fma(z, s, -1.0 / 6.0);
  s = fma(r * z, s, r);
  double c = fma(z, -1.0 / 87178291200.0, 1.0 / 479001600.0);
  c = fma(z, c, -1.0 / 3628800.0);
  c = fma(z, c, 1.0 / 40320.0);
  c = fma(z, c, -1.0 / 720.0);
  c = fma(z, c, 1.0 / 24.0);
  c = fma(z, c, -0.5);
  c = fma(z, c, 1.0);
  if (!(fabs(x) < kMostAngle)) {
    *cosine = *sine = NAN;
    return;
  }
  const auto quadrant = static_cast<int64_t>(n) & 3;
  const bool is_odd = (quadrant & 1) != 0;
  const double first = is_odd ? s : c;
  const double second = is_odd ? c : s;
  *cosine = quadrant == 1 || quadrant == 2 ? -first : first;
  *sine = quadrant >= 2 ? -second : second;
}

// How rows are dealt to blocks. A unit is what a thread rotates at once: four pairs of halves, two
// times four neighbours; or two interleaved pairs, four neighbours.
struct RopeTile {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 4;  // units of a thread, under way together
  static constexpr int kUnits = kThreads * kTurns;
  int64_t row_units = 0;
  int rows = 0;       // of a block; more than one where their units are few
  int64_t parts = 0;  // blocks of a row
};
constexpr RopeTile RopeTileOf(const RopeArgs& a) {
  const int half = a.rotary_dim / 2;
  const int pairs = a.pairing == RopePairing::kInterleaved ? kFour / 2 : kFour;
  RopeTile tile;
  tile.row_units = a.heads * CeilDiv(half, pairs);
  // No more angles than threads, and twice as many units at most.
  const int64_t rows = tile.row_units == 0 ? 1 : 2 * RopeTile::kThreads / tile.row_units;
  const int64_t angles = half == 0 ? 1 : RopeTile::kThreads / half;
  const int64_t fewer = rows < angles ? rows : angles;
  tile.rows = fewer < 1 ? 1 : static_cast<int>(fewer);
  tile.parts = CeilDiv(tile.row_units, RopeTile::kUnits);
  return tile;
}

template <bool kIsInterleaved>
struct FastRopeKernel {
  static constexpr int kThreads = RopeTile::kThreads;
  static constexpr int kTurns = RopeTile::kTurns;
  static constexpr int kPairs = kIsInterleaved ? kFour / 2 : kFour;  // of a unit
  static constexpr int kVectors = kIsInterleaved ? 1 : 2;
  RopeArgs a;
  RopeTile tile;

  struct Held {
    Words<4> of[kTurns][kVectors];
  };
  struct Unit {
    float* head;
    int pair;   // its first
    int angle;  // of that pair, among the block's
  };

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    // Vectors begin at multiples of 4 of a head.
    const bool by_vectors = a.rotary_dim / 2 % kPairs == 0 &&
                            GoesByVectors(a.x, DType::kFloat32, a.head_dim, a.row_stride);
    by_vectors ? Run<true>(block) : Run<false>(block);
  }

 private:
  template <bool kByVectors, class Block>
  JANUS_DEVICE void Run(Block& block) const {
    const int half = a.rotary_dim / 2;
    const auto parts = static_cast<uint32_t>(tile.parts);
    const auto index = static_cast<uint32_t>(block.index());
    const int64_t t0 = static_cast<int64_t>(index / parts) * tile.rows;
    const int64_t first_unit = static_cast<int64_t>(index % parts) * RopeTile::kUnits;
    const int rows = a.rows - t0 < tile.rows ? static_cast<int>(a.rows - t0) : tile.rows;
    const int64_t left = rows * tile.row_units - first_unit;
    auto* const cosines = reinterpret_cast<float*>(block.shared());
    float* const sines = cosines + tile.rows * half;
    PerThread<Held, kThreads> held;
    block.Phase([&](int thread) {
      JANUS_UNROLL
      for (int i = 0; i < kTurns; ++i) {
        if (!kByVectors || i * kThreads + thread >= left) continue;
        const Unit unit = UnitAt(t0, first_unit + i * kThreads + thread);
        JANUS_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          held[thread].of[i][v] = LoadWords<4>(VectorOf(unit, v));
        }
      }
      for (int at = thread; at < rows * half; at += kThreads) {
        const float angle = static_cast<float>(a.positions[t0 + at / half]) * a.inv_freq[at % half];
        double c = 0.0;
        double s = 0.0;
        CosSin(angle, &c, &s);
        cosines[at] = static_cast<float>(c * a.attention_factor);
        sines[at] = static_cast<float>(s * a.attention_factor);
      }
    });
    block.Phase([&](int thread) {
      JANUS_UNROLL
      for (int i = 0; i < kTurns; ++i) {
        if (i * kThreads + thread >= left) continue;
        const Unit unit = UnitAt(t0, first_unit + i * kThreads + thread);
        if constexpr (kByVectors) {
          TurnVectors(unit, held[thread].of[i], cosines, sines);
        } else {
          TurnPairs(unit, cosines, sines);
        }
      }
    });
  }

  JANUS_DEVICE Unit UnitAt(int64_t t0, int64_t unit) const {
    const int half = a.rotary_dim / 2;
    const auto across = static_cast<uint32_t>((half + kPairs - 1) / kPairs);
    const auto row_units = static_cast<uint32_t>(tile.row_units);
    const auto row = static_cast<uint32_t>(unit) / row_units;
    const uint32_t in_row = static_cast<uint32_t>(unit) % row_units;
    const int64_t stride = a.row_stride != 0 ? a.row_stride : int64_t{a.heads} * a.head_dim;
    Unit at;
    at.head = a.x + (t0 + row) * stride + static_cast<int64_t>(in_row / across) * a.head_dim;
    at.pair = static_cast<int>(in_row % across) * kPairs;
    at.angle = static_cast<int>(row) * half + at.pair;
    return at;
  }
  JANUS_DEVICE float* VectorOf(const Unit& unit, int v) const {
    return kIsInterleaved ? unit.head + 2 * unit.pair
                          : unit.head + unit.pair + v * (a.rotary_dim / 2);
  }
  JANUS_DEVICE static void Turn(float& u, float& v, float c, float s) {
    const float turned = fmaf(u, c, -(v * s));
    v = fmaf(v, c, u * s);
    u = turned;
  }
  JANUS_DEVICE void TurnVectors(const Unit& unit, const Words<4> (&words)[kVectors],
                                const float* cosines, const float* sines) const {
    Four x[kVectors];
    JANUS_UNROLL
    for (int v = 0; v < kVectors; ++v) x[v] = FourOf(words[v], DType::kFloat32);
    JANUS_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      float& first = kIsInterleaved ? x[0].of[2 * p % kFour] : x[0].of[p];
      float& second = kIsInterleaved ? x[0].of[(2 * p + 1) % kFour] : x[kVectors - 1].of[p];
      Turn(first, second, cosines[unit.angle + p], sines[unit.angle + p]);
    }
    JANUS_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      StoreFour<true>(VectorOf(unit, v), DType::kFloat32, 0, kFour, x[v]);
    }
  }
  JANUS_DEVICE void TurnPairs(const Unit& unit, const float* cosines, const float* sines) const {
    const int half = a.rotary_dim / 2;
    JANUS_KEEP_LOOP
    for (int p = 0; p < kPairs && unit.pair + p < half; ++p) {
      const int i = unit.pair + p;
      float& first = unit.head[kIsInterleaved ? 2 * i : i];
      float& second = unit.head[kIsInterleaved ? 2 * i + 1 : i + half];
      Turn(first, second, cosines[unit.angle + p], sines[unit.angle + p]);
    }
  }
};

inline Plan PlanFastRope(const RopeArgs& a) {
  const RopeTile tile = RopeTileOf(a);
  const Plan plain = PlanRope(a);
  return {CeilDiv(a.rows, tile.rows) * tile.parts, RopeTile::kThreads,
          int64_t{8} * tile.rows * (a.rotary_dim / 2), plain.bytes, plain.flops};
}

// Up to which half of rotary_dim the angles of a row find room.
inline constexpr int kMostFastRotary = static_cast<int>(kMaxSharedBytes / 4);
constexpr bool HasFastRope(const RopeArgs& a) {
  return a.rotary_dim <= kMostFastRotary && a.heads <= kMaxBlocks / kMostFastRotary;
}

}  // namespace janus::kernels::cuda
