// Launch plans of the CUDA kernels, bytes and operations among them, at shapes of real models.

#include <gtest/gtest.h>

#include <utility>

#include "kernels/cuda/absorbed_fast.h"
#include "kernels/cuda/absorbed_wgmma.h"
#include "kernels/cuda/aebs.h"
#include "kernels/cuda/aebs_fast.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_fast.h"
#include "kernels/cuda/expanded_deal.h"
#include "kernels/cuda/expert_ffn_fast.h"
#include "kernels/cuda/expert_ffn_wgmma.h"
#include "kernels/cuda/gate_fast.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/pack_fp8.h"
#include "kernels/cuda/permute_rows.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/rows_fast.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;

TEST(Plan, OfElementsCoversTheLastOnes) {
  EXPECT_EQ(PlanEmbed({.rows = 1, .hidden = 1}).blocks, 1);
  EXPECT_EQ(PlanEmbed({.rows = 1, .hidden = 256}).blocks, 1);
  EXPECT_EQ(PlanEmbed({.rows = 1, .hidden = 257}).blocks, 2);
  EXPECT_EQ(PlanEmbed({.rows = 1 << 20, .hidden = 7168}).blocks, int64_t{1 << 20} * 28);
}

TEST(Plan, OfNormsReadsAndWritesEachElementOnce) {
  const Plan plan =
      PlanRmsNorm({.weight_dtype = kB16, .y_dtype = kB16, .rows = 64, .hidden = 7168});
  EXPECT_EQ(plan.blocks, 64);
  EXPECT_EQ(plan.bytes, 64 * 7168 * 6 + 7168 * 2);
  EXPECT_TRUE(CanLaunch(plan));
  EXPECT_EQ(PlanRmsNorm({.rows = 5, .groups = 16, .hidden = 128}).blocks, 80);
}

TEST(Plan, OfRopeHasAThreadForEachPairAndNoneWithoutRotation) {
  EXPECT_EQ(PlanRope({.rows = 3, .heads = 40, .head_dim = 128, .rotary_dim = 128}).blocks, 1);
  EXPECT_EQ(PlanRope({.rows = 5, .heads = 1, .head_dim = 128, .rotary_dim = 128}).blocks, 2);
  EXPECT_EQ(PlanRope({.rows = 5, .heads = 1, .head_dim = 128, .rotary_dim = 0}).blocks, 0);
}

// 64 rows of DeepSeek-V3: a part of a row to each warp, four warps to a block.
TEST(Plan, OfFastRowsDealsPartsOfRowsToWarps) {
  const EmbedArgs embed{.table_dtype = kB16, .rows = 64, .hidden = 7168};
  EXPECT_EQ(PlanFastEmbed(embed).blocks, 64 * 14 / 4);
  EXPECT_EQ(PlanFastEmbed(embed).bytes, PlanEmbed(embed).bytes);
  EXPECT_EQ(PlanFastEmbed({.rows = 3, .hidden = 513}).blocks, 2);
  const CombineSlotsArgs combine{.dtype = kB16, .rows = 64, .hidden = 7168, .top_k = 8};
  EXPECT_EQ(PlanFastCombine(combine).blocks, 64 * 28 / 4);
  EXPECT_EQ(PlanFastCombine(combine).bytes, 64 * 7168 * (2 * 8 + 8) + 64 * 8 * 8);
  EXPECT_EQ(PlanFastCombine(combine).flops, 64 * 7168 * 8);
  // More warps than 32 bits count are refused, as more blocks than a grid has.
  EXPECT_FALSE(CanLaunch(PlanFastEmbed({.rows = int64_t{1} << 31, .hidden = 1})));
  EXPECT_TRUE(CanLaunch(PlanFastEmbed({.rows = 1 << 20, .hidden = 7168})));
}

TEST(Plan, OfFastNormsHasSeveralShortPiecesToAWarp) {
  const RmsNormArgs heads{
      .weight_dtype = kB16, .y_dtype = kB16, .rows = 64, .groups = 68, .hidden = 128};
  EXPECT_EQ(PlanFastNormPieces<128>(heads).blocks, 64 * 68 / 16);
  EXPECT_EQ(PlanFastNormPieces<128>(heads).bytes, 64 * 68 * 128 * 6 + 2 * 128);
  EXPECT_EQ(FastNormPiecesKernel<64>::kPieces, 8);
  EXPECT_EQ(FastNormPiecesKernel<128>::kPieces, 4);
  EXPECT_EQ(FastNormPiecesKernel<256>::kPieces, 2);
  EXPECT_EQ(FastNormPiecesKernel<512>::kPieces, 1);
  EXPECT_EQ(FastNormPiecesKernel<1024>::kPieces, 1);
  EXPECT_EQ(PlanFastNormPieces<512>({.rows = 5, .hidden = 512}).blocks, 2);
  EXPECT_FALSE(CanLaunch(PlanFastNormPieces<64>({.rows = 1 << 30, .groups = 4, .hidden = 64})));
  const Plan plan = PlanFastNorm({.rows = 64, .hidden = 7168});
  EXPECT_EQ(plan.blocks, 64);
  EXPECT_TRUE(CanLaunch(plan));
}

TEST(Plan, OfFastRopeComputesTheAnglesOfARowInFewBlocks) {
  // Qwen3-235B's queries and keys, DeepSeek-V3's queries, the key that its heads share.
  RopeArgs a{.rows = 64, .heads = 68, .head_dim = 128, .rotary_dim = 128};
  EXPECT_EQ(PlanFastRope(a).blocks, 64 * 3);
  EXPECT_EQ(PlanFastRope(a).shared_bytes, 64 * 8);
  EXPECT_EQ(PlanFastRope(a).bytes, 64 * 68 * 128 * 8 + 4 * (64 + 64));
  a = {.rows = 64,
       .heads = 128,
       .head_dim = 192,
       .rotary_dim = 64,
       .pairing = RopePairing::kInterleaved};
  EXPECT_EQ(PlanFastRope(a).blocks, 64 * 4);
  a.heads = 1;
  EXPECT_EQ(RopeTileOf(a).rows, 4);
  EXPECT_EQ(PlanFastRope(a).blocks, 16);
  a.rows = 65;
  EXPECT_EQ(PlanFastRope(a).blocks, 17);
  a.rotary_dim = 0;
  EXPECT_EQ(PlanFastRope(a).blocks, 0);
}

TEST(Plan, OfRowsBetweenInstancesCountsBothSides) {
  std::vector<int32_t> map(1);
  std::vector<const void*> list(1);
  PermuteRowsArgs permute{.rows = 64, .row_bytes = 14336};
  EXPECT_EQ(PlanPermuteRows(permute).blocks, 64 * 7 / 4);
  EXPECT_EQ(PlanPermuteRows(permute).bytes, 64 * 2 * 14336);
  permute.x_map = map.data();
  permute.x_list = list.data();
  EXPECT_EQ(PlanPermuteRows(permute).bytes, 64 * (2 * 14336 + 12));
  const PackFp8Args pack{.x_dtype = kB16, .rows = 64, .hidden = 7168};
  EXPECT_EQ(PlanPackFp8(pack).blocks, 64 * 14 / 4);
  EXPECT_EQ(PlanPackFp8(pack).bytes, 64 * (7168 * 3 + 56 * 4));
  const UnpackFp8Args unpack{.y_dtype = kB16, .rows = 64, .hidden = 7168};
  EXPECT_EQ(PlanUnpackFp8(unpack).blocks, PlanPackFp8(pack).blocks);
  EXPECT_EQ(PlanUnpackFp8(unpack).bytes, PlanPackFp8(pack).bytes);
}

TEST(Plan, OfProjectionsCoversTilesAndTails) {
  LinearArgs a{.x_dtype = kB16, .weight_dtype = kB16, .rows = 1, .outputs = 64, .inputs = 4096};
  EXPECT_EQ(PlanLinear(a).blocks, 1);
  a.outputs = 65;
  a.rows = 17;
  EXPECT_EQ(PlanLinear(a).blocks, 4);
  EXPECT_EQ(PlanLinear(a).bytes, 2 * 4096 * (17 + 65) + 4 * 17 * 65);
  EXPECT_EQ(PlanLinear(a).flops, 2 * 17 * 65 * 4096);
  EXPECT_LE(Tile::kSharedBytes, kMaxSharedBytes);
  EXPECT_EQ(PlanHeadLinear({.rows = 33, .heads = 16, .outputs = 512, .inputs = 128}).blocks,
            8 * 16 * 3);
}

TEST(Plan, OfFastProjectionsHasBlocksForTheDevice) {
  LinearArgs a{.x_dtype = kB16, .weight_dtype = kB16, .rows = 8, .outputs = 1536, .inputs = 7168};
  EXPECT_EQ(FastLinearOutputs(a), 16);
  EXPECT_EQ(PlanFastLinear<16>(a).blocks, 96);
  EXPECT_EQ(PlanFastLinear<16>(a).bytes, PlanLinear(a).bytes);
  EXPECT_EQ(PlanFastLinear<16>(a).flops, 2 * 8 * 1536 * 7168);
  EXPECT_TRUE(CanLaunch(PlanFastLinear<16>(a), kMaxAskedSharedBytes));
  a.rows = 65;
  EXPECT_EQ(FastLinearOutputs(a), 32);
  EXPECT_EQ(PlanFastLinear<32>(a).blocks, 48 * 2);
  a.outputs = 7168;
  EXPECT_EQ(FastLinearOutputs(a), 64);
  EXPECT_EQ(PlanFastLinear<64>(a).blocks, 112 * 2);
  a.rows = 8;
  EXPECT_EQ(FastLinearOutputs(a), 32);
  a.outputs = 8192;
  EXPECT_EQ(FastLinearOutputs(a), 64);
  const HeadLinearArgs heads{
      .weight_dtype = kB16, .rows = 65, .heads = 128, .outputs = 512, .inputs = 128};
  EXPECT_EQ(PlanFastHeadLinear<true>(heads).blocks, 128 * 8 * 2);
  EXPECT_EQ(PlanFastHeadLinear<true>(heads).bytes, PlanHeadLinear(heads).bytes);
}

// DeepSeek-V3: an expert has 44 million weights.
TEST(Plan, OfExpertsReadsAnActivatedExpertOnce) {
  const GroupedExpertFfnArgs a{.num_experts = 32,
                               .num_contributions = 256,
                               .hidden = 7168,
                               .intermediate = 2048,
                               .weight_dtype = kB16,
                               .row_dtype = kB16,
                               .y_dtype = kB16};
  EXPECT_EQ(PlanExpertUp(a).blocks, 32 * 32);
  EXPECT_EQ(PlanExpertDown(a).blocks, 32 * 112);
  EXPECT_EQ(PlanExpertUp(a).flops + PlanExpertDown(a).flops, int64_t{6} * 256 * 7168 * 2048);
  EXPECT_EQ(ExpertBytes(a, 1, 0), 88080384);
  EXPECT_EQ(ExpertBytes(a, 2, 3) - ExpertBytes(a, 2, 2), 2 * 2 * (7168 + 2048));
}

GroupedExpertFfnArgs DeepSeek(int64_t hidden, int64_t intermediate, int64_t experts) {
  return {.num_experts = experts,
          .num_contributions = 8 * experts,
          .hidden = hidden,
          .intermediate = intermediate,
          .weight_dtype = kB16,
          .row_dtype = kB16,
          .y_dtype = kB16};
}

TEST(Plan, OfFastExpertsCoversWeightRowsAndTails) {
  const GroupedExpertFfnArgs v3 = DeepSeek(7168, 2048, 32);
  EXPECT_EQ(PlanFastExpertUp<16>(v3).blocks, 32 * 64);
  EXPECT_EQ(PlanFastExpertDown<16>(v3).blocks, 32 * 112);
  EXPECT_EQ(PlanFastExpertUp<16>(v3).flops + PlanFastExpertDown<16>(v3).flops,
            int64_t{6} * 256 * 7168 * 2048);
  const GroupedExpertFfnArgs v2 = DeepSeek(5120, 1536, 1);
  EXPECT_EQ(PlanFastExpertUp<16>(v2).blocks, 48);
  EXPECT_EQ(PlanFastExpertDown<16>(v2).blocks, 80);
  const GroupedExpertFfnArgs odd = DeepSeek(136, 72, 3);
  EXPECT_EQ(PlanFastExpertUp<16>(odd).blocks, 3 * 3);
  EXPECT_EQ(PlanFastExpertDown<16>(odd).blocks, 3 * 3);
}

// The number of rows does not change the grid; the device reads it.
TEST(Plan, OfFastExpertsIsTheSameForAllNumbersOfRows) {
  GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 8);
  const Plan up = PlanFastExpertUp<16>(a);
  const Plan down = PlanFastExpertDown<16>(a);
  a.num_contributions = 100000;
  EXPECT_EQ(PlanFastExpertUp<16>(a).blocks, up.blocks);
  EXPECT_EQ(PlanFastExpertUp<16>(a).shared_bytes, up.shared_bytes);
  EXPECT_EQ(PlanFastExpertDown<16>(a).blocks, down.blocks);
  EXPECT_EQ(PlanFastExpertDown<16>(a).shared_bytes, down.shared_bytes);
}

TEST(Plan, OfFastExpertsKeepsMoreUnderWayThanTheMemoryNeeds) {
  EXPECT_EQ((WeightTile<16, 8, 1>::kStages), 10);
  EXPECT_EQ((WeightTile<16, 16, 1>::kStages), 9);
  EXPECT_EQ((WeightTile<16, 32, 1>::kStages), 8);
  EXPECT_EQ((WeightTile<16, 64, 2>::kStages), 4);
  // Two blocks on a multiprocessor of sm_90 (228 KiB, of which each block takes one more), one on
  // the smallest of sm_80 and later.
  EXPECT_LE(2 * (FastExpertKernel<16>::kAskedSharedBytes + 1024), 228 << 10);
  EXPECT_LE(FastExpertKernel<16>::kAskedSharedBytes, kMaxAskedSharedBytes);
  const Plan plan = PlanFastExpertUp<16>(DeepSeek(7168, 2048, 8));
  EXPECT_TRUE(CanLaunch(plan, FastExpertUpKernel<16>::kAskedSharedBytes));
  EXPECT_FALSE(CanLaunch(plan)) << "without asking";
}

// The rows of activations, which each block reads again from the cache, beside the weights.
TEST(Plan, OfFastExpertsAsksTheCacheForLittleBesideTheWeights) {
  const GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 8);
  const int64_t weights = ExpertBytes(a, 1, 0);
  EXPECT_EQ(FastExpertReads<16>(a, 0), weights);
  EXPECT_EQ(FastExpertReads<16>(a, 8), weights + weights / 8);
  EXPECT_EQ(FastExpertReads<16>(a, 32), weights + weights / 2);
  EXPECT_EQ(FastExpertReads<16>(a, 64), weights + weights / 2);
}

TEST(Plan, OfWgmmaExpertsCoversWeightRowsAndTails) {
  const GroupedExpertFfnArgs v3 = DeepSeek(7168, 2048, 32);
  EXPECT_EQ(PlanWgmmaExpertUp<1>(v3, 132).blocks, 32 * 64);
  EXPECT_EQ(PlanWgmmaExpertDown<1>(v3, 132).blocks, 32 * 112);
  EXPECT_EQ(PlanWgmmaExpertUp<1>(v3, 132).threads, 128);
  EXPECT_EQ(PlanWgmmaExpertUp<2>(v3, 132).threads, 256);
  for (const int64_t flops :
       {PlanWgmmaExpertUp<1>(v3, 132).flops + PlanWgmmaExpertDown<1>(v3, 132).flops,
        PlanWgmmaExpertUp<2>(v3, 132).flops + PlanWgmmaExpertDown<2>(v3, 132).flops}) {
    EXPECT_EQ(flops, int64_t{6} * v3.num_contributions * 7168 * 2048);
  }
  const GroupedExpertFfnArgs odd = DeepSeek(136, 72, 3);
  EXPECT_EQ(PlanWgmmaExpertUp<1>(odd, 132).blocks, 3 * 3);
  EXPECT_EQ(PlanWgmmaExpertDown<1>(odd, 132).blocks, 3 * 3);
}

// Wide tiles have as many blocks as run at once, or as there may be tiles: an expert's last tile is
// not full, and each expert has a row at least.
TEST(Plan, OfWideWgmmaExpertsHasNoMoreBlocksThanTilesOrMultiprocessors) {
  GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 8);
  a.num_contributions = 4096;
  EXPECT_EQ(PlanWgmmaExpertUp<2>(a, 132).blocks, 132);
  EXPECT_EQ(PlanWgmmaExpertDown<2>(a, 132).blocks, 132);
  EXPECT_EQ(PlanWgmmaExpertUp<2>(a, 114).blocks, 114);
  EXPECT_EQ(PlanWgmmaExpertDown<2>(a, 114).blocks, 114);
  EXPECT_EQ(PlanWgmmaExpertUp<1>(a, 114).blocks, 8 * 64);
  a = DeepSeek(136, 72, 3);
  a.num_contributions = 300;
  EXPECT_EQ(PlanWgmmaExpertUp<2>(a, 132).blocks, (3 + 1) * 2);
  EXPECT_EQ(PlanWgmmaExpertDown<2>(a, 132).blocks, (3 + 1) * 2);
  a.num_contributions = 2;
  EXPECT_EQ(PlanWgmmaExpertUp<2>(a, 132).blocks, 2 * 2);
}

TEST(Plan, OfWgmmaExpertsTakesWideTilesForManyRowsOfFewEnoughExperts) {
  GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 32);
  a.num_contributions = 32 * 32;
  EXPECT_FALSE(TakesWideTiles(a));
  ++a.num_contributions;
  EXPECT_TRUE(TakesWideTiles(a));
  // Only a share of so many rows may be likely.
  a.num_contributions = 8 * 32 * 32;
  a.likely_contributions = 32 * 32;
  EXPECT_FALSE(TakesWideTiles(a));
  ++a.likely_contributions;
  EXPECT_TRUE(TakesWideTiles(a));
  a.likely_contributions = 0;
  a.num_contributions = int64_t{1} << 30;
  a.num_experts = kMostWideExperts;
  EXPECT_TRUE(TakesWideTiles(a));
  ++a.num_experts;
  EXPECT_FALSE(TakesWideTiles(a));
}

// Bytes that a multiprocessor of an H200 must have in flight from memory for the full rate: its
// share of 4.8 TB/s in the assumed 0.8 us of a read (kernels/cuda/README.md).
constexpr int64_t kBytesUnderWayNeeded = int64_t{4800} * 1000 * 800 / 1000 / 132;

// The least bytes of weights and their scales that the blocks of a multiprocessor have in flight:
// between the wait for the oldest of kAhead stages and the start of the next.
template <class Tile>
constexpr int64_t BytesUnderWay() {
  const int scales = Tile::Format::kScaleBytes == 0
                         ? 0
                         : Tile::kWeightRows * Tile::kSteps * Tile::kStep / kMxBlock;
  return int64_t{Tile::kBlocksAtOnce} * (Tile::kAhead - 1) * (Tile::kRowsAt + scales);
}

template <int kGroups, int kBits, int... kRows>
void ExpectEnoughUnderWay(std::integer_sequence<int, kRows...>) {
  const auto expect = [](int64_t bytes, int rows) {
    EXPECT_GE(bytes, kBytesUnderWayNeeded) << kGroups << ' ' << kBits << ' ' << rows;
  };
  (expect(BytesUnderWay<WgmmaTile<kGroups, kRows, kBits>>(), kRows), ...);
}

TEST(Plan, OfWgmmaExpertsKeepsMoreUnderWayThanTheMemoryNeeds) {
  EXPECT_EQ(kBytesUnderWayNeeded, 29090);
  // All narrow tiles, and the wide ones of which the memory may be the bound.
  ExpectEnoughUnderWay<1, 16>(std::integer_sequence<int, 8, 16, 32, 64>{});
  ExpectEnoughUnderWay<2, 16>(std::integer_sequence<int, 8, 16, 32, 64, 128>{});
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 8>>()), 2 * 9 * (8 << 10));
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 64>>()), 2 * 4 * (8 << 10));
  // Products of 192 and of 256 rows are the limit, and several copies must be in flight.
  EXPECT_GE((WgmmaTile<2, 192>::kAhead), 2);
  EXPECT_GE((WgmmaTile<2, 256>::kAhead), 2);
  // Two narrow blocks on a multiprocessor of sm_90 (228 KiB, of which each block takes one more),
  // or one wide one.
  EXPECT_LE(2 * (WgmmaExpertUpKernel<1>::kAskedSharedBytes + 1024), 228 << 10);
  EXPECT_LE(WgmmaExpertUpKernel<2>::kAskedSharedBytes, kMostSharedBytes);
  const GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 8);
  EXPECT_TRUE(CanLaunch(PlanWgmmaExpertUp<1>(a, 132), WgmmaExpertUpKernel<1>::kAskedSharedBytes));
  EXPECT_TRUE(
      CanLaunch(PlanWgmmaExpertDown<2>(a, 132), WgmmaExpertDownKernel<2>::kAskedSharedBytes));
}

TEST(Plan, OfWgmmaExpertsAsksTheCacheForHalfAsMuchInWideTiles) {
  const GroupedExpertFfnArgs a = DeepSeek(7168, 2048, 8);
  const int64_t weights = ExpertBytes(a, 1, 0);
  EXPECT_EQ(WgmmaExpertReads<1>(a, 8), weights + weights / 8);
  EXPECT_EQ(WgmmaExpertReads<1>(a, 64), 2 * weights);
  EXPECT_EQ(WgmmaExpertReads<1>(a, 128), 4 * weights);
  EXPECT_EQ(WgmmaExpertReads<2>(a, 64), weights + weights / 2);
  EXPECT_EQ(WgmmaExpertReads<2>(a, 256), 3 * weights);
  EXPECT_EQ(WgmmaExpertReads<2>(a, 512), 6 * weights);
}

GroupedExpertFfnArgs Float8DeepSeek(int64_t hidden, int64_t intermediate, int64_t experts) {
  GroupedExpertFfnArgs a = DeepSeek(hidden, intermediate, experts);
  a.weight_dtype = DType::kFloat8E4M3;
  return a;
}

// An expert of DeepSeek-V3 in fp8 is 44 MB, and 56 x 16 scales for each of its matrices.
TEST(Plan, OfFp8ExpertsReadsHalfAsMuchAndTheScales) {
  const GroupedExpertFfnArgs a = Float8DeepSeek(7168, 2048, 32);
  EXPECT_EQ(ExpertBytes(a, 1, 0), 44040192 + 3 * 4 * 56 * 16);
  EXPECT_EQ(ExpertBytes(Float8DeepSeek(136, 129, 1), 1, 0), 3 * 136 * 129 + 3 * 4 * 2 * 2);
  EXPECT_EQ(ExpertBytes(a, 2, 3) - ExpertBytes(a, 2, 2), 2 * 2 * (7168 + 2048));
  EXPECT_EQ(PlanFastExpertUp<8>(a).blocks, 32 * 64);
  EXPECT_EQ(PlanFastExpertDown<8>(a).blocks, 32 * 112);
  EXPECT_EQ(PlanFastExpertUp<8>(a).threads, 128);
  EXPECT_EQ(PlanFastExpertUp<8>(a).flops + PlanFastExpertDown<8>(a).flops,
            int64_t{6} * 256 * 7168 * 2048);
  EXPECT_TRUE(CanLaunch(PlanFastExpertUp<8>(a), FastExpertUpKernel<8>::kAskedSharedBytes));
}

TEST(Plan, OfFp8ExpertsKeepsAsMuchUnderWayAndAsksTheCacheForMore) {
  EXPECT_EQ((WeightTile<8, 8, 1>::kStages), 9);
  EXPECT_EQ((WeightTile<8, 16, 2>::kStages), 4);
  EXPECT_EQ((WeightTile<8, 32, 2>::kStages), 4);
  EXPECT_EQ((WeightTile<8, 64, 2>::kStages), 3);
  EXPECT_EQ(FastExpertKernel<8>::kAskedSharedBytes, FastExpertKernel<16>::kAskedSharedBytes);
  const GroupedExpertFfnArgs a = Float8DeepSeek(7168, 2048, 8);
  const int64_t weights = int64_t{3} * 7168 * 2048;
  EXPECT_EQ(FastExpertReads<8>(a, 0), weights);
  EXPECT_EQ(FastExpertReads<8>(a, 8), weights + weights / 4);
  EXPECT_EQ(FastExpertReads<8>(a, 16), weights + weights / 4);
  EXPECT_EQ(FastExpertReads<8>(a, 32), weights + weights / 2);
  EXPECT_EQ(FastExpertReads<8>(a, 64), 2 * weights);
}

GroupedExpertFfnArgs Mxfp4DeepSeek(int64_t hidden, int64_t intermediate, int64_t experts) {
  GroupedExpertFfnArgs a = DeepSeek(hidden, intermediate, experts);
  a.weight_dtype = DType::kMxfp4;
  return a;
}

// An expert of DeepSeek-V3 in mxfp4 is 22 MB and 1.4 MB of scales.
TEST(Plan, OfMxfp4ExpertsReadsAQuarterAndTheScales) {
  const GroupedExpertFfnArgs a = Mxfp4DeepSeek(7168, 2048, 32);
  EXPECT_EQ(ExpertBytes(a, 1, 0), 22020096 + 1376256);
  EXPECT_EQ(ExpertBytes(a, 2, 3) - ExpertBytes(a, 2, 2), 2 * 2 * (7168 + 2048));
  EXPECT_EQ(PlanFastExpertUp<4>(a).blocks, 32 * 64);
  EXPECT_EQ(PlanFastExpertDown<4>(a).blocks, 32 * 112);
  EXPECT_EQ(PlanFastExpertUp<4>(a).threads, 128);
  EXPECT_EQ(PlanFastExpertUp<4>(a).flops + PlanFastExpertDown<4>(a).flops,
            int64_t{6} * 256 * 7168 * 2048);
  EXPECT_TRUE(CanLaunch(PlanFastExpertUp<4>(a), FastExpertUpKernel<4>::kAskedSharedBytes));
}

TEST(Plan, OfMxfp4ExpertsTakesWidthsThatKeepTheCacheAndSharedMemoryWithinReach) {
  EXPECT_EQ(WeightFormat<4>::WidthFor(8), 1);
  EXPECT_EQ(WeightFormat<4>::WidthFor(16), 2);
  EXPECT_EQ(WeightFormat<4>::WidthFor(32), 4);
  EXPECT_EQ(WeightFormat<4>::WidthFor(64), 2);
  EXPECT_EQ((WeightTile<4, 8, 1>::kStages), 15);
  EXPECT_EQ((WeightTile<4, 16, 2>::kStages), 7);
  EXPECT_EQ((WeightTile<4, 32, 4>::kStages), 3);
  EXPECT_EQ((WeightTile<4, 64, 2>::kStages), 3);
  EXPECT_EQ(FastExpertKernel<4>::kAskedSharedBytes, FastExpertKernel<16>::kAskedSharedBytes);
  const GroupedExpertFfnArgs a = Mxfp4DeepSeek(7168, 2048, 8);
  const int64_t weights = int64_t{3} * 7168 * 2048 / 2;
  const int64_t with_scales = ExpertBytes(a, 1, 0);
  EXPECT_EQ(FastExpertReads<4>(a, 0), with_scales);
  EXPECT_EQ(FastExpertReads<4>(a, 8), with_scales + weights / 2);
  EXPECT_EQ(FastExpertReads<4>(a, 16), with_scales + weights / 2);
  EXPECT_EQ(FastExpertReads<4>(a, 32), with_scales + weights / 2);
  EXPECT_EQ(FastExpertReads<4>(a, 64), with_scales + 2 * weights);
}

TEST(Plan, OfPackedWgmmaExpertsCoversWeightRowsAndTails) {
  const GroupedExpertFfnArgs fp8 = Float8DeepSeek(7168, 2048, 32);
  const GroupedExpertFfnArgs mxfp4 = Mxfp4DeepSeek(7168, 2048, 32);
  for (const int64_t blocks :
       {PlanWgmmaExpertUp<1, 8>(fp8, 132).blocks, PlanWgmmaExpertUp<1, 4>(mxfp4, 132).blocks}) {
    EXPECT_EQ(blocks, 32 * 64);
  }
  for (const int64_t blocks :
       {PlanWgmmaExpertDown<1, 8>(fp8, 132).blocks, PlanWgmmaExpertDown<1, 4>(mxfp4, 132).blocks}) {
    EXPECT_EQ(blocks, 32 * 112);
  }
  for (const int64_t flops :
       {PlanWgmmaExpertUp<1, 8>(fp8, 132).flops + PlanWgmmaExpertDown<1, 8>(fp8, 132).flops,
        PlanWgmmaExpertUp<2, 4>(mxfp4, 132).flops + PlanWgmmaExpertDown<2, 4>(mxfp4, 132).flops}) {
    EXPECT_EQ(flops, int64_t{6} * fp8.num_contributions * 7168 * 2048);
  }
  // As many as there may be tiles of 128 rows and of 192.
  GroupedExpertFfnArgs odd = DeepSeek(144, 80, 3);
  odd.num_contributions = 300;
  EXPECT_EQ((PlanWgmmaExpertUp<2, 8>(odd, 132).blocks), (3 + 2) * 2);
  EXPECT_EQ((PlanWgmmaExpertDown<2, 8>(odd, 132).blocks), (3 + 2) * 2);
  EXPECT_EQ((PlanWgmmaExpertUp<2, 4>(odd, 132).blocks), (3 + 1) * 2);
}

TEST(Plan, OfPackedWgmmaExpertsKeepsMoreUnderWayThanTheMemoryNeeds) {
  ExpectEnoughUnderWay<1, 8>(std::integer_sequence<int, 8, 16, 32, 64>{});
  ExpectEnoughUnderWay<2, 8>(std::integer_sequence<int, 32, 64, 128>{});
  ExpectEnoughUnderWay<1, 4>(std::integer_sequence<int, 8, 16, 32>{});
  ExpectEnoughUnderWay<2, 4>(std::integer_sequence<int, 32, 64, 128>{});
  // With 64 rows of mxfp4, instructions allow only 58 % of the memory's rate (counted in SASS).
  EXPECT_GE((BytesUnderWay<WgmmaTile<1, 64, 4>>()), kBytesUnderWayNeeded * 58 / 100);
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 8, 8>>()), 2 * 8 * (8 << 10));
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 32, 8>>()), 2 * 4 * (8 << 10));
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 64, 8>>()), 2 * 6 * (4 << 10));
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 8, 4>>()), 2 * 13 * 64 * (64 + 4));
  EXPECT_EQ((BytesUnderWay<WgmmaTile<1, 64, 4>>()), 2 * 2 * 64 * (64 + 4));
  EXPECT_GE((WgmmaTile<2, 192, 4>::kAhead), 2);
  EXPECT_LE(2 * (WgmmaExpertUpKernel<1, 8>::kAskedSharedBytes + 1024), 228 << 10);
  EXPECT_LE(2 * (WgmmaExpertUpKernel<1, 4>::kAskedSharedBytes + 1024), 228 << 10);
  EXPECT_LE((WgmmaExpertUpKernel<2, 8>::kAskedSharedBytes), kMostSharedBytes);
  EXPECT_LE((WgmmaExpertUpKernel<2, 4>::kAskedSharedBytes), kMostSharedBytes);
  const GroupedExpertFfnArgs a = Float8DeepSeek(7168, 2048, 8);
  EXPECT_TRUE(
      CanLaunch(PlanWgmmaExpertUp<1, 8>(a, 132), WgmmaExpertUpKernel<1, 8>::kAskedSharedBytes));
  EXPECT_TRUE(
      CanLaunch(PlanWgmmaExpertDown<2, 4>(a, 132), WgmmaExpertDownKernel<2, 4>::kAskedSharedBytes));
}

TEST(Plan, OfPackedWgmmaExpertsAsksTheCacheForRowsAsBeside16Bits) {
  const GroupedExpertFfnArgs fp8 = Float8DeepSeek(7168, 2048, 8);
  const int64_t weights = int64_t{3} * 7168 * 2048;
  EXPECT_EQ((WgmmaExpertReads<1, 8>(fp8, 8)), weights + weights / 4);
  EXPECT_EQ((WgmmaExpertReads<1, 8>(fp8, 64)), weights + 2 * weights);
  EXPECT_EQ((WgmmaExpertReads<2, 8>(fp8, 128)), weights + 2 * weights);
  EXPECT_EQ((WgmmaExpertReads<2, 8>(fp8, 256)), 2 * weights + 4 * weights);
  const GroupedExpertFfnArgs mxfp4 = Mxfp4DeepSeek(7168, 2048, 8);
  const int64_t with_scales = ExpertBytes(mxfp4, 1, 0);
  EXPECT_EQ((WgmmaExpertReads<1, 4>(mxfp4, 8)), with_scales + weights / 4);
  EXPECT_EQ((WgmmaExpertReads<2, 4>(mxfp4, 192)), with_scales + 3 * weights);
  EXPECT_EQ((WgmmaExpertReads<2, 4>(mxfp4, 193)), 2 * with_scales + 2 * 193 * weights / 128);
}

TEST(Plan, OfTheGateFitsTheMostExpertsThereAre) {
  const GateTopKArgs a{.rows = 64, .hidden = 7168, .experts = kMaxExperts, .top_k = kMaxTopK};
  EXPECT_TRUE(CanLaunch(PlanGateChoice(a)));
  EXPECT_EQ(PlanGateChoice(a).blocks, 64);
  EXPECT_EQ(PlanGateLogits(a).blocks, 4 * 64);
}

GateTopKArgs DeepSeekV3Gate(int64_t rows) {
  GateTopKArgs a{.x_dtype = kB16,
                 .weight_dtype = kB16,
                 .rows = rows,
                 .hidden = 7168,
                 .experts = 256,
                 .top_k = 8,
                 .groups = 8,
                 .top_groups = 4};
  a.workspace_bytes = GateTopKWorkspaceBytes(rows, a.hidden, a.experts);
  return a;
}

// All weights are in flight at once: 28 pieces of 4 tiles of experts, each of 32 KiB.
TEST(Plan, OfTheFastGateDealsTheInnerAxisOverBlocks) {
  const GateTopKArgs a = DeepSeekV3Gate(64);
  const Plan logits = PlanFastGateLogits(a, true);
  EXPECT_EQ(logits.blocks, 4 * 28);
  EXPECT_EQ(logits.shared_bytes, 64 << 10);
  EXPECT_EQ(logits.bytes, 64 * (8 + 2 * 7168) + 2 * 256 * 7168 + 28 * 4 * 64 * 256);
  EXPECT_EQ(logits.flops, int64_t{2} * 64 * 256 * 7168);
  EXPECT_TRUE(CanLaunch(logits, FastGateLogitsKernel::kAskedSharedBytes));
  EXPECT_EQ(PlanFastGateLogits(a, false).blocks, 4);
  EXPECT_EQ(PlanFastGateLogits(DeepSeekV3Gate(65), true).blocks, 2 * 4 * 28);
  EXPECT_EQ(PlanFastGateLogits(DeepSeekV3Gate(17), true).shared_bytes, 48 << 10);
  EXPECT_EQ(PlanFastGateLogits(DeepSeekV3Gate(1), true).shared_bytes, 40 << 10);
  // Three blocks on a multiprocessor of sm_90 (228 KiB, of which each block takes one more), one on
  // the smallest of sm_80 and later.
  EXPECT_LE(3 * (FastGateLogitsKernel::kAskedSharedBytes + 1024), 228 << 10);
  EXPECT_LE(FastGateLogitsKernel::kAskedSharedBytes, kMaxAskedSharedBytes);
  // A piece, an expert and a row more than whole ones.
  GateTopKArgs odd = a;
  odd.hidden = 7176;
  odd.experts = 257;
  EXPECT_EQ(PlanFastGateLogits(odd, true).blocks, 5 * 29);
}

TEST(Plan, OfTheFastGateTakesTheRowsThatFindRoom) {
  GateTopKArgs a = DeepSeekV3Gate(64);
  EXPECT_EQ(a.workspace_bytes, 28 * 64 * 256 * 4);
  EXPECT_EQ(GateRowsAtOnce(a), 64);
  a.rows = 500;
  EXPECT_EQ(GateRowsAtOnce(a), 64);
  a.workspace_bytes = GateTopKWorkspaceBytes(100, a.hidden, a.experts);
  EXPECT_EQ(GateRowsAtOnce(a), 64) << "whole tiles";
  a.workspace_bytes = GateTopKWorkspaceBytes(20, a.hidden, a.experts) - 1;
  EXPECT_EQ(GateRowsAtOnce(a), 19);
  a.workspace_bytes = GateTopKWorkspaceBytes(1, a.hidden, a.experts) - 1;
  EXPECT_EQ(GateRowsAtOnce(a), 0);
}

TEST(Plan, OfTheFastChoiceFitsTheMostExpertsThereAre) {
  const GateTopKArgs most{
      .rows = 64, .hidden = 7168, .experts = kMaxExperts, .top_k = kMaxTopK, .groups = kMaxGroups};
  EXPECT_TRUE(CanLaunch(PlanFastGateChoice(most, true)));
  EXPECT_EQ(PlanFastGateChoice(most, true).blocks, 64);
  const GateTopKArgs a = DeepSeekV3Gate(64);
  EXPECT_EQ(PlanFastGateChoice(a, true).bytes, 64 * (29 * 4 * 256 + 6 * 8));
  EXPECT_EQ(PlanFastGateChoice(a, false).bytes, PlanGateChoice(a).bytes);
}

// The gate and AEBS: the shared memory of the larger, the placement and the ids beside.
TEST(Plan, OfTheGateWithAebsHasABlockForEachRow) {
  const GateTopKArgs a = DeepSeekV3Gate(64);
  const ScheduleExpertsArgs few{.placement = {.experts = 256, .instances = 16, .mask_words = 1},
                                .count = 64 * 8};
  const Plan plan = PlanGateAndSchedule(a, few, {});
  EXPECT_EQ(plan.blocks, 64);
  EXPECT_EQ(plan.threads, kFastThreads);
  EXPECT_EQ(plan.bytes, PlanFastGateChoice(a, true).bytes + PlanFastSchedule(few, false).bytes);
  EXPECT_GE(plan.shared_bytes, PlanFastSchedule(few, false).shared_bytes);
  EXPECT_GE(plan.shared_bytes, PlanFastGateChoice(a, true).shared_bytes);
  GateTopKArgs many = a;
  many.experts = 1024;
  const ScheduleExpertsArgs wide{.placement = {.experts = 1024, .instances = 128, .mask_words = 2},
                                 .count = 64 * 8};
  EXPECT_EQ(PlanGateAndSchedule(many, wide, {}).shared_bytes,
            PlanFastSchedule(wide, false).shared_bytes);
  EXPECT_TRUE(CanLaunch(PlanGateAndSchedule(many, wide, {})));
}

TEST(Plan, OfAttentionHasABlockForEachRowAndHead) {
  PagedAttentionArgs a;
  a.y_dtype = kB16;
  a.num_rows = 7;
  a.heads = 64;
  a.cache.dtype = kB16;
  a.cache.kv_heads = 4;
  a.cache.head_dim = 128;
  EXPECT_EQ(PlanPagedAttention(a).blocks, 7 * 64);
  EXPECT_TRUE(CanLaunch(PlanPagedAttention(a)));
  // Qwen3-235B: 2,048 bytes for each key and its value in a layer.
  EXPECT_EQ(PagedAttentionBytes(a, 1000) - PagedAttentionBytes(a, 999), 2048);
  // Of fp8 half of that, and two scales of each of 4 heads.
  a.cache.dtype = DType::kFloat8E4M3;
  EXPECT_EQ(PagedAttentionBytes(a, 1000) - PagedAttentionBytes(a, 999), 1024 + 2 * 4 * 4);
}

PagedAttentionArgs Qwen3(int64_t rows) {
  PagedAttentionArgs a;
  a.y_dtype = kB16;
  a.num_rows = rows;
  a.heads = 64;
  a.cache.dtype = kB16;
  a.cache.kv_heads = 4;
  a.cache.head_dim = 128;
  return a;
}

// Only the device knows the positions of rows. The grid covers the most tasks there can be, or goes
// over them in turns.
TEST(Plan, OfFastAttentionHasNoMoreBlocksThanTasksOrRoomForThem) {
  EXPECT_EQ((PlanFastAttention<128, 16>(Qwen3(1), 0).blocks), 4);
  EXPECT_EQ((PlanFastAttention<128, 16>(Qwen3(1), 7).blocks), 8 * 4);
  EXPECT_EQ((PlanFastAttention<128, 16>(Qwen3(1), 1000).blocks), kAttentionBlocks);
  EXPECT_EQ((PlanFastAttention<128, 16>(Qwen3(512), 0).blocks), kAttentionBlocks);
  EXPECT_EQ(PlanMergeAttention(MergedRowsOf(Qwen3(1), 0)).blocks, 64);
  EXPECT_EQ(PlanMergeAttention(MergedRowsOf(Qwen3(512), 0)).blocks, kMergeBlocks);
  EXPECT_TRUE(CanLaunch(PlanMergeAttention(MergedRowsOf(Qwen3(512), 0))));
}

template <int kHeadDim, int kBits>
void ExpectRoom(int units, int under_way) {
  using Shared = AttentionShared<kHeadDim, kBits>;
  EXPECT_EQ(Shared::kUnits, units);
  EXPECT_EQ((Shared::kUnits - 1) * Shared::kUnitBytes, under_way);
  // Two blocks on a multiprocessor of sm_90 (228 KiB, of which each block takes one more), one on
  // the smallest of sm_80 and later.
  EXPECT_LE(2 * (Shared::kBytes + 1024), 228 << 10);
  EXPECT_LE(Shared::kBytes, kMaxAskedSharedBytes);
  const Plan plan = PlanFastAttention<kHeadDim, kBits>(Qwen3(1), 0);
  EXPECT_TRUE(CanLaunch(plan, Shared::kBytes));
}
TEST(Plan, OfFastAttentionKeepsMoreUnderWayThanTheMemoryNeeds) {
  ExpectRoom<64, 16>(10, 72 << 10);
  ExpectRoom<128, 16>(5, 64 << 10);
  ExpectRoom<256, 16>(2, 32 << 10);
  // Of fp8 with 256 bytes of scales to a unit.
  ExpectRoom<64, 8>(10, 9 * ((4 << 10) + 256));
  ExpectRoom<128, 8>(9, 8 * ((8 << 10) + 256));
  ExpectRoom<256, 8>(4, 3 * ((16 << 10) + 256));
}

// The states of splits beside the keys and values of a split: written once and read once.
TEST(Plan, OfFastAttentionMovesLittleBesideKeysAndValues) {
  const PagedAttentionArgs a = Qwen3(1);
  const int64_t state = 4 * SplitStates{a.heads, a.cache.head_dim}.Floats();
  EXPECT_EQ(state, 33280);
  const int64_t keys = PagedAttentionBytes(a, kKeySplit) - PagedAttentionBytes(a, 0);
  EXPECT_EQ(keys, 2 << 20);
  EXPECT_LE(100 * 2 * state, 4 * keys);
  // A row of each of 256 sequences that fill a cache of 512 Ki keys.
  EXPECT_EQ(PagedAttentionStateBytes(64, 128, 256, 512 << 10), (256 + 512) * state);
}

// A warp for each piece: of a row's keys and values 2 of every head, of a latent vector 4, and the
// rope key.
TEST(Plan, OfWritesInFp8CountsPieces) {
  KvWriteArgs kv;
  kv.num_rows = 3;
  kv.cache.dtype = DType::kFloat8E4M3;
  kv.cache.kv_heads = 4;
  kv.cache.head_dim = 128;
  EXPECT_EQ(PlanKvWritePieces(kv).blocks, 3);
  EXPECT_EQ(PlanKvWritePieces(kv).bytes, 3 * 8 * (5 * 128 + 4) + 3 * 20);
  EXPECT_TRUE(CanLaunch(PlanKvWritePieces(kv)));
  LatentWriteArgs latent;
  latent.num_rows = 3;
  latent.cache.dtype = DType::kFloat8E4M3;
  latent.cache.rank = 512;
  latent.cache.rope = 64;
  EXPECT_EQ(PlanLatentWritePieces(latent).blocks, 2);
  EXPECT_EQ(PlanLatentWritePieces(latent).bytes, 3 * (5 * 512 + 4 * 4 + 6 * 64 + 20));
  EXPECT_TRUE(CanLaunch(PlanLatentWritePieces(latent)));
}

AbsorbedAttentionArgs DeepSeekRows(int heads, int64_t rows) {
  AbsorbedAttentionArgs a;
  a.num_rows = rows;
  a.heads = heads;
  a.cache.dtype = kB16;
  a.cache.rank = 512;
  a.cache.rope = 64;
  return a;
}

// A task is a tile of up to 64 heads.
TEST(Plan, OfFastAbsorbedAttentionHasNoMoreBlocksThanTasksOrRoomForThem) {
  EXPECT_EQ(PlanFastAbsorbed<16>(DeepSeekRows(16, 1), 0).blocks, 1);
  EXPECT_EQ(PlanFastAbsorbed<16>(DeepSeekRows(128, 1), 0).blocks, 2);
  EXPECT_EQ(PlanFastAbsorbed<16>(DeepSeekRows(128, 1), 7).blocks, 16);
  EXPECT_EQ(PlanFastAbsorbed<16>(DeepSeekRows(128, 1), 1000).blocks, kAbsorbedBlocks);
  EXPECT_EQ(PlanMergeAttention(MergedRowsOf(DeepSeekRows(128, 1), 7)).blocks, 128);
  // One block on a multiprocessor of sm_90; other architectures run the plain form.
  const Plan plan = PlanFastAbsorbed<16>(DeepSeekRows(128, 1), 0);
  EXPECT_LE(plan.shared_bytes, kMostSharedBytes);
  EXPECT_TRUE(CanLaunch(plan, FastAbsorbedKernel<16>::kAskedSharedBytes));
  EXPECT_TRUE(DeviceHasSharedBytes(FastAbsorbedKernel<16>::kAskedSharedBytes));
  const Plan scaled = PlanFastAbsorbed<8>(DeepSeekRows(128, 1), 0);
  EXPECT_EQ(scaled.blocks, 2);
  EXPECT_LE(scaled.shared_bytes, plan.shared_bytes);
  EXPECT_TRUE(CanLaunch(scaled, FastAbsorbedKernel<8>::kAskedSharedBytes));
  EXPECT_FALSE(DeviceHasSharedBytes(kMostSharedBytes + 1));
  EXPECT_EQ(AbsorbedShared<16>::kUnitBytes, 72 << 10);
  EXPECT_EQ(AbsorbedShared<8>::kPackedBytes, 41 << 10);
}

// The same tasks. Two key blocks and the queries take 72 KiB of shared memory each, and the rest
// fits below the limit of a block of sm_90.
TEST(Plan, OfWgmmaAbsorbedAttentionHasOneBlockOnAMultiprocessor) {
  EXPECT_EQ(PlanWgmmaAbsorbed<16>(DeepSeekRows(64, 1), 0).blocks, 1);
  EXPECT_EQ(PlanWgmmaAbsorbed<16>(DeepSeekRows(128, 1), 0).blocks, 2);
  EXPECT_EQ(PlanWgmmaAbsorbed<16>(DeepSeekRows(128, 1), 7).blocks, 16);
  EXPECT_EQ(PlanWgmmaAbsorbed<8>(DeepSeekRows(128, 64), 256).blocks, kAbsorbedBlocks);
  const Plan plan = PlanWgmmaAbsorbed<16>(DeepSeekRows(128, 1), 0);
  EXPECT_EQ(plan.threads, 256);
  EXPECT_EQ(AbsorbedWgmmaShared::kUnitBytes, 72 << 10);
  EXPECT_EQ(AbsorbedWgmmaShared::kUnits, 2);
  EXPECT_EQ(AbsorbedWgmmaShared::kQueries, 144 << 10);
  EXPECT_EQ(AbsorbedWgmmaShared::kColumn, 216 << 10);
  EXPECT_LE(plan.shared_bytes, 227 << 10);
  EXPECT_EQ(kMostSharedBytes, 227 << 10);
  EXPECT_TRUE(CanLaunch(plan, WgmmaAbsorbedKernel<16>::kAskedSharedBytes));
  EXPECT_TRUE(CanLaunch(plan, WgmmaAbsorbedKernel<8>::kAskedSharedBytes));
  // Products of a key block: 36 of 64 by 64 by 16, twice 4 of 64 by 256 by 16, and no operation
  // more than attention of 64 heads over 64 keys is.
  const int64_t products = int64_t{36} * 64 * 64 * 16 + int64_t{8} * 64 * 256 * 16;
  EXPECT_EQ(2 * products, AbsorbedAttentionFlops(DeepSeekRows(64, 1), kKeyBlock));
}

TEST(Plan, OfAbsorbedAttentionReadsAnEntryOnceForAllHeads) {
  const AbsorbedAttentionArgs v2 = DeepSeekRows(128, 3);
  EXPECT_EQ(AbsorbedAttentionBytes(v2, 1000) - AbsorbedAttentionBytes(v2, 999), 1152);
  AbsorbedAttentionArgs scaled = v2;
  scaled.cache.dtype = DType::kFloat8E4M3;
  EXPECT_EQ(AbsorbedAttentionBytes(scaled, 1000) - AbsorbedAttentionBytes(scaled, 999), 656);
  EXPECT_EQ(AbsorbedAttentionBytes(v2, 0), int64_t{3} * 128 * (576 + 512) * 4);
  EXPECT_EQ(AbsorbedAttentionFlops(v2, 1000), int64_t{1000} * 128 * 2 * (576 + 512));
  // 242 operations a byte with 128 heads, 30 with 16.
  EXPECT_EQ(AbsorbedAttentionFlops(v2, 1) / 1152, 241);
  EXPECT_EQ(AbsorbedAttentionFlops(DeepSeekRows(16, 1), 1) / 1152, 30);
  EXPECT_EQ(PlanAbsorbedAttention(v2).blocks, 3 * 128);
}

// The states of splits beside the entries of a split: few with 16 heads, a quarter with 128, where
// multiplying takes ten times as long as reading.
TEST(Plan, OfFastAbsorbedAttentionMovesStatesBesideEntries) {
  const auto state = [](int heads) {
    return AbsorbedAttentionStateBytes(DeepSeekRows(heads, 1).cache, heads, 1, 0);
  };
  EXPECT_EQ(state(16), 4 * (SplitStates{16, 512}.Floats()));
  EXPECT_EQ(state(16), 32896);
  EXPECT_EQ(state(128), 263168);
  const int64_t entries = AbsorbedAttentionBytes(DeepSeekRows(16, 0), kKeySplit);
  EXPECT_EQ(entries, 1179648);
  EXPECT_LE(100 * state(16), 3 * entries);
  EXPECT_LE(100 * state(128), 23 * entries);
}

TEST(Plan, OfExpandedAttentionTakesNoMoreBlocksThanTheWorkspaceHasAreas) {
  ExpandedAttentionArgs a;
  a.num_rows = 100;
  a.heads = 16;
  a.nope_dim = 128;
  a.value_dim = 128;
  a.cache.rank = 512;
  a.cache.rope = 64;
  const int64_t area = ExpandedAttentionWorkspaceBytes(192, 128, 1);
  a.workspace_bytes = area * 5 + area / 2;
  EXPECT_EQ(PlanExpandedAttention(a).blocks, 5);
  a.workspace_bytes = area * 1000;
  EXPECT_EQ(PlanExpandedAttention(a).blocks, 7 * 16);
  // What a block keeps of a tile's rows fits in an area.
  for (const int value_dim : {1, 5, 16, 128, kMaxHeadDim}) {
    for (const int nope : {1, 7, 128, 192}) {
      a.nope_dim = nope;
      a.value_dim = value_dim;
      EXPECT_LE(int64_t{kKeyBlock} * (nope + 64 + value_dim) +
                    int64_t{ExpandedAttentionKernel::kRows} * value_dim,
                ExpandedAreaFloats(a));
    }
  }
}

// A prompt's rows over DeepSeek's heads, with the workspace that an instance has for 512 rows.
ExpandedAttentionArgs DeepSeekPrompt(int heads, int64_t rows, int64_t key_blocks) {
  ExpandedAttentionArgs a;
  a.num_rows = rows;
  a.heads = heads;
  a.nope_dim = a.value_dim = 128;
  a.cache = {.dtype = kB16, .rank = 512, .rope = 64};
  a.expand_dtype = a.y_dtype = kB16;
  a.key_blocks = key_blocks;
  a.workspace_bytes = SharedExpansionBytes(heads, rows);
  return a;
}

void ExpectDeal(const ExpandedAttentionArgs& a, int64_t rows, int64_t heads, int64_t blocks,
                int tile) {
  const ExpandedDeal deal = DealExpanded(a);
  EXPECT_EQ(deal.rows, rows);
  EXPECT_EQ(deal.heads, heads);
  EXPECT_EQ(deal.blocks, blocks);
  EXPECT_EQ(deal.tile, tile);
}

// 2,048 keys at a time, or all keys of fewer heads if these are enough work.
TEST(Plan, OfFastExpandedAttentionDealsHeadsAndKeys) {
  EXPECT_EQ(SharedExpansionBytes(16, 512), 21315648);
  EXPECT_EQ(SharedExpansionBytes(128, 512), 84426816);
  EXPECT_EQ(SharedExpansionBytes(128, 4096), 84426816);
  ExpectDeal(DeepSeekPrompt(128, 512, 64), 512, 64, 32, 128);
  ExpectDeal(DeepSeekPrompt(128, 512, 512), 512, 64, 32, 128);
  ExpectDeal(DeepSeekPrompt(128, 512, 8), 512, 128, 8, 128);
  ExpectDeal(DeepSeekPrompt(16, 512, 64), 512, 16, 32, 64);
  ExpectDeal(DeepSeekPrompt(128, 64, 64), 64, 64, 32, 64);
  ExpectDeal(DeepSeekPrompt(128, 4096, 64), 4096, 32, 64, 128);
  ExpectDeal(DeepSeekPrompt(128, 4096, 512), 4096, 9, 214, 128);
  // The least workspace: a head, and rows that leave room for a key block.
  ExpandedAttentionArgs least = DeepSeekPrompt(128, 5000, 512);
  least.workspace_bytes = ExpandedAttentionWorkspaceBytes(192, 128, 1);
  ExpectDeal(least, 608, 1, 1, 64);
}

// All parts lie within the workspace, whatever its size.
TEST(Plan, OfFastExpandedAttentionKeepsWithinTheWorkspace) {
  const int64_t least = ExpandedAttentionWorkspaceBytes(192, 128, 1);
  for (const int heads : {1, 3, 16, 40, 128}) {
    for (const int64_t rows : {1, 63, 64, 129, 512, 607, 608, 609, 4096, 9000}) {
      for (const int64_t key_blocks : {1, 2, 8, 9, 64, 513, 5000}) {
        for (const int64_t more : {0, 64, 40000, 1 << 20, 30 << 20, 1 << 30}) {
          ExpandedAttentionArgs a = DeepSeekPrompt(heads, rows, key_blocks);
          a.workspace_bytes = least + more;
          const ExpandedDeal deal = DealExpanded(a);
          ASSERT_GE(deal.rows, 1);
          ASSERT_GE(deal.heads, 1);
          ASSERT_GE(deal.blocks, 1);
          ASSERT_LE(deal.rows, rows);
          ASSERT_LE(deal.heads, heads);
          const ExpandedSpace at(deal);
          const int64_t states =
              deal.KeepsStates() ? deal.rows * deal.heads * kExpandedStateBytes : 0;
          ASSERT_LE(at.states + states, a.workspace_bytes)
              << heads << ' ' << rows << ' ' << key_blocks << ' ' << more;
          ASSERT_EQ(at.halves % 64 + at.rope % 64 + at.states % 64, 0);
        }
      }
    }
  }
}

// DeepSeek-V3: 2,048 keys of 64 heads.
TEST(Plan, OfFastExpandedAttentionExpandsKeysOnce) {
  const ExpandedDeal deal = DealExpanded(DeepSeekPrompt(128, 512, 64));
  const ExpandedChunk chunk{.blocks = static_cast<int32_t>(deal.blocks),
                            .heads = static_cast<int>(deal.heads)};
  const Plan plan = PlanExpandKeys(chunk);
  EXPECT_EQ(plan.blocks, kExpandBlocks);
  EXPECT_EQ(plan.flops, int64_t{2} * 2048 * 64 * 512 * 256);
  EXPECT_EQ(plan.bytes, 2048 * 2 * (576 + 64) + 64 * 256 * 512 * 2 + int64_t{2048} * 64 * 512);
  EXPECT_TRUE(CanLaunch(plan, ExpandKeysKernel::kAskedSharedBytes));
  EXPECT_EQ(PlanExpandKeys({.blocks = 1, .heads = 1}).blocks, 2);
  EXPECT_EQ(PlanFastExpanded<128>(deal).blocks, kExpandedBlocks);
  EXPECT_EQ(PlanFastExpanded<64>(DealExpanded(DeepSeekPrompt(16, 8, 64))).blocks, 128);
  EXPECT_TRUE(CanLaunch(PlanFastExpanded<128>(deal), FastExpandedKernel<128>::kAskedSharedBytes));
  // Two blocks on a multiprocessor of sm_90 (228 KiB, of which each block takes one more).
  EXPECT_LE(2 * (ExpandedShared<128>::kBytes + 1024), 228 << 10);
  // 4,096 keys of 128 heads, all rows at the end: as much to expand as 410 rows attend.
  const ExpandedAttentionArgs a = DeepSeekPrompt(128, 512, 64);
  EXPECT_EQ(ExpandedAttentionFlops(a, 0, 4096), int64_t{262144} * 4096 * 128);
  EXPECT_EQ(ExpandedAttentionFlops(a, 4096, 0), int64_t{640} * 4096 * 128);
  EXPECT_EQ(ExpandedAttentionBytes(a, 4096) - ExpandedAttentionBytes(a, 4095), 1152);
  EXPECT_EQ(ExpandedAttentionBytes(a, 0),
            128 * 256 * 512 * 2 + int64_t{512} * 128 * (192 * 4 + 128 * 2));
}

TEST(Plan, OfSamplingFitsSharedMemory) {
  EXPECT_TRUE(CanLaunch(PlanSample({.rows = 512, .vocab = 151936})));
  EXPECT_EQ(PlanSample({.rows = 512, .vocab = 151936}).blocks, 512);
}

TEST(Plan, OfAebsIsOneBlockUpToTheInstancesThatItsHeaderNames) {
  const auto can = [](int experts, int instances) {
    return CanLaunch(PlanScheduleExperts(
        {.placement = {.experts = experts, .instances = instances}, .count = 512 * 8}));
  };
  EXPECT_EQ(PlanScheduleExperts({.placement = {.experts = 256, .instances = 16}}).blocks, 1);
  EXPECT_TRUE(can(256, 64));
  EXPECT_TRUE(can(4096, 384));
  EXPECT_FALSE(can(4096, 385));
  EXPECT_TRUE(can(256, 576));
  EXPECT_FALSE(can(256, 577));
}

// DeepSeek-V3 over 16 instances, 512 rows: 8 KB of ids, 16 KB of replicas, the placement beside.
TEST(Plan, OfFastAebsReadsThePlacementAndTheIdsOnce) {
  const ScheduleExpertsArgs a{.placement = {.experts = 256, .instances = 16, .mask_words = 1},
                              .count = 512 * 8};
  EXPECT_EQ(PlanFastSchedule(a, false).blocks, 1);
  EXPECT_EQ(PlanFastSchedule(a, false).bytes, 6 * 4096 + 24 * 256 + 4 * 16 + 8);
  EXPECT_TRUE(CanLaunch(PlanFastSchedule(a, false)));
}

TEST(Plan, OfFastAebsOverBlocksCoversTheLastIds) {
  const ScheduleExpertsArgs a{.placement = {.experts = 257, .instances = 16, .mask_words = 1},
                              .count = kOneBlockIds + 1};
  EXPECT_EQ(PlanCollectExperts(a).blocks, kCollectBlocks);
  EXPECT_EQ(PlanCollectExperts(a).shared_bytes, 4 * 9);
  EXPECT_EQ(PlanRemapExperts(a).blocks, kOneBlockIds / 4096 + 1);
  // The scheduling block reads bits in place of ids.
  EXPECT_EQ(PlanFastSchedule(a, true).bytes,
            24 * 257 + 4 * 16 + 8 + int64_t{4} * kCollectBlocks * 9);
}

TEST(Plan, OfFastAebsIsForTheInstancesThatAWarpHolds) {
  const auto fits = [](int experts, int instances) {
    return FitsFastSchedule({.experts = experts, .instances = instances});
  };
  EXPECT_TRUE(fits(512, 128));
  EXPECT_FALSE(fits(512, 129));
  EXPECT_TRUE(fits(2048, 32));
  EXPECT_FALSE(fits(4096, 32));
}

}  // namespace
}  // namespace janus::kernels::cuda
