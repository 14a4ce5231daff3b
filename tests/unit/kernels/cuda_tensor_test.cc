// The host form of products of fragments, loads of matrices from shared memory and asynchronous
// copies: it is what the PTX ISA describes, and finds the errors that it must find.

#include "kernels/cuda/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels::cuda {
namespace {

// Element i of a lane's fragment, as (row, column); after the PTX ISA's formulas for
// mma.m16n8k16, in its words.
struct At {
  int row;
  int column;
};
At OfA(int lane, int i) {
  const int group_id = lane >> 2;
  const int thread_id_in_group = lane % 4;
  const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
  return {upper ? group_id : group_id + 8,
          i < 4 ? thread_id_in_group * 2 + (i & 1) : thread_id_in_group * 2 + (i & 1) + 8};
}
At OfB(int lane, int i) {
  const int group_id = lane >> 2;
  const int thread_id_in_group = lane % 4;
  return {i < 2 ? thread_id_in_group * 2 + (i & 1) : thread_id_in_group * 2 + (i & 1) + 8,
          group_id};
}
At OfC(int lane, int i) {
  const int group_id = lane >> 2;
  const int thread_id_in_group = lane % 4;
  return {i < 2 ? group_id : group_id + 8, thread_id_in_group * 2 + (i & 1)};
}

struct MultiplyKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  const uint16_t (*a)[16];  // [16][16]
  const uint16_t (*b)[8];   // [16][8]
  float (*c)[8];            // [16][8], added to
  template <class Block>
  void operator()(Block& block) const {
    struct Fragments {
      uint32_t a[4];
      uint32_t b[2];
      float c[4];
    };
    block.Warps([&](auto& warp) {
      PerLane<Fragments> of;
      warp.Lanes([&](int lane) {
        for (int i = 0; i < 8; ++i) {
          const At at = OfA(lane, i);
          of[lane].a[i / 2] |= uint32_t{a[at.row][at.column]} << (16 * (i % 2));
        }
        for (int i = 0; i < 4; ++i) {
          const At at_b = OfB(lane, i);
          of[lane].b[i / 2] |= uint32_t{b[at_b.row][at_b.column]} << (16 * (i % 2));
          const At at_c = OfC(lane, i);
          of[lane].c[i] = c[at_c.row][at_c.column];
        }
      });
      MultiplyAdd(
          warp, [&](int lane) -> float(&)[4] { return of[lane].c; },
          [&](int lane) -> const uint32_t* { return of[lane].a; },
          [&](int lane) -> const uint32_t* { return of[lane].b; });
      warp.Lanes([&](int lane) {
        for (int i = 0; i < 4; ++i) c[OfC(lane, i).row][OfC(lane, i).column] = of[lane].c[i];
      });
    });
  }
};

TEST(MultiplyAdd, IsTheProductOfTheFragmentsThatThePtxIsaDescribes) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  uint16_t a[16][16];
  uint16_t b[16][8];
  float c[16][8];
  float wanted[16][8];
  for (auto& row : a) {
    for (uint16_t& value : row) value = ToBFloat16(normal(random));
  }
  for (auto& row : b) {
    for (uint16_t& value : row) value = ToBFloat16(normal(random));
  }
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      c[m][n] = normal(random);
      wanted[m][n] = c[m][n];
      for (int k = 0; k < 16; ++k) {
        wanted[m][n] = std::fma(FromBFloat16(a[m][k]), FromBFloat16(b[k][n]), wanted[m][n]);
      }
    }
  }
  ASSERT_TRUE(Start("Multiply", Stream{}, MultiplyKernel{a, b, c}, {1, 32, 0, 0, 0}).ok());
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) EXPECT_EQ(c[m][n], wanted[m][n]) << m << ' ' << n;
  }
}

// Four fp8 in each lane, numbered by `first` and the lane.
struct ExpandKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  const uint32_t* packed;  // [lane]
  uint32_t (*out)[2];      // [lane]
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      ExpandFloat8(
          warp, [&](int lane) { return packed[lane]; },
          [&](int lane) -> uint32_t& { return out[lane][0]; },
          [&](int lane) -> uint32_t& { return out[lane][1]; });
    });
  }
};

TEST(ExpandFloat8, GivesTheSameValueOfEveryNumberInEveryPlace) {
  for (uint32_t shift = 0; shift < 8; ++shift) {
    uint32_t packed[32];
    uint32_t out[32][2] = {};
    const auto byte = [&](uint32_t lane, uint32_t i) {
      const uint32_t bits = (8 * lane + shift + 37 * i) % 256;
      return bits % 128 == 127 ? 0 : bits;  // no NaN
    };
    for (uint32_t lane = 0; lane < 32; ++lane) {
      packed[lane] = byte(lane, 0) | byte(lane, 1) << 8 | byte(lane, 2) << 16 | byte(lane, 3) << 24;
    }
    ASSERT_TRUE(Start("Expand", Stream{}, ExpandKernel{packed, out}, {1, 32, 0, 0, 0}).ok());
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        const auto got = static_cast<uint16_t>(out[lane][i / 2] >> (16 * (i % 2)));
        const auto bits = static_cast<uint8_t>(byte(lane, i));
        EXPECT_EQ(got, ToBFloat16(FromFloat8E4M3(bits))) << unsigned{bits} << " at " << i;
      }
    }
  }
}

struct TransposeKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  uint32_t* words;  // [lane]
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      TransposeBytes(warp, [&](int lane) -> uint32_t& { return words[lane]; });
    });
  }
};

TEST(TransposeBytes, GivesALaneTheSameByteOfFourLanes) {
  uint32_t words[32];
  for (uint32_t lane = 0; lane < 32; ++lane) words[lane] = 0x03020100u + 0x04040404u * lane;
  ASSERT_TRUE(Start("Transpose", Stream{}, TransposeKernel{words}, {1, 32, 0, 0, 0}).ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(words[lane] >> (8 * i) & 255u, 4 * (lane / 4 * 4 + i) + lane % 4) << lane;
    }
  }
}

template <bool kIsLarge>
void ExpectMxfp4(uint32_t scale, uint32_t block) {
  const auto wanted = [&](uint32_t code) {
    return ToBFloat16(FromFloat4E2M1(static_cast<uint8_t>(code)) *
                      FromE8M0(static_cast<uint8_t>(scale)));
  };
  const uint32_t rest = 0x5A5A5A5Au & ~(255u << (8 * block));
  const auto factors = FactorsOf<kIsLarge>(rest | scale << (8 * block), block);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t pair = wanted(byte % 16) | static_cast<uint32_t>(wanted(byte / 16)) << 16;
    const uint32_t others = 0x9C3F81E6u;  // which must not show
    EXPECT_EQ((BFloat16OfMxfp4<kIsLarge, 0>((others & ~0xFFu) | byte, factors)), pair) << scale;
    EXPECT_EQ((BFloat16OfMxfp4<kIsLarge, 1>((others & ~0xFF00u) | byte << 8, factors)), pair);
    EXPECT_EQ((BFloat16OfMxfp4<kIsLarge, 2>((others & ~0xFF0000u) | byte << 16, factors)), pair);
    EXPECT_EQ((BFloat16OfMxfp4<kIsLarge, 3>((others & ~0xFF000000u) | byte << 24, factors)), pair);
  }
}

TEST(BFloat16OfMxfp4, GivesTheSameValueOfEveryByteUnderEveryScale) {
  for (uint32_t scale = 0; scale <= kMaxMxScale; ++scale) {
    for (uint32_t block = 0; block < 4; ++block) {
      if (scale < 128) ExpectMxfp4<false>(scale, block);
      ExpectMxfp4<true>(scale, block);
    }
  }
}

// Four 8 x 8 matrices of numbered elements, with `pitch` bytes from row to row.
struct LoadKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  int pitch;
  uint32_t (*out)[4];  // [lane]
  bool transposed = false;
  template <class Block>
  void operator()(Block& block) const {
    block.Phase([&](int thread) {
      auto* const row = reinterpret_cast<uint16_t*>(block.shared() + thread * pitch);
      for (int i = 0; i < 8; ++i) row[i] = static_cast<uint16_t>(8 * thread + i);
    });
    block.Warps([&](auto& warp) {
      const auto to = [&](int lane) -> uint32_t(&)[4] { return out[lane]; };
      const auto from = [&](int lane) { return block.shared() + lane * pitch; };
      if (transposed) {
        LoadTransposed(warp, to, from);
      } else {
        LoadMatrices(warp, to, from);
      }
    });
  }
};

TEST(LoadMatrices, GivesALaneTwoElementsOfARowOfEachMatrix) {
  uint32_t out[32][4] = {};
  ASSERT_TRUE(Start("Load", Stream{}, LoadKernel{16, out}, {1, 32, 32 * 16, 0, 0}).ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint32_t first = 64 * matrix + 8 * (lane / 4) + 2 * (lane % 4);
      EXPECT_EQ(out[lane][matrix], first | (first + 1) << 16) << lane << ' ' << matrix;
    }
  }
}

// After the PTX ISA: with .trans a lane has two elements of a column, of rows one below the other.
TEST(LoadTransposed, GivesALaneTwoElementsOfAColumnOfEachMatrix) {
  uint32_t out[32][4] = {};
  ASSERT_TRUE(Start("Load", Stream{}, LoadKernel{16, out, true}, {1, 32, 32 * 16, 0, 0}).ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint32_t upper = 64 * matrix + 8 * (2 * (lane % 4)) + lane / 4;
      EXPECT_EQ(out[lane][matrix], upper | (upper + 8) << 16) << lane << ' ' << matrix;
    }
  }
}

TEST(LoadMatrices, CountsMatricesWhoseRowsShareBanks) {
  uint32_t out[32][4] = {};
  for (const bool transposed : {false, true}) {
    const auto conflicts = [&](int pitch) {
      const int64_t before = host_bank_conflicts;
      EXPECT_TRUE(Start("Load", Stream{}, LoadKernel{pitch, out, transposed},
                        {1, 32, int64_t{32} * pitch, 0, 0})
                      .ok());
      return host_bank_conflicts - before;
    };
    EXPECT_EQ(conflicts(16), 0);
    EXPECT_EQ(conflicts(128 + 16), 0);
    EXPECT_EQ(conflicts(128), 4);
    EXPECT_EQ(conflicts(64), 4);
  }
}

struct NeighboursKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  int pitch;  // from lane to lane
  uint32_t (*out)[2];
  template <class Block>
  void operator()(Block& block) const {
    block.Phase([&](int thread) {
      auto* const words = reinterpret_cast<uint32_t*>(block.shared() + thread * pitch);
      words[0] = static_cast<uint32_t>(2 * thread);
      words[1] = words[0] + 1;
    });
    block.Warps([&](auto& warp) {
      LoadNeighbours(
          warp, [&](int lane) -> uint32_t(&)[2] { return out[lane]; },
          [&](int lane) { return block.shared() + lane * pitch; });
    });
  }
};

TEST(LoadNeighbours, GivesALaneItsEightBytesAndCountsHalfWarpsThatShareBanks) {
  uint32_t out[32][2] = {};
  const auto conflicts = [&](int pitch) {
    const int64_t before = host_bank_conflicts;
    EXPECT_TRUE(Start("Neighbours", Stream{}, NeighboursKernel{pitch, out},
                      {1, 32, int64_t{32} * pitch, 0, 0})
                    .ok());
    for (uint32_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(out[lane][0], 2 * lane);
      EXPECT_EQ(out[lane][1], 2 * lane + 1);
    }
    return host_bank_conflicts - before;
  };
  EXPECT_EQ(conflicts(8), 0);
  EXPECT_EQ(conflicts(128 + 8), 0);
  EXPECT_EQ(conflicts(16), 2);
  EXPECT_EQ(conflicts(128), 2);
}

// Copies `steps` groups of 16 bytes one after the other through a shared buffer of as many. Reads
// each after the wait that follows `behind` groups later.
template <int kPending>
struct CopyKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  const uint32_t* numbers;  // [4 * steps]
  uint32_t* seen;           // [4 * steps]
  int steps;
  int behind;
  bool read = true;
  template <class Block>
  void operator()(Block& block) const {
    auto* const shared = reinterpret_cast<uint32_t*>(block.shared());
    for (int step = 0; step < steps; ++step) {
      block.template CopyingWarps<kPending>([&](auto& warp) {
        warp.Lanes([&](int lane) {
          if (lane == 0) block.CopyAsync(shared + 4 * step, numbers + 4 * step, read);
        });
      });
      if (step < behind) continue;
      block.Phase([&](int thread) {
        const int at = 4 * (step - behind) + thread;
        if (thread < 4) seen[at] = shared[at];
      });
    }
  }
};

template <int kPending>
std::vector<uint32_t> Seen(int behind, bool read = true) {
  alignas(16) static const uint32_t numbers[16] = {1, 2,  3,  4,  5,  6,  7,  8,
                                                   9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<uint32_t> seen(16);
  NextOrder();
  EXPECT_TRUE(Start("Copy", Stream{}, CopyKernel<kPending>{numbers, seen.data(), 4, behind, read},
                    {1, 32, 64, 0, 0})
                  .ok());
  seen.resize(static_cast<size_t>(16 - 4 * behind));
  return seen;
}

TEST(CopyAsync, IsThereAfterTheWaitThatLetsItsGroupThrough) {
  std::vector<uint32_t> numbers(16);
  std::iota(numbers.begin(), numbers.end(), 1);
  EXPECT_EQ(Seen<0>(0), numbers);
  numbers.resize(8);
  EXPECT_EQ(Seen<2>(2), numbers);
  EXPECT_EQ(Seen<0>(0, false), std::vector<uint32_t>(16, 0));
}

TEST(CopyAsync, IsNaNWhereTheWaitIsOneGroupShort) {
  EXPECT_EQ(Seen<1>(0), std::vector<uint32_t>(16, ~0u));
  EXPECT_EQ(Seen<3>(2), std::vector<uint32_t>(8, ~0u));
}

struct AstrayKernel {
  [[maybe_unused]] static constexpr int kThreads = kLanes;
  const unsigned char* from;
  int to;
  bool is_word = false;
  template <class Block>
  void operator()(Block& block) const {
    block.template CopyingWarps<0>([&](auto& warp) {
      warp.Lanes([&](int lane) {
        if (lane != 3) return;
        if (is_word) {
          block.CopyWordAsync(block.shared() + to, from, true);
        } else {
          block.CopyAsync(block.shared() + to, from, true);
        }
      });
    });
  }
};

TEST(CopyAsyncDeathTest, ACrookedOrForeignAddressEndsTheProcess) {
  alignas(16) static const unsigned char bytes[32] = {};
  const Plan plan{1, 32, 64, 0, 0};
  const auto run = [&](const unsigned char* from, int to, bool is_word = false) {
    return Start("Astray", Stream{}, AstrayKernel{from, to, is_word}, plan).ok();
  };
  EXPECT_TRUE(run(bytes, 48));
  EXPECT_DEATH((void)run(bytes + 8, 0), "from.*kBytes");
  EXPECT_DEATH((void)run(bytes, 8), "shared_.*kBytes");
  EXPECT_DEATH((void)run(bytes, 64), "shared_bytes_");
  EXPECT_TRUE(run(bytes + 4, 60, true));
  EXPECT_DEATH((void)run(bytes + 2, 0, true), "from.*kBytes");
  EXPECT_DEATH((void)run(bytes, 2, true), "shared_.*kBytes");
  EXPECT_DEATH((void)run(bytes, 64, true), "shared_bytes_");
}

}  // namespace
}  // namespace janus::kernels::cuda
