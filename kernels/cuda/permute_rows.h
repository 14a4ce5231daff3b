#pragma once

// Rows by row maps, at the rate of a copy: a warp has up to 2 KiB of a row. Vectors of 16 bytes
// where both places lie at multiples of them, else words of 4 or bytes, as the places allow.
// Specification: ../reference/permute_rows.cc

#include "kernels/cuda/row_vectors.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

struct PermuteRowsKernel {
  static constexpr int kThreads = kRowThreads;
  static constexpr int kTurns = 4;  // vectors of a lane, under way together
  static constexpr int kVector = 16;
  static constexpr int kPart = kTurns * kLanes * kVector;
  PermuteRowsArgs a;

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    block.Phase([&](int thread) {
      const RowPart part = PartOfWarp(block.index(), thread, a.row_bytes, kPart);
      const int64_t i = part.row;
      if (i >= a.rows) return;
      const int64_t from = a.x_map != nullptr ? a.x_map[i] : i;
      const int64_t to = a.y_map != nullptr ? a.y_map[i] : i;
      if (from < 0 || from >= a.x_rows || to < 0 || to >= a.y_rows) return;
      const int64_t x_stride = a.x_stride_bytes != 0 ? a.x_stride_bytes : a.row_bytes;
      const int64_t y_stride = a.y_stride_bytes != 0 ? a.y_stride_bytes : a.row_bytes;
      const int lane = thread % kLanes;
      const int64_t first = part.first - lane * kFour;
      const int64_t left = a.row_bytes - first;
      Move((a.x_list != nullptr ? static_cast<const unsigned char*>(a.x_list[from])
                                : static_cast<const unsigned char*>(a.x) + from * x_stride) +
               first,
           (a.y_list != nullptr ? static_cast<unsigned char*>(a.y_list[to])
                                : static_cast<unsigned char*>(a.y) + to * y_stride) +
               first,
           left < kPart ? static_cast<int>(left) : kPart, lane);
    });
  }

 private:
  // A lane's share of so many bytes.
  JANUS_DEVICE static void Move(const unsigned char* x, unsigned char* y, int bytes, int lane) {
    const bool by_vectors = IsAligned(x, kVector) && IsAligned(y, kVector);
    const bool by_words = IsAligned(x, 4) && IsAligned(y, 4);
    const int vectors = by_vectors ? bytes / kVector : 0;
    Words<4> words[kTurns] = {};
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int at = i * kLanes + lane;
      if (at < vectors) words[i] = LoadWords<4>(x + at * kVector);
    }
    JANUS_UNROLL
    for (int i = 0; i < kTurns; ++i) {
      const int at = i * kLanes + lane;
      if (at < vectors) StoreWords(y + at * kVector, words[i]);
    }
    int done = vectors * kVector;
    const int singles = by_words ? (bytes - done) / 4 : 0;
    for (int at = lane; at < singles; at += kLanes) {
      StoreWords(y + done + at * 4, LoadWords<1>(x + done + at * 4));
    }
    done += singles * 4;
    for (int at = done + lane; at < bytes; at += kLanes) y[at] = x[at];
  }
};
inline Plan PlanPermuteRows(const PermuteRowsArgs& a) {
  const int64_t maps = (a.x_map != nullptr ? 4 : 0) + (a.y_map != nullptr ? 4 : 0);
  const int64_t lists = (a.x_list != nullptr ? 8 : 0) + (a.y_list != nullptr ? 8 : 0);
  return PlanRowParts(a.rows, a.row_bytes, PermuteRowsKernel::kPart,
                      a.rows * (2 * a.row_bytes + maps + lists), 0);
}

}  // namespace janus::kernels::cuda
