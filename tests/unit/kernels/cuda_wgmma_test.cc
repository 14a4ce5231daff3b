// The host form of wgmma: descriptors and fragments are what the PTX ISA describes, and it finds
// the errors that it must find.

#include "kernels/cuda/wgmma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels::cuda {
namespace {

// A canonical layout of the PTX ISA, K-major, for 16-bit elements, in its words: offsets are in
// elements, T = 8, Swizzle<bits, 4, 3> of bytes.
struct Canonical {
  int bits;     // of the swizzle: 0 none, 3 128 bytes
  int stride;   // SBO in bytes
  int leading;  // LBO in bytes, without swizzle

  // ((8,m),(T,2k)):((8T,SBO),(1,T)), with 4T, 2T, 1T for the smaller swizzles; without swizzle the
  // last is LBO.
  int ByteOf(int row, int k) const {
    constexpr int kT = 8;
    const int of_row = (1 << bits) * kT * 2;
    const int of_second = bits == 0 ? leading : kT * 2;
    const int plain = row % 8 * of_row + row / 8 * stride + k % kT * 2 + k / kT * of_second;
    const int mask = (1 << bits) - 1;
    return plain ^ ((plain >> 7 & mask) << 4);
  }
  // 1: 128 bytes, 2: 64, 3: 32.
  uint64_t Descriptor(uint32_t address) const {
    const uint64_t mode = bits == 0 ? 0 : static_cast<uint64_t>(4 - bits);
    const auto encode = [](uint32_t x) { return uint64_t{(x & 0x3FFFFu) >> 4}; };
    return encode(address) | encode(bits == 0 ? static_cast<uint32_t>(leading) : 16u) << 16 |
           encode(static_cast<uint32_t>(stride)) << 32 | mode << 62;
  }
};
constexpr Canonical kSwizzled128{3, 1024, 0};

constexpr int kBAt = 32 << 10;  // in shared memory
constexpr int kSharedBytes = 96 << 10;

// d (+)= a b over `inner` elements, 16 after 16, by one warpgroup of several.
template <int kColumns>
struct ProductKernel {
  [[maybe_unused]] static constexpr int kThreads = 2 * kGroupThreads;
  [[maybe_unused]] static constexpr int64_t kAskedSharedBytes = kSharedBytes;
  const uint16_t* a;  // [64,inner]
  const uint16_t* b;  // [columns,inner]
  float* d;           // [64,columns], of the second group; the first has none
  int inner;
  bool add;
  Canonical layout = kSwizzled128;
  bool by_matrix = false;
  bool in_registers = false;  // a

  template <class Block>
  void operator()(Block& block) const {
    block.template CopyingGroups<0>([&](auto& group) {
      group.Threads([&](int thread) {
        if (thread != 3) return;
        for (int k = 0; k < inner; ++k) {
          for (int row = 0; row < 64; ++row) Put(block, layout.ByteOf(row, k), a[row * inner + k]);
          for (int n = 0; n < kColumns; ++n) {
            Put(block, kBAt + layout.ByteOf(n, k), b[n * inner + k]);
          }
        }
      });
    });
    struct Sums {
      float of[kColumns / 2];
    };
    PerThread<Sums, kThreads> sums;
    const auto at = [&](int thread, int i) -> float& {
      const int t = thread % kGroupThreads;
      // The PTX ISA's figure of the accumulator of m64nN, warp by warp.
      const int row = 16 * (t / 32) + (t % 32 >> 2) + (i % 4 < 2 ? 0 : 8);
      const int column = (i >> 2) * 8 + (t % 4) * 2 + (i & 1);
      return d[row * kColumns + column];
    };
    block.template CopyingGroups<0>([&](auto& group) {
      if (group.index() == 0) return;
      group.Threads([&](int thread) {
        for (int i = 0; i < kColumns / 2; ++i) sums[thread].of[i] = at(thread, i);
      });
      struct Places {
        uint32_t of[4][4];  // of 16 elements each
      };
      PerThread<Places, kThreads> places;
      group.Threads([&](int thread) {
        if (!in_registers) return;
        const int t = thread % kGroupThreads;
        for (int i = 0; i < inner / 16 * 4; ++i) {
          // The PTX ISA's figure of a of m64k16, warp by warp.
          const int row = 16 * (t / 32) + (t % 32 >> 2) + (i % 2 == 0 ? 0 : 8);
          const int column = i / 4 * 16 + (t % 4) * 2 + (i % 4 < 2 ? 0 : 8);
          places[thread].of[i / 4][i % 4] =
              a[row * inner + column] | uint32_t{a[row * inner + column + 1]} << 16;
        }
      });
      const Matrix matrix_a(group, block.shared());
      const Matrix matrix_b(group, block.shared() + kBAt);
      Fence(group);
      for (int k = 0; k < inner; k += 16) {
        // Each half of a row's 16 elements is a chunk; of what is swizzled they follow one another.
        const int advance = layout.bits == 0 ? k / 8 * layout.leading : 2 * k;
        const auto descriptor = [&](int first, const Matrix& matrix) {
          if (by_matrix) return matrix.At(k / 16);
          return layout.Descriptor(group.SharedAddress(block.shared() + first + advance));
        };
        const auto sums_of = [&](int thread) -> float(&)[kColumns / 2] { return sums[thread].of; };
        if (in_registers) {
          MultiplyRegisters<kColumns>(
              group, sums_of,
              [&](int thread) -> const uint32_t(&)[4] { return places[thread].of[k / 16]; },
              descriptor(kBAt, matrix_b), add || k > 0);
          continue;
        }
        MultiplyAsync<kColumns>(group, sums_of, descriptor(0, matrix_a), descriptor(kBAt, matrix_b),
                                add || k > 0);
      }
      Commit(group);
      Wait<0>(group);
      group.Threads([&](int thread) {
        for (int i = 0; i < kColumns / 2; ++i) at(thread, i) = sums[thread].of[i];
      });
    });
  }

 private:
  template <class Block>
  static void Put(Block& block, int at, uint16_t value) {
    std::memcpy(block.shared() + at, &value, 2);
  }
};

template <int kColumns>
void ExpectProduct(const Canonical& layout, int inner, bool add, bool by_matrix = false,
                   bool in_registers = false) {
  std::mt19937_64 random(static_cast<uint64_t>(inner));
  std::normal_distribution<float> normal;
  std::vector<uint16_t> a(static_cast<size_t>(64 * inner));
  std::vector<uint16_t> b(static_cast<size_t>(kColumns * inner));
  for (uint16_t& value : a) value = ToBFloat16(normal(random));
  for (uint16_t& value : b) value = ToBFloat16(normal(random));
  std::vector<float> d(64 * kColumns);
  std::vector<float> wanted(64 * kColumns);
  for (size_t i = 0; i < d.size(); ++i) {
    d[i] = normal(random);
    float sum = add ? d[i] : 0.0f;
    for (int k = 0; k < inner; ++k) {
      sum = std::fma(
          FromBFloat16(a[i / kColumns * static_cast<size_t>(inner) + static_cast<size_t>(k)]),
          FromBFloat16(b[i % kColumns * static_cast<size_t>(inner) + static_cast<size_t>(k)]), sum);
    }
    wanted[i] = sum;
  }
  NextOrder();
  const int64_t conflicts = host_bank_conflicts;
  const ProductKernel<kColumns> kernel{a.data(), b.data(), d.data(),  inner,
                                       add,      layout,   by_matrix, in_registers};
  ASSERT_TRUE(Start("Product", Stream{}, kernel, {1, 256, kSharedBytes, 0, 0}).ok());
  EXPECT_EQ(d, wanted) << kColumns << ' ' << inner << ' ' << layout.bits;
  EXPECT_EQ(host_bank_conflicts, conflicts);
}

TEST(Wgmma, IsTheProductOfTheMatricesThatThePtxIsaDescribes) {
  for (const bool by_matrix : {false, true}) {
    for (const int inner : {16, 64}) {
      ExpectProduct<8>(kSwizzled128, inner, true, by_matrix);
      ExpectProduct<16>(kSwizzled128, inner, false, by_matrix);
      ExpectProduct<192>(kSwizzled128, inner, true, by_matrix);
      ExpectProduct<256>(kSwizzled128, inner, false, by_matrix);
    }
  }
  ExpectProduct<32>({2, 512, 0}, 32, true);
  ExpectProduct<32>({1, 256, 0}, 16, true);
  ExpectProduct<32>({0, 128, 64 * 16}, 48, true);
  ExpectProduct<32>({0, 256, 128}, 16, true);
}

TEST(Wgmma, TakesTheFragmentThatThePtxIsaDescribesFromRegisters) {
  for (const int inner : {16, 64}) {
    ExpectProduct<8>(kSwizzled128, inner, true, true, true);
    ExpectProduct<32>(kSwizzled128, inner, false, false, true);
    ExpectProduct<192>(kSwizzled128, inner, true, true, true);
  }
  ExpectProduct<32>({0, 256, 128}, 16, true, false, true);
}

// 16-byte copies must put the chunks of a row at these places.
TEST(Wgmma, SwizzledOffsetIsTheCanonicalLayoutOf128Bytes) {
  for (int row = 0; row < 64; ++row) {
    for (int k = 0; k < 64; ++k) {
      EXPECT_EQ(SwizzledOffset(row, k / 8) + k % 8 * 2, kSwizzled128.ByteOf(row, k));
    }
  }
}

// b turned: N-major of the PTX ISA with a swizzle of 128 bytes, in its words
// ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)).
struct CanonicalTurned {
  int leading;  // LBO in bytes
  int stride;   // SBO in bytes

  int ByteOf(int n, int k) const {
    constexpr int kT = 8;
    const int plain = n % kT * 2 + n / kT % 8 * (kT * 2) + n / (8 * kT) * leading +
                      k % 8 * (8 * kT * 2) + k / 8 * stride;
    return plain ^ ((plain >> 7 & 7) << 4);
  }
  uint64_t Descriptor(uint32_t address) const {
    const auto encode = [](uint32_t x) { return uint64_t{(x & 0x3FFFFu) >> 4}; };
    return encode(address) | encode(static_cast<uint32_t>(leading)) << 16 |
           encode(static_cast<uint32_t>(stride)) << 32 | uint64_t{1} << 62;
  }
};
constexpr int kPieceBytes = 8 << 10;  // 64 rows of 64 columns

// d = a b, b turned, over 64 elements of the inner axis by the second warpgroup.
template <int kColumns>
struct TurnedProductKernel {
  [[maybe_unused]] static constexpr int kThreads = 2 * kGroupThreads;
  [[maybe_unused]] static constexpr int64_t kAskedSharedBytes = kSharedBytes;
  static constexpr int kInner = 64;
  const uint16_t* a;  // [64,64]
  const uint16_t* b;  // [64,columns]
  float* d;           // [64,columns]
  CanonicalTurned layout;
  bool by_matrix;

  template <class Block>
  void operator()(Block& block) const {
    block.template CopyingGroups<0>([&](auto& group) {
      group.Threads([&](int thread) {
        if (thread != 3) return;
        const auto put = [&](int at, uint16_t value) {
          std::memcpy(block.shared() + at, &value, 2);
        };
        for (int k = 0; k < kInner; ++k) {
          for (int row = 0; row < 64; ++row) {
            put(kSwizzled128.ByteOf(row, k), a[row * kInner + k]);
          }
          for (int n = 0; n < kColumns; ++n) put(kBAt + layout.ByteOf(n, k), b[k * kColumns + n]);
        }
      });
    });
    struct Sums {
      float of[kColumns / 2];
    };
    PerThread<Sums, kThreads> sums;
    block.template CopyingGroups<0>([&](auto& group) {
      if (group.index() == 0) return;
      const auto registers = [&](int thread) -> float(&)[kColumns / 2] { return sums[thread].of; };
      const Matrix matrix_a(group, block.shared());
      const TurnedMatrix<kPieceBytes> matrix_b(group, block.shared() + kBAt);
      Settle(group, registers);
      Fence(group);
      for (int k = 0; k < kInner / 16; ++k) {
        const uint64_t descriptor = by_matrix ? matrix_b.At(k)
                                              : layout.Descriptor(group.SharedAddress(
                                                    block.shared() + kBAt + 2 * k * layout.stride));
        MultiplyAsync<kColumns, true>(group, registers, matrix_a.At(k), descriptor, k > 0);
      }
      Commit(group);
      Wait<0>(group);
      group.Threads([&](int thread) {
        const int t = thread % kGroupThreads;
        for (int i = 0; i < kColumns / 2; ++i) {
          const int row = 16 * (t / 32) + (t % 32 >> 2) + (i % 4 < 2 ? 0 : 8);
          d[row * kColumns + (i >> 2) * 8 + (t % 4) * 2 + (i & 1)] = sums[thread].of[i];
        }
      });
    });
  }
};

template <int kColumns>
void ExpectTurnedProduct(const CanonicalTurned& layout, bool by_matrix = false) {
  constexpr int kInner = 64;
  std::mt19937_64 random(kColumns);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> a(64 * kInner);
  std::vector<uint16_t> b(static_cast<size_t>(kColumns) * kInner);
  for (uint16_t& value : a) value = ToBFloat16(normal(random));
  for (uint16_t& value : b) value = ToBFloat16(normal(random));
  std::vector<float> d(64 * kColumns);
  std::vector<float> wanted(64 * kColumns);
  for (size_t i = 0; i < d.size(); ++i) {
    for (size_t k = 0; k < kInner; ++k) {
      wanted[i] = std::fma(FromBFloat16(a[i / kColumns * kInner + k]),
                           FromBFloat16(b[k * kColumns + i % kColumns]), wanted[i]);
    }
  }
  NextOrder();
  const int64_t conflicts = host_bank_conflicts;
  const TurnedProductKernel<kColumns> kernel{a.data(), b.data(), d.data(), layout, by_matrix};
  ASSERT_TRUE(Start("TurnedProduct", Stream{}, kernel, {1, 256, kSharedBytes, 0, 0}).ok());
  EXPECT_EQ(d, wanted) << kColumns << ' ' << layout.leading << ' ' << layout.stride;
  EXPECT_EQ(host_bank_conflicts, conflicts);
}

TEST(Wgmma, TakesATurnedOperandAsThePtxIsaDescribesIt) {
  for (const bool by_matrix : {false, true}) {
    ExpectTurnedProduct<256>({kPieceBytes, 1024}, by_matrix);
    ExpectTurnedProduct<64>({kPieceBytes, 1024}, by_matrix);
    ExpectTurnedProduct<40>({kPieceBytes, 1024}, by_matrix);
  }
  // Groups of 8 rows far apart, the next 64 columns behind each.
  ExpectTurnedProduct<256>({1024, 4096});
  ExpectTurnedProduct<128>({2048, 4096});
}

// A key block of attention is multiplied both ways: as it lies for scores, turned for values.
TEST(Wgmma, ATurnedRowIsARowOfSwizzledOffset) {
  for (int row = 0; row < 64; ++row) {
    for (int n = 0; n < 64; ++n) {
      EXPECT_EQ(SwizzledOffset(row, n / 8) + n % 8 * 2, (CanonicalTurned{0, 1024}.ByteOf(n, row)));
    }
  }
}

TEST(Wgmma, CountsMatricesWhoseRowsShareBanks) {
  std::vector<uint16_t> a(64 * 16);
  std::vector<uint16_t> b(8 * 16);
  std::vector<float> d(64 * 8);
  const auto conflicts = [&](const Canonical& layout) {
    const int64_t before = host_bank_conflicts;
    EXPECT_TRUE(Start("Product", Stream{},
                      ProductKernel<8>{a.data(), b.data(), d.data(), 16, true, layout},
                      {1, 256, kSharedBytes, 0, 0})
                    .ok());
    return host_bank_conflicts - before;
  };
  EXPECT_EQ(conflicts(kSwizzled128), 0);
  EXPECT_EQ(conflicts({1, 256, 0}), 0);
}

// Errors of a kernel of one warpgroup, step by step. Multiplies ones by ones.
struct StepsKernel {
  [[maybe_unused]] static constexpr int kThreads = kGroupThreads;
  [[maybe_unused]] static constexpr int64_t kAskedSharedBytes = kSharedBytes;
  struct Sums {
    float of[4];
  };
  using AllSums = PerThread<Sums, kThreads>;
  std::function<void(HostBlock&, AllSums&)> steps;
  template <class Block>
  void operator()(Block& block) const {
    block.template CopyingGroups<0>([&](auto& group) {
      group.Threads([&](int thread) {
        for (int i = thread; i < kSharedBytes / 2; i += kThreads) {
          reinterpret_cast<uint16_t*>(block.shared())[i] = 0x3F80;
        }
      });
    });
    AllSums sums;
    steps(block, sums);
  }
};

using Group = HostGroup;
using AllSums = StepsKernel::AllSums;
void RunSteps(const std::function<void(HostBlock&, AllSums&)>& steps) {
  NextOrder();
  ASSERT_TRUE(
      Start("Steps", Stream{}, StepsKernel{steps}, {1, kGroupThreads, kSharedBytes, 0, 0}).ok());
}
void RunInGroup(const std::function<void(HostBlock&, Group&, AllSums&)>& steps) {
  RunSteps([&](HostBlock& block, AllSums& sums) {
    block.CopyingGroups<0>([&](Group& group) { steps(block, group, sums); });
  });
}
void Start8(HostBlock& block, Group& group, AllSums& sums, bool add = false) {
  MultiplyAsync<8>(
      group, [&](int thread) -> float(&)[4] { return sums[thread].of; },
      Matrix(group, block.shared()).At(0), Matrix(group, block.shared() + kBAt).At(0), add);
}

TEST(Wgmma, GivesItsResultsWithTheWaitForTheirGroupAndNotBefore) {
  for (int i = 0; i < 20; ++i) {
    RunInGroup([&](HostBlock& block, Group& group, AllSums& sums) {
      Fence(group);
      Start8(block, group, sums);
      Commit(group);
      EXPECT_TRUE(std::isnan(sums[5].of[2]));
      Fence(group);
      Start8(block, group, sums, true);
      Commit(group);
      Wait<2>(group);
      EXPECT_TRUE(std::isnan(sums[5].of[2]));
      Wait<1>(group);
      EXPECT_TRUE(std::isnan(sums[5].of[2])) << "the second is under way";
      Wait<0>(group);
      EXPECT_EQ(sums[5].of[2], 32.0f);
    });
  }
}

// An operand that is overwritten before the wait is multiplied in some orders, and in some not.
TEST(Wgmma, ReadsItsOperandsAtAnyTimeUntilTheWait) {
  int before = 0;
  for (int i = 0; i < 200; ++i) {
    RunInGroup([&](HostBlock& block, Group& group, AllSums& sums) {
      Fence(group);
      Start8(block, group, sums);
      Commit(group);
      group.Threads([&](int thread) {
        if (thread == 0) reinterpret_cast<uint16_t*>(block.shared())[0] = 0x4000;
      });
      Wait<0>(group);
      before += sums[0].of[0] == 16.0f ? 1 : 0;
      EXPECT_TRUE(sums[0].of[0] == 16.0f || sums[0].of[0] == 17.0f);
    });
  }
  EXPECT_GT(before, 50);
  EXPECT_LT(before, 150);
}

struct Ones {
  uint32_t of[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
};
void StartRegisters(HostBlock& block, Group& group, AllSums& sums,
                    PerThread<Ones, kGroupThreads>& ones) {
  MultiplyRegisters<8>(
      group, [&](int thread) -> float(&)[4] { return sums[thread].of; },
      [&](int thread) -> const uint32_t(&)[4] { return ones[thread].of; },
      Matrix(group, block.shared() + kBAt).At(0), false);
}

// The same for registers.
TEST(Wgmma, ReadsItsRegistersAtAnyTimeUntilTheWait) {
  int before = 0;
  for (int i = 0; i < 200; ++i) {
    PerThread<Ones, kGroupThreads> ones;
    RunInGroup([&](HostBlock& block, Group& group, AllSums& sums) {
      Fence(group);
      StartRegisters(block, group, sums, ones);
      Commit(group);
      ones[0].of[0] = 0x3F804000u;
      Wait<0>(group);
      before += sums[0].of[0] == 16.0f ? 1 : 0;
      EXPECT_TRUE(sums[0].of[0] == 16.0f || sums[0].of[0] == 17.0f);
      EXPECT_EQ(sums[0].of[2], 16.0f);  // 8 rows on
    });
  }
  EXPECT_GT(before, 50);
  EXPECT_LT(before, 150);
}

// What threads read of shared memory: a warp's words, which may be the same, or 8 of its lanes' 16
// bytes.
TEST(Wgmma, CountsLoadsThatShareBanks) {
  const auto conflicts = [](auto load) {
    const int64_t before = host_bank_conflicts;
    RunInGroup([&](HostBlock& block, Group& group, AllSums&) { load(block, group); });
    return host_bank_conflicts - before;
  };
  const auto words = [&](int stride, int lanes) {
    return conflicts([&](HostBlock& block, Group& group) {
      PerThread<uint32_t, kGroupThreads> word;
      LoadWord(
          group, [&](int thread) -> uint32_t& { return word[thread]; },
          [&](int thread) { return block.shared() + thread / lanes * stride; });
      EXPECT_EQ(word[77], 0x3F803F80u);
    });
  };
  EXPECT_EQ(words(4, 1), 0);
  EXPECT_EQ(words(8, 2), 0);
  EXPECT_EQ(words(128, 4), 4);
  EXPECT_EQ(words(8, 1), 4);
  const auto fours = [&](int stride, int lanes) {
    return conflicts([&](HostBlock& block, Group& group) {
      PerThread<Ones, kGroupThreads> four;
      LoadFourWords(
          group, [&](int thread) -> uint32_t(&)[4] { return four[thread].of; },
          [&](int thread) { return block.shared() + thread / lanes * stride; });
    });
  };
  EXPECT_EQ(fours(16, 1), 0);
  EXPECT_EQ(fours(64, 4), 0);
  EXPECT_EQ(fours(128, 4), 16);
}

// The second of two warpgroups is a turn behind. It idles in its first turn, as the first one does
// in its last turn. All of them meet at the same barriers.
struct LaggingKernel {
  [[maybe_unused]] static constexpr int kThreads = 2 * kGroupThreads;
  std::vector<int>* seen;  // group * 100 + step, or -1 - turn
  template <class Block>
  void operator()(Block& block) const {
    std::vector<int> of_group[2];
    block.template LaggingGroups<0, 1>(
        3, int{40},
        [&](auto& group, int step, int& state) {
          of_group[group.index()].push_back(100 * step + state++);
        },
        [&](auto& group, int turn, int& state) {
          of_group[group.index()].push_back(-1 - turn);
          state += 10;
        });
    for (const auto& of : of_group) seen->insert(seen->end(), of.begin(), of.end());
  }
};
TEST(HostBlock, LaggingGroupsWorkOneAfterTheOther) {
  NextOrder();
  std::vector<int> seen;
  ASSERT_TRUE(Start("Lagging", Stream{}, LaggingKernel{&seen}, {1, 256, 0, 0, 0}).ok());
  EXPECT_EQ(seen, (std::vector<int>{40, 141, 242, -4, -1, 50, 151, 252}));
}

TEST(WgmmaDeathTest, AMissingFenceOrWaitEndsTheProcess) {
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 PerThread<Ones, kGroupThreads> ones;
                 StartRegisters(block, group, sums, ones);
                 Commit(group);
                 Wait<0>(group);
               }),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 Start8(block, group, sums);
                 Commit(group);
                 Wait<0>(group);
               }),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 Fence(group);
                 Start8(block, group, sums);
                 Commit(group);
                 Start8(block, group, sums, true);
               }),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 Fence(group);
                 Start8(block, group, sums);
                 Commit(group);
               }),
               "AreDone");
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 Fence(group);
                 Start8(block, group, sums);
                 Wait<0>(group);
               }),
               "open_");
  // wgmma does not see what a phase wrote.
  EXPECT_DEATH(RunSteps([](HostBlock& block, AllSums& sums) {
                 block.Phase([](int) {});
                 block.CopyingGroups<0>([&](Group& group) {
                   Fence(group);
                   Start8(block, group, sums);
                 });
               }),
               "sees_shared_");
}

TEST(WgmmaDeathTest, ARegisterThatIsTouchedUnderWayEndsTheProcess) {
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 Fence(group);
                 Start8(block, group, sums);
                 Commit(group);
                 sums[77].of[3] = 0.0f;
                 Wait<0>(group);
               }),
               "kPoison");
  EXPECT_DEATH(RunInGroup([](HostBlock& block, Group& group, AllSums& sums) {
                 group.Threads([&](int thread) {
                   if (thread == 0) Fence(group);
                 });
                 (void)block, (void)sums;
               }),
               "inside_");
}

// Between the fence and a product, where the tensor cores may not see it.
TEST(WgmmaDeathTest, RegistersThatAreTouchedBehindTheFenceEndTheProcess) {
  const auto with = [](auto touch) {
    return [=](HostBlock& block, Group& group, AllSums& sums) {
      PerThread<Ones, kGroupThreads> ones;
      group.Threads([&](int thread) { ones[thread] = Ones{}; });
      Fence(group);
      touch(block, group, ones);
      StartRegisters(block, group, sums, ones);
      Commit(group);
      Wait<0>(group);
    };
  };
  using Operands = PerThread<Ones, kGroupThreads>;
  RunInGroup(with([](HostBlock&, Group&, Operands&) {}));
  EXPECT_DEATH(RunInGroup(with([](HostBlock&, Group& group, Operands& ones) {
                 group.Threads([&](int thread) { ones[thread] = Ones{}; });
               })),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup(with([](HostBlock&, Group& group, Operands& ones) {
                 ForThreads(group, [&](int thread) { ones[thread] = Ones{}; });
               })),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup(with([](HostBlock& block, Group& group, Operands& ones) {
                 LoadFourWords(
                     group, [&](int thread) -> uint32_t(&)[4] { return ones[thread].of; },
                     [&](int thread) { return block.shared() + 16 * thread; });
               })),
               "is_fenced_");
  EXPECT_DEATH(RunInGroup(with([](HostBlock&, Group& group, Operands& ones) {
                 group.Exchange(
                     1, [&](int thread) { return ones[thread].of[0]; },
                     [&](int thread, uint32_t theirs) { ones[thread].of[0] = theirs; });
               })),
               "is_fenced_");
  // In separate steps: threads may have done anything between them.
  EXPECT_DEATH(RunSteps([](HostBlock& block, AllSums& sums) {
                 block.CopyingGroups<0>([](Group& group) { Fence(group); });
                 block.CopyingGroups<0>([&](Group& group) { Start8(block, group, sums); });
               }),
               "is_fenced_");
}

TEST(WgmmaDeathTest, ACrookedDescriptorEndsTheProcess) {
  const auto run = [](uint64_t change, uint32_t at) {
    RunInGroup([&](HostBlock& block, Group& group, AllSums& sums) {
      Fence(group);
      const uint64_t a = kSwizzled128.Descriptor(group.SharedAddress(block.shared() + at));
      MultiplyAsync<8>(
          group, [&](int thread) -> float(&)[4] { return sums[thread].of; }, a ^ change,
          Matrix(group, block.shared() + kBAt).At(0), false);
      Commit(group);
      Wait<0>(group);
    });
  };
  run(0, 0);
  run(0, 96);
  EXPECT_DEATH(run(uint64_t{1} << 49, 0), "base_offset");
  for (const int bit : {14, 15, 30, 31, 46, 48, 52, 57, 61}) {
    EXPECT_DEATH(run(uint64_t{1} << bit, 0), "unnamed") << bit;
  }
  EXPECT_DEATH(run(0, 128), "start");
  EXPECT_DEATH(run(uint64_t{8} << 32, 0), "stride");
  EXPECT_DEATH(run(uint64_t{3} << 16, 0), "leading");
  EXPECT_DEATH(run(0, kSharedBytes - 7 * 1024), "shared_bytes_");
  EXPECT_DEATH(run(64, 0), "at >= 0");  // begins below shared memory
}

TEST(WgmmaDeathTest, ACrookedTurnedDescriptorEndsTheProcess) {
  const auto run = [](uint64_t change, uint32_t at) {
    RunInGroup([&](HostBlock& block, Group& group, AllSums& sums) {
      Fence(group);
      const CanonicalTurned layout{kPieceBytes, 1024};
      const uint64_t b = layout.Descriptor(group.SharedAddress(block.shared() + kBAt + at));
      MultiplyAsync<8, true>(
          group, [&](int thread) -> float(&)[4] { return sums[thread].of; },
          Matrix(group, block.shared()).At(0), b ^ change, false);
      Commit(group);
      Wait<0>(group);
    });
  };
  run(0, 0);
  run(0, 2048);
  EXPECT_DEATH(run(uint64_t{1} << 49, 0), "base_offset");
  EXPECT_DEATH(run(uint64_t{1} << 62, 0), "swizzle");
  EXPECT_DEATH(run(uint64_t{1} << 46, 0), "unnamed");
  EXPECT_DEATH(run(0, 32), "start");
  EXPECT_DEATH(run(uint64_t{8} << 32, 0), "stride");
  EXPECT_DEATH(run(uint64_t{1} << 16, 0), "leading");
  EXPECT_DEATH(run(0, kSharedBytes - kBAt - 1024), "shared_bytes_");
}

}  // namespace
}  // namespace janus::kernels::cuda
