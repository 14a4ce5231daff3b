#pragma once

// The matrix product of wgmma_tile.h over weights in fp8, with a scale for each block of 128 by
// 128, and in mxfp4 (weight_formats.h). They come into a stage as they lie in memory. A thread
// turns those of its places of wgmma's 64-row operand into bfloat16 in registers, from which wgmma
// takes them: once, since each warpgroup has weight rows of its own. Rows of activations lie in the
// stage and are multiplied as beside weights in bfloat16.
//
// Why registers and not bfloat16 in shared memory: it would be written there and read again, 4
// bytes for each weight beside the one or half a byte that comes in, where shared memory is what
// full tiles are bound by.
//
// A thread's places are pairs of neighbours, of each 8 weights the one of its lane's number in
// four. It reads the word that has its pair, of mxfp4 the 32 weights of a block of scales, and
// picks the bytes as it spreads them. So all operands are those of the same numbers in bfloat16,
// place by place.
//
// A step has two pieces of 32 elements, each a group of products from registers of its own: one is
// turned while the other is multiplied.
//
// Sums are those of wgmma_tile.h. Of fp8 so is the sum of each block of scales, two steps, which is
// added, times its scale, to those before it, by fma; a warpgroup has to wait for its products
// there. The second of two is a step behind, so that they wait in turns and the tensor cores have
// the other's.
// Sums of mxfp4 are those of the same numbers in bfloat16 if wgmma adds alike, be its operand in
// registers or in shared memory, which is assumed as is that it does so for every number of
// columns.

#include "kernels/cuda/wgmma_tile.h"

namespace janus::kernels::cuda {

// Of a thread: its places of a piece of 32 elements, 16 by 16.
struct WgmmaOperands {
  uint32_t of[2][4];
};

// How a thread's places of a stage's packed weights become bfloat16: piece `piece` of step `step`.
template <int kBits>
struct WgmmaPacked;

// fp8 E4M3.
template <>
struct WgmmaPacked<8> {
  using Scales = WeightFormat<8>::Scales;

  template <class Tile, class Group>
  JANUS_DEVICE static void Turn(Group& group, const unsigned char* weights, int, int piece,
                                PerThread<Scales, Tile::kThreads>&,
                                PerThread<WgmmaOperands, Tile::kThreads>& to) {
    JANUS_UNROLL
    for (int i = 0; i < 2; ++i) {
      JANUS_UNROLL
      for (int place = 0; place < 4; ++place) {
        PerThread<uint32_t, Tile::kThreads> four;
        LoadWord(
            group, [&](int thread) -> uint32_t& { return four[thread]; },
            [&](int thread) {
              const int lane = thread % kLanes;
              // Of 16 weights; the upper places of a row are 8 weights on.
              return weights +
                     ChunkOffset<Tile::kWeightRowBytes>(thread / kLanes * 16 + place % 2 * 8,
                                                        lane / 4, 2 * piece + i) +
                     place / 2 * 8 + lane % 4 / 2 * 4;
            });
        ForThreads(group, [&](int thread) {
          // Bytes 0 and 1, or 2 and 3, each with its sign in all bits of the byte above it.
          const uint32_t pair = thread % 2 == 0 ? 0x9180u : 0xB3A2u;
          to[thread].of[i][place] = BFloat16OfFloat8(PermuteBytes(four[thread], 0, pair));
        });
      }
    }
  }
};

// mxfp4.
template <>
struct WgmmaPacked<4> {
  // Of either half the four that come with two steps.
  struct Scales {
    uint32_t of[2] = {};
  };

  template <class Tile, class Group>
  JANUS_DEVICE static void Turn(Group& group, const unsigned char* weights, int step, int piece,
                                PerThread<Scales, Tile::kThreads>& scales,
                                PerThread<WgmmaOperands, Tile::kThreads>& to) {
    struct Block {
      uint32_t of[4];
    };
    struct Blocks {
      Block of[2];
    };
    PerThread<Blocks, Tile::kThreads> packed;
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      LoadFourWords(
          group, [&](int thread) -> uint32_t(&)[4] { return packed[thread].of[half].of; },
          [&](int thread) {
            return weights + ChunkOffset<Tile::kWeightRowBytes>(thread / kLanes * 16 + half * 8,
                                                                thread % kLanes / 4, piece);
          });
    }
    const auto block = static_cast<uint32_t>(step % 2 * 2 + piece);
    group.Threads([&](int thread) {
      const auto pair = static_cast<uint32_t>(thread % 4);
      const auto turn = [&](auto is_large) {
        constexpr bool kIsLarge = decltype(is_large)::value;
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const Mxfp4Factors factors = FactorsOf<kIsLarge>(scales[thread].of[half], block);
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            to[thread].of[i / 2][half + i % 2 * 2] =
                BFloat16OfMxfp4<kIsLarge>(packed[thread].of[half].of[i], pair, factors);
          }
        }
      };
      // Scales from 2 on, which no weights of a model are known to have, take another factor.
      const uint32_t any = scales[thread].of[0] | scales[thread].of[1];
      if ((any & 0x80808080u) == 0) {
        turn(std::false_type{});
      } else {
        turn(std::true_type{});
      }
    });
  }
};

// As WgmmaProduct.
template <class Tile>
class PackedProduct {
  using Rows = WgmmaRows<Tile>;
  using Format = typename Tile::Format;
  using Packed = WgmmaPacked<Tile::kBits>;
  using Half = WeightHalf<uint8_t>;
  using Halves = Half[2];
  using Sums = PerThread<typename Tile::Sums, Tile::kThreads>;
  using Scales = PerThread<typename Packed::Scales, Tile::kThreads>;
  using Operands = PerThread<WgmmaOperands, Tile::kThreads>;

 public:
  template <class Block, class X>
  JANUS_DEVICE static void Run(Block& block, const Halves& w, int rows, int64_t inner, X x,
                               Sums& sums) {
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    block.Phase([&](int thread) { Rows::Find(block, thread, rows, x); });
    // Whether asynchronous copies can read what a thread brings.
    PerThread<CanCopy, Tile::kThreads> can_copy;
    block.Phase([&](int thread) {
      const void* const scales = HalfOfRow(w, thread).scales;
      can_copy[thread] = {Rows::IsAligned(HalfOfRow(w, thread / kChunks).first),
                          Rows::CanCopy(block, thread),
                          inner % (2 * Tile::kStep) == 0 && Rows::IsAligned(scales, kWordBytes)};
    });
    const auto fill = [&](auto& group, int step, int stage) {
      if (step >= steps) return;
      unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
      group.Threads([&](int thread) {
        const CanCopy& can = can_copy[thread];
        FillWeights(block, to, thread, step, w, inner, can.weights);
        if (Format::kScaleBytes != 0 && step % 2 == 0) {
          FillScales(block, ScalesAt(block, stage), thread, step, w, inner, can.scales);
        }
        Rows::Fill(block, to + Tile::kRowsAt, thread, step, rows, inner, can.rows);
      });
    };
    JANUS_KEEP_LOOP
    for (int step = 0; step < Tile::kAhead; ++step) {
      block.template CopyingGroups<Tile::kAhead - 1>([&](auto& group) { fill(group, step, step); });
    }
    struct Stages {
      int filled;  // the next that is filled
      int read;    // the next that the warpgroup multiplies
    };
    const auto next = [](int stage) { return stage + 1 == Tile::kStages ? 0 : stage + 1; };
    const auto fill_ahead = [&](auto& group, int turn, Stages& at) {
      fill(group, turn + Tile::kAhead, at.filled);
      at.filled = next(at.filled);
    };
    Scales scales;
    Operands operands[kPieces];
    Sums parts;  // of a block of scales
    block.template LaggingGroups<Tile::kAhead - 1, Tile::kLag>(
        steps, Stages{Tile::kAhead, 0},
        [&](auto& group, int step, Stages& at) {
          Multiply(block, group, step, at.read, w, scales, operands, parts, sums);
          at.read = next(at.read);
          fill_ahead(group, step + Tile::kLag * group.index(), at);
          Wait<1>(group);
        },
        fill_ahead);
    block.template CopyingGroups<0>([&](auto& group) {
      Wait<0>(group);
      if constexpr (Format::kIsScaled) AddParts(group, scales, parts, sums);
    });
  }

 private:
  static constexpr int kChunks = Tile::kWeightRowBytes / kCopyBytes;
  // A pass of all threads brings a chunk of each of so many weight rows.
  static constexpr int kPass = Tile::kThreads / kChunks;
  static constexpr int kPasses = Tile::kWeightRows / kPass;
  static constexpr int kPassBytes = kPass * Tile::kWeightRowBytes;
  static constexpr int kPieces = 2;
  // So rows of all passes are of one half, and their chunks lie alike.
  static_assert(kPass % 16 == 0 && Tile::kWeightRows % kPass == 0);
  static_assert(Tile::kWeightRows <= Tile::kThreads);
  static_assert(kScaleBlock == 2 * Tile::kStep && kMxBlock == 32);

  struct CanCopy {
    bool weights = true;
    bool rows = true;
    bool scales = true;
  };

  // That of row `row` of the stage's weights. Word by word, as HalfOfThread.
  JANUS_DEVICE static Half HalfOfRow(const Halves& w, int row) {
    const bool is_second = Tile::HalfOf(row) != 0;
    return {is_second ? w[1].first : w[0].first, is_second ? w[1].rows : w[0].rows,
            is_second ? w[1].scales : w[0].scales};
  }
  template <class Block>
  JANUS_DEVICE static unsigned char* ScalesAt(Block& block, int stage) {
    return block.shared() + Tile::kScalesAt + stage * Tile::kScaleStageBytes;
  }

  // The address of what is not read is whatever comes out; nothing touches it.
  template <class Block>
  JANUS_DEVICE static void FillWeights(Block& block, unsigned char* to, int thread, int step,
                                       const Halves& w, int64_t inner, bool in_chunks) {
    const int first_row = thread / kChunks;
    const int chunk = thread % kChunks;
    const Half half = HalfOfRow(w, first_row);
    const int64_t row_bytes = inner / Format::kWeights;
    const int64_t at = int64_t{step} * Tile::kWeightRowBytes + chunk * kCopyBytes;
    const int left = at < row_bytes ? half.rows - Tile::RowOfHalf(first_row) : 0;
    const uint8_t* from = half.first + Tile::RowOfHalf(first_row) * row_bytes + at;
    unsigned char* const first_to =
        to + ChunkOffset<Tile::kWeightRowBytes>(first_row / 8 * 8, first_row % 8, chunk);
    if (in_chunks) {
      JANUS_UNROLL
      for (int i = 0; i < kPasses; ++i) {
        block.CopyAsync(first_to + i * kPassBytes, from, i * kPass / 2 < left);
        from += kPass / 2 * row_bytes;
      }
      return;
    }
    JANUS_KEEP_LOOP
    for (int i = 0; i < kPasses; ++i) {
      MoveChunk(first_to + i * kPassBytes, from, i * kPass / 2 < left ? kCopyBytes : 0);
      from += kPass / 2 * row_bytes;
    }
  }

  // Those of steps `step`, an even one, and the next: a thread brings a row's.
  template <class Block>
  JANUS_DEVICE static void FillScales(Block& block, unsigned char* to, int thread, int step,
                                      const Halves& w, int64_t inner, bool in_words) {
    if (thread >= Tile::kWeightRows) return;
    const Half half = HalfOfRow(w, thread);
    const int row = Tile::RowOfHalf(thread);
    const int64_t of_row = inner / kMxBlock;
    const int64_t at = int64_t{step} * (Tile::kStep / kMxBlock);
    const auto* const from = static_cast<const uint8_t*>(half.scales) + row * of_row + at;
    to += thread * Format::kScaleBytes;
    if (in_words) {
      block.CopyWordAsync(to, from, row < half.rows);
      return;
    }
    JANUS_KEEP_LOOP
    for (int i = 0; i < Format::kScaleBytes; ++i) {
      to[i] = row < half.rows && i < of_row - at ? from[i] : 0;
    }
  }

  // Starts the product over one stage, from the registers of either piece: those of the first are
  // free, those of the second with the wait for all groups but the newest.
  template <class Block, class Group>
  JANUS_DEVICE static void Multiply(Block& block, Group& group, int step, int stage,
                                    const Halves& w, Scales& scales, Operands (&operands)[kPieces],
                                    Sums& parts, Sums& sums) {
    const unsigned char* const shared = block.shared() + stage * Tile::kStageBytes;
    const unsigned char* const weights = shared;
    const Matrix b(group, shared + Tile::kRowsAt);
    const bool is_first = step % 2 == 0;  // of a block of scales
    if constexpr (Format::kScaleBytes != 0) {
      if (is_first) LoadScales(group, ScalesAt(block, stage), scales);
    }
    JANUS_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      Packed::template Turn<Tile>(group, weights, step, piece, scales, operands[piece]);
      if constexpr (Format::kIsScaled) {
        if (piece == 0 && is_first) {
          if (step > 0) {
            Wait<0>(group);
            AddParts(group, scales, parts, sums);
          }
          ForThreads(group, [&](int thread) { scales[thread] = Format::ScalesOf(w, step / 2); });
        }
      }
      Fence(group);
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        MultiplyRegisters<Tile::kRows>(
            group,
            [&](int thread) -> float(&)[Tile::kRows / 2] {
              return Format::kIsScaled ? parts[thread].of : sums[thread].of;
            },
            [&](int thread) -> const uint32_t(&)[4] { return operands[piece][thread].of[i]; },
            b.At(2 * piece + i), piece > 0 || i > 0 || (Format::kIsScaled ? !is_first : step > 0));
      }
      Commit(group);
      if (piece == 0) Wait<1>(group);
    }
  }

  template <class Group>
  JANUS_DEVICE static void LoadScales(Group& group, const unsigned char* from, Scales& scales) {
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      LoadWord(
          group, [&](int thread) -> uint32_t& { return scales[thread].of[half]; },
          [&](int thread) {
            const int row = thread / kLanes * 16 + half * 8 + thread % kLanes / 4;
            return from + row * Format::kScaleBytes;
          });
    }
  }

  // sums += parts, each times the scale of its half.
  template <class Group>
  JANUS_DEVICE static void AddParts(Group& group, Scales& scales, Sums& parts, Sums& sums) {
    ForThreads(group, [&](int thread) {
      JANUS_UNROLL
      for (int i = 0; i < Tile::kRows / 2; ++i) {
        float& sum = sums[thread].of[i];
        sum = fmaf(parts[thread].of[i], scales[thread].of[i / 2 % 2], sum);
      }
    });
  }
};

}  // namespace janus::kernels::cuda
