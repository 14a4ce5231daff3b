#pragma once

// The matrix product of wgmma_tile.h over weights in fp8, with a scale for each block of 128 by
// 128, and in mxfp4 (weight_formats.h). A stage holds them as they lie in memory. A thread converts
// the weights at its places of wgmma's 64-row operand to bfloat16 in registers, from which wgmma
// takes them. Each weight is converted once, because no two warpgroups share weight rows. Rows of
// activations lie in the stage and are multiplied as beside weights in bfloat16.
//
// The operand does not go through shared memory as bfloat16. That would cost 4 bytes a weight,
// written and read again, beside the one or half a byte of the weight. Shared memory is the limit
// of full tiles.
//
// Of each 8 weights a thread has one pair of neighbours, by its lane's number in four. It reads the
// word with its pair (mxfp4: the 32 weights of a block of scales) and picks the bytes as it spreads
// them. So all operands are those of the same numbers in bfloat16, place by place.
//
// A step has two pieces of 32 elements. Each is a group of products from separate registers: one is
// converted while the other is multiplied. Narrow tiles have two steps in a stage, with one
// exception (WgmmaTile::kSteps).
//
// Scales come into the stage with the first of the two steps that use them, so that no warp waits
// for memory: in mxfp4 a word for a row, in fp8 one for either half.
//
// Sums are those of wgmma_tile.h. In fp8 each block of scales, two steps, has such a sum, which one
// fma multiplies by its scale and adds to those before. A warpgroup has to wait for its products
// there. The second of two warpgroups is a step behind, so that they wait in turns and the tensor
// cores always have products.
// Sums of mxfp4 are those of the same numbers in bfloat16 if wgmma adds alike from registers and
// from shared memory. This is assumed, as it is assumed for every number of columns.

#include <bit>

#include "kernels/cuda/wgmma_tile.h"

namespace janus::kernels::cuda {

// Of a thread: its places of a piece of 32 elements, 16 by 16.
struct WgmmaOperands {
  uint32_t of[2][4];
};

// How weights become bfloat16. Turn converts the weights at a thread's places, of piece `piece` of
// step `step` of the stage at `weights`, into to[thread]. PlacesOf finds `places` once for all
// stages.
template <int kBits>
struct WgmmaPacked;

// Where in a stage the first of a thread's places lie, and its scales; what it takes of a word.
struct WgmmaPlaces {
  int at = 0;
  int scales_at = 0;
  uint32_t pick = 0;
};

// fp8 E4M3.
template <>
struct WgmmaPacked<8> {
  // Of either half that of a block, two steps: a float's bits.
  struct Scales {
    uint32_t of[2] = {};
  };
  static constexpr int kScalesOfHalf = kWordBytes;  // bytes from either half's to the other's

  // Of 16 weights, the word with those of the lane: bytes 0 and 1, or 2 and 3, each with its sign
  // in all bits of the byte above it.
  template <class Tile>
  JANUS_DEVICE static WgmmaPlaces PlacesOf(int thread) {
    return {ChunkOffset<Tile::kWeightRowBytes>(thread / kLanes * 16, thread % kLanes / 4, 0) +
                thread % 4 / 2 * 4,
            0, thread % 2 == 0 ? 0x9180u : 0xB3A2u};
  }

  template <class Tile, class Group>
  JANUS_DEVICE static void Turn(Group& group, const unsigned char* weights,
                                PerThread<WgmmaPlaces, Tile::kThreads>& places, int step, int piece,
                                bool, PerThread<Scales, Tile::kThreads>&,
                                PerThread<WgmmaOperands, Tile::kThreads>& to) {
    struct Words {
      uint32_t of[2][4];
    };
    PerThread<Words, Tile::kThreads> words;
    JANUS_UNROLL
    for (int i = 0; i < 2; ++i) {
      JANUS_UNROLL
      for (int place = 0; place < 4; ++place) {
        LoadWord(
            group, [&](int thread) -> uint32_t& { return words[thread].of[i][place]; },
            [&](int thread) {
              // 8 rows on, and 8 weights.
              return weights + (places[thread].at ^ (4 * step + 2 * piece + i) * kCopyBytes) +
                     place % 2 * 8 * Tile::kWeightRowBytes + place / 2 * 8;
            });
      }
    }
    ForThreads(group, [&](int thread) {
      JANUS_UNROLL
      for (int i = 0; i < 2; ++i) {
        JANUS_UNROLL
        for (int place = 0; place < 4; ++place) {
          to[thread].of[i][place] =
              BFloat16OfFloat8(PermuteBytes(words[thread].of[i][place], 0, places[thread].pick));
        }
      }
    });
  }
};

// mxfp4.
template <>
struct WgmmaPacked<4> {
  // Of either half the four that come with two steps.
  struct Scales {
    uint32_t of[2] = {};
  };
  static constexpr int kScalesOfHalf = 8 * WeightFormat<4>::kScaleBytes;

  // Of a block of scales of a row, all 32 weights: of each word the lane's byte.
  template <class Tile>
  JANUS_DEVICE static WgmmaPlaces PlacesOf(int thread) {
    return {ChunkOffset<Tile::kWeightRowBytes>(thread / kLanes * 16, thread % kLanes / 4, 0),
            (thread / kLanes * 16 + thread % kLanes / 4) * WeightFormat<4>::kScaleBytes,
            PickOfMxfp4(static_cast<uint32_t>(thread % 4))};
  }

  // `is_second`: of the two steps that the scales are of.
  template <class Tile, class Group>
  JANUS_DEVICE static void Turn(Group& group, const unsigned char* weights,
                                PerThread<WgmmaPlaces, Tile::kThreads>& places, int step, int piece,
                                bool is_second, PerThread<Scales, Tile::kThreads>& scales,
                                PerThread<WgmmaOperands, Tile::kThreads>& to) {
    struct Words {
      uint32_t of[2][4];
    };
    PerThread<Words, Tile::kThreads> words;
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      LoadFourWords(
          group, [&](int thread) -> uint32_t(&)[4] { return words[thread].of[half]; },
          [&](int thread) {
            return weights + (places[thread].at ^ (2 * step + piece) * kCopyBytes) +
                   half * 8 * Tile::kWeightRowBytes;
          });
    }
    const auto block = static_cast<uint32_t>((is_second ? 2 : 0) + piece);
    group.Threads([&](int thread) {
      const auto turn = [&](auto is_large) {
        constexpr bool kIsLarge = decltype(is_large)::value;
        JANUS_UNROLL
        for (int half = 0; half < 2; ++half) {
          const Mxfp4Factors factors = FactorsOf<kIsLarge>(scales[thread].of[half], block);
          JANUS_UNROLL
          for (int i = 0; i < 4; ++i) {
            to[thread].of[i / 2][half + i % 2 * 2] =
                BFloat16OfMxfp4<kIsLarge>(words[thread].of[half][i], places[thread].pick, factors);
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
  using Places = PerThread<WgmmaPlaces, Tile::kThreads>;

 public:
  template <class Block, class X>
  JANUS_DEVICE static void Run(Block& block, const Halves& w, int rows, int64_t inner, X x,
                               Sums& sums) {
    const int steps = static_cast<int>((inner + Tile::kStep - 1) / Tile::kStep);
    const int stages = (steps + Tile::kSteps - 1) / Tile::kSteps;
    block.Phase([&](int thread) { Rows::Find(block, thread, rows, x); });
    PerThread<Copies, Tile::kThreads> copies;
    Places places;
    block.Phase([&](int thread) {
      copies[thread] = CopiesOf(block, thread, w, rows, inner);
      places[thread] = Packed::template PlacesOf<Tile>(thread);
    });
    const auto fill = [&](auto& group, int number, int stage) {
      if (number >= stages) return;
      unsigned char* const to = block.shared() + stage * Tile::kStageBytes;
      group.Threads([&](int thread) {
        const Copies& own = copies[thread];
        FillWeights(block, to, own, number, inner);
        if (Tile::kSteps == 2 || number % 2 == 0) {
          FillScales(block, ScalesAt(block, stage), thread, own, number, inner);
        }
        FillRows(block, to + Tile::kRowsAt, own, number);
      });
    };
    JANUS_KEEP_LOOP
    for (int i = 0; i < Tile::kAhead; ++i) {
      block.template CopyingGroups<Tile::kAhead - 1>([&](auto& group) { fill(group, i, i); });
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
    const int whole = steps / Tile::kSteps;
    block.template LaggingGroups<Tile::kAhead - 1, Tile::kLag>(
        whole, Stages{Tile::kAhead, 0},
        [&](auto& group, int number, Stages& at) {
          JANUS_UNROLL
          for (int i = 0; i < Tile::kSteps; ++i) {
            Multiply(block, group, number, i, at.read, places, scales, operands, parts, sums);
          }
          at.read = next(at.read);
          fill_ahead(group, number + Tile::kLag * group.index(), at);
          Wait<1>(group);
        },
        fill_ahead);
    if constexpr (Tile::kSteps == 2) {
      // Half of a last stage. Nothing is added for the rest, not even zeros, as beside weights in
      // bfloat16: a sum of -0 would show it.
      JANUS_KEEP_LOOP
      for (int number = whole; number < stages; ++number) {
        block.template CopyingGroups<0>([&](auto& group) {
          Multiply(block, group, number, 0, number % Tile::kStages, places, scales, operands, parts,
                   sums);
          Wait<1>(group);
        });
      }
    }
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
  static_assert(Tile::kWeightRows <= Tile::kThreads && Format::kScaleBytes % kWordBytes == 0);
  static_assert(kScaleBlock == 2 * Tile::kStep && kMxBlock == 32);

  // What a thread brings into each stage, found once: a thread has far more instructions for
  // copies and weights than for products. Bytes, but for rows. That it can: by asynchronous copies.
  struct Copies {
    const uint8_t* weights = nullptr;  // of its row of the first pass
    int weight_stages = 0;             // that have something of its chunk
    int weight_rows = 0;               // from its row on
    int weights_to = 0;                // in a stage
    const uint8_t* scales = nullptr;   // of its row, of fp8 of its half
    int row = 0;                       // of activations, of the first pass
    int rows = 0;                      // from its row on
    int k = 0;                         // of a step
    int steps = 0;                     // that have something of its chunk
    int rows_to = 0;                   // in a step's rows
    bool has_scales = false;
    bool can_weights = true;
    bool can_scales = true;
    bool can_rows = true;
  };
  template <class Block>
  JANUS_DEVICE static Copies CopiesOf(Block& block, int thread, const Halves& w, int rows,
                                      int64_t inner) {
    Copies own;
    const int first_row = thread / kChunks;
    const Half half = HalfOfRow(w, first_row);
    const int64_t row_bytes = inner / Format::kWeights;
    const int chunk_at = thread % kChunks * kCopyBytes;
    own.weights = half.first + Tile::RowOfHalf(first_row) * row_bytes + chunk_at;
    own.weight_stages = CountFrom(chunk_at, row_bytes, Tile::kWeightRowBytes);
    own.weight_rows = half.rows - Tile::RowOfHalf(first_row);
    own.weights_to =
        ChunkOffset<Tile::kWeightRowBytes>(first_row / 8 * 8, first_row % 8, thread % kChunks);
    own.can_weights = Rows::IsAligned(half.first);
    if constexpr (Format::kIsScaled) {
      own.scales = static_cast<const uint8_t*>(thread == 0 ? w[0].scales : w[1].scales);
    } else {
      const Half of = HalfOfRow(w, thread);
      const int row = Tile::RowOfHalf(thread);
      own.has_scales = row < of.rows;
      own.scales =
          static_cast<const uint8_t*>(of.scales) + (own.has_scales ? row * (inner / kMxBlock) : 0);
      own.can_scales = inner % kScaleBlock == 0 && Rows::IsAligned(of.scales, kWordBytes);
    }
    own.row = thread / Rows::kChunks;
    own.rows = rows - own.row;
    own.k = thread % Rows::kChunks * kChunk;
    own.steps = CountFrom(own.k, inner, Tile::kStep);
    own.rows_to = SwizzledOffset(own.row, thread % Rows::kChunks);
    own.can_rows = Rows::CanCopy(block, thread);
    return own;
  }

  // How many of first, first + step, ... are below `end`.
  JANUS_DEVICE static int CountFrom(int first, int64_t end, int step) {
    return first < end ? static_cast<int>((end - first + step - 1) / step) : 0;
  }
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

  // Those of stage `number` of the inner axis. The address of what is not read is whatever comes
  // out; nothing touches it.
  template <class Block>
  JANUS_DEVICE static void FillWeights(Block& block, unsigned char* to, const Copies& own,
                                       int number, int64_t inner) {
    const int64_t row_bytes = inner / Format::kWeights;
    const int64_t at = int64_t{number} * Tile::kWeightRowBytes;
    const int left = number < own.weight_stages ? own.weight_rows : 0;
    const uint8_t* from = own.weights + at;
    if (own.can_weights) {
      JANUS_UNROLL
      for (int i = 0; i < kPasses; ++i) {
        block.CopyAsync(to + own.weights_to + i * kPassBytes, from, i * kPass / 2 < left);
        from += kPass / 2 * row_bytes;
      }
      return;
    }
    JANUS_KEEP_LOOP
    for (int i = 0; i < kPasses; ++i) {
      MoveChunk(to + own.weights_to + i * kPassBytes, from, i * kPass / 2 < left ? kCopyBytes : 0);
      from += kPass / 2 * row_bytes;
    }
  }

  // Of two steps: a thread brings a row's, of fp8 a half's.
  template <class Block>
  JANUS_DEVICE static void FillScales(Block& block, unsigned char* to, int thread,
                                      const Copies& own, int number, int64_t inner) {
    if (thread >= Tile::kScaleStageBytes / kWordBytes) return;
    to += thread * kWordBytes;
    if constexpr (Format::kIsScaled) {
      const int64_t at = int64_t{number} * Tile::kSteps / 2 * kWordBytes;
      block.CopyWordAsync(to, own.scales + at, true);
    } else {
      const int64_t at = int64_t{number} * (Tile::kSteps * Tile::kStep / kMxBlock);
      if (own.can_scales) {
        block.CopyWordAsync(to, own.scales + at, own.has_scales);
        return;
      }
      const int64_t left = own.has_scales ? inner / kMxBlock - at : 0;
      JANUS_KEEP_LOOP
      for (int i = 0; i < Format::kScaleBytes; ++i) to[i] = i < left ? own.scales[at + i] : 0;
    }
  }

  template <class Block>
  JANUS_DEVICE static void FillRows(Block& block, unsigned char* to, const Copies& own,
                                    int number) {
    constexpr int kPassRows = Rows::kPass;
    constexpr int kRowPasses = (Tile::kRows + kPassRows - 1) / kPassRows;
    static_assert(kRowPasses == 1 || Tile::kRows % kPassRows == 0);
    if (Tile::kRows < kPassRows && own.row >= Tile::kRows) return;
    const int64_t k = int64_t{number} * (Tile::kSteps * Tile::kStep) + own.k;
    const uint16_t* const* const first_from = Rows::Of(block) + own.row;
    to += own.rows_to;
    if (own.can_rows) {
      // All of them before the first copy, which the compiler would not load beyond.
      const uint16_t* from[kRowPasses];
      JANUS_UNROLL
      for (int i = 0; i < kRowPasses; ++i) from[i] = first_from[i * kPassRows] + k;
      JANUS_UNROLL
      for (int step = 0; step < Tile::kSteps; ++step) {
        const int left = number * Tile::kSteps + step < own.steps ? own.rows : 0;
        JANUS_UNROLL
        for (int i = 0; i < kRowPasses; ++i) {
          block.CopyAsync(to + step * Tile::kStepRowsBytes + i * Rows::kPassBytes,
                          from[i] + step * Tile::kStep, i * kPassRows < left);
        }
      }
      return;
    }
    JANUS_KEEP_LOOP
    for (int step = 0; step < Tile::kSteps; ++step) {
      const int left = number * Tile::kSteps + step < own.steps ? own.rows : 0;
      JANUS_KEEP_LOOP
      for (int i = 0; i < kRowPasses; ++i) {
        MoveChunk(to + step * Tile::kStepRowsBytes + i * Rows::kPassBytes,
                  first_from[i * kPassRows] + k + step * Tile::kStep,
                  i * kPassRows < left ? kChunk : 0);
      }
    }
  }

  // Starts the product over step `i` of a stage, which is stage `number` of the inner axis, from
  // the registers of either piece: those of the first are free, those of the second with the wait
  // for all groups but the newest.
  template <class Block, class Group>
  JANUS_DEVICE static void Multiply(Block& block, Group& group, int number, int i, int stage,
                                    Places& places, Scales& scales, Operands (&operands)[kPieces],
                                    Sums& parts, Sums& sums) {
    const unsigned char* const weights = block.shared() + stage * Tile::kStageBytes;
    const Matrix b(group, weights + Tile::kRowsAt + i * Tile::kStepRowsBytes);
    // Of the two steps that have scales in common.
    const bool is_second = Tile::kSteps == 2 ? i == 1 : number % 2 == 1;
    if constexpr (Format::kScaleBytes != 0) {
      if (!is_second) LoadScales(group, ScalesAt(block, stage), places, scales);
    }
    JANUS_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      Packed::template Turn<Tile>(group, weights, places, i, piece, is_second, scales,
                                  operands[piece]);
      if constexpr (Format::kIsScaled) {
        if (piece == 0 && !is_second) {
          if (number > 0) {
            Wait<0>(group);
            AddParts(group, scales, parts, sums);
          }
          LoadScales(group, ScalesAt(block, stage), places, scales);
        }
      }
      Fence(group);
      JANUS_UNROLL
      for (int j = 0; j < 2; ++j) {
        MultiplyRegisters<Tile::kRows>(
            group,
            [&](int thread) -> float(&)[Tile::kRows / 2] {
              return Format::kIsScaled ? parts[thread].of : sums[thread].of;
            },
            [&](int thread) -> const uint32_t(&)[4] { return operands[piece][thread].of[j]; },
            b.At(2 * piece + j),
            piece > 0 || j > 0 || (Format::kIsScaled ? is_second : i > 0 || number > 0));
      }
      Commit(group);
      if (piece == 0 || i + 1 < Tile::kSteps) Wait<1>(group);
    }
  }

  template <class Group>
  JANUS_DEVICE static void LoadScales(Group& group, const unsigned char* from, Places& places,
                                      Scales& scales) {
    JANUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      LoadWord(
          group, [&](int thread) -> uint32_t& { return scales[thread].of[half]; },
          [&](int thread) {
            return from + places[thread].scales_at + half * Packed::kScalesOfHalf;
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
        const auto scale = std::bit_cast<float>(scales[thread].of[i / 2 % 2]);
        sum = fmaf(parts[thread].of[i], scale, sum);
      }
    });
  }
};

}  // namespace janus::kernels::cuda
