// Bytes and operations of launch plans, at shapes of real models: 64 rows of DeepSeek-V3 (H 7168,
// 128 heads, latent vectors of 512 + 64, 256 experts of which 8, vocabulary 129280), 16 of Mixtral
// 8x7B (H 4096, 32 heads and 8 of keys, 8 experts of which 2), 64 of Qwen3-235B (64 heads of 128
// and 4 of keys, 128 experts of which 8, vocabulary 151936). The expected numbers were calculated
// by hand from what an operation reads and writes, without the plans' formulas.

#include <gtest/gtest.h>

#include "kernels/cuda/aebs.h"
#include "kernels/cuda/aebs_fast.h"
#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/exact_sums.h"
#include "kernels/cuda/expanded_runs.h"
#include "kernels/cuda/gate_fast.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/cuda/list_work.h"
#include "kernels/cuda/norm_fast.h"
#include "kernels/cuda/pack_fp8.h"
#include "kernels/cuda/permute_rows.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/rope_fast.h"
#include "kernels/cuda/rows_fast.h"
#include "kernels/cuda/sample.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF32 = DType::kFloat32;

void ExpectMoves(const Plan& plan, int64_t bytes, int64_t flops = 0) {
  EXPECT_EQ(plan.bytes, bytes);
  EXPECT_EQ(plan.flops, flops);
}

// Rows of the table in, fp32 out, and a token of each: 458,752 elements of 2 + 4 bytes, 64 of 4.
TEST(PlanBytes, OfEmbeddings) {
  const EmbedArgs v3{.table_dtype = kB16, .rows = 64, .vocab = 129280, .hidden = 7168};
  ExpectMoves(PlanEmbed(v3), 2'752'768);
  ExpectMoves(PlanFastEmbed(v3), 2'752'768);
  // 65,536 elements of 4 + 4.
  ExpectMoves(PlanEmbed({.table_dtype = kF32, .rows = 16, .vocab = 32000, .hidden = 4096}),
              524'352);
}

// 458,752 elements of 4 + 2 bytes, 7,168 weights of 2; of an element a square that is added, a
// quotient and a product.
TEST(PlanBytes, OfNorms) {
  const RmsNormArgs v3{.weight_dtype = kB16, .y_dtype = kB16, .rows = 64, .hidden = 7168};
  ExpectMoves(PlanRmsNorm(v3), 2'766'848, 1'835'008);
  ExpectMoves(PlanFastNorm(v3), 2'766'848, 1'835'008);
  // Qwen3's query heads: 524,288 elements of 4 + 4, 128 weights that all heads share.
  const RmsNormArgs heads{.weight_dtype = kB16, .rows = 64, .groups = 64, .hidden = 128};
  ExpectMoves(PlanRmsNorm(heads), 4'194'560, 2'097'152);
  ExpectMoves(PlanFastNormPieces<128>(heads), 4'194'560, 2'097'152);
}

// 64 rows of OLMoE's 16 heads of queries, keys and values, 6,144 elements in and out.
TEST(PlanBytes, OfFunctionsOfElements) {
  ExpectMoves(PlanPointwise({.rows = 64, .columns = 6144}), 3'145'728);
  ExpectMoves(PlanPointwise({.rows = 64, .columns = 1, .row_stride = 6}), 512);
}

// 64 rows of Llama-4's 40 heads of queries of 128, in and out, each with a position and a factor.
TEST(PlanBytes, OfFactorsByPosition) {
  ExpectMoves(PlanScaleByPosition({.rows = 64, .columns = 5120}), 2'621'952, 327'680);
}

// 64 rows x 128 heads x 32 pairs of 8 bytes in and 8 out, 64 positions, 32 frequencies; of a pair
// four products and two sums.
TEST(PlanBytes, OfRope) {
  const RopeArgs v3{.rows = 64,
                    .heads = 128,
                    .head_dim = 192,
                    .rotary_dim = 64,
                    .pairing = RopePairing::kInterleaved};
  ExpectMoves(PlanRope(v3), 4'194'688, 1'572'864);
  ExpectMoves(PlanFastRope(v3), 4'194'688, 1'572'864);
  // 16 rows x 40 heads x 64 pairs.
  const RopeArgs mixtral{.rows = 16, .heads = 40, .head_dim = 128, .rotary_dim = 128};
  ExpectMoves(PlanRope(mixtral), 655'680, 245'760);
  ExpectMoves(PlanFastRope(mixtral), 655'680, 245'760);
  ExpectMoves(PlanRope({.rows = 16, .heads = 40, .head_dim = 128, .rotary_dim = 0}), 0);
}

KvWriteArgs KvRows(int64_t rows, DType dtype, int kv_heads) {
  KvWriteArgs a;
  a.num_rows = rows;
  a.cache = {.dtype = dtype, .kv_heads = kv_heads, .head_dim = 128};
  return a;
}

// Of a row keys and values, 4 bytes in and what the cache holds out, the address of its page table
// and its position (16 bytes), and a page's number (4).
TEST(PlanBytes, OfWritesOfKeysAndValues) {
  // 16 x 2,048 elements of 4 + 2, 16 x 20; a thread for a key and the value beside it.
  const Plan mixtral = PlanKvWrite(KvRows(16, kB16, 8));
  ExpectMoves(mixtral, 196'928);
  EXPECT_EQ(mixtral.blocks, 64);
  EXPECT_EQ(mixtral.threads, 256);
  EXPECT_EQ(mixtral.shared_bytes, 0);
  EXPECT_EQ(PlanKvWrite(KvRows(1, kB16, 1)).blocks, 1);
  EXPECT_EQ(PlanKvWrite(KvRows(3, kB16, 1)).blocks, 2) << "384 threads";
  // 64 x 1,024 elements of 4 + 4, 64 x 20.
  ExpectMoves(PlanKvWrite(KvRows(64, kF32, 4)), 525'568);
  // 64 x 8 pieces of 128 elements of 4 + 1 and a scale, 64 x 20.
  ExpectMoves(PlanKvWritePieces(KvRows(64, DType::kFloat8E4M3, 4)), 331'008);
}

LatentWriteArgs LatentRows(int64_t rows, DType dtype) {
  LatentWriteArgs a;
  a.num_rows = rows;
  a.cache = {.dtype = dtype, .rank = 512, .rope = 64};
  return a;
}

TEST(PlanBytes, OfWritesOfLatentVectors) {
  // 64 x 576 elements of 4 + 2, 64 x 20; a row's 576 are three parts, of four to a block.
  const Plan v3 = PlanLatentWrite(LatentRows(64, kB16));
  ExpectMoves(v3, 222'464);
  EXPECT_EQ(v3.blocks, 48);
  EXPECT_EQ(v3.threads, 128);
  EXPECT_EQ(PlanLatentWrite(LatentRows(3, kB16)).blocks, 3);
  ExpectMoves(PlanLatentWrite(LatentRows(64, kF32)), 296'192);  // of 4 + 4
  // 64 x (512 of 4 + 1, 4 scales, 64 of 4 + 2, 20).
  ExpectMoves(PlanLatentWritePieces(LatentRows(64, DType::kFloat8E4M3)), 190'720);
}

// 458,752 elements of 8 x 2 bytes of slots, of the residual in and out, and of the shared expert's;
// 512 pointers. Of an element 7 sums of slots, one with the shared expert's, one with the residual.
TEST(PlanBytes, OfSumsOfSlots) {
  const float local = 0.0f;
  CombineSlotsArgs v3{.dtype = kB16, .local = &local, .rows = 64, .hidden = 7168, .top_k = 8};
  ExpectMoves(PlanCombineSlots(v3), 12'849'152, 4'128'768);
  ExpectMoves(PlanFastCombine(v3), 12'849'152, 4'128'768);
  // 65,536 elements of 2 x 2 + 8, 32 pointers.
  const CombineSlotsArgs mixtral{.dtype = kB16, .rows = 16, .hidden = 4096, .top_k = 2};
  ExpectMoves(PlanCombineSlots(mixtral), 786'688, 131'072);
}

// 128 heads: 64 x 128 elements of 4 bytes in, 512 x 128 weights of 2, 64 x 512 elements of 4 out.
TEST(PlanBytes, OfProjectionsOfHeads) {
  const HeadLinearArgs into{.weight_dtype = kB16,
                            .transposed = true,
                            .y_dtype = kF32,
                            .rows = 64,
                            .heads = 128,
                            .outputs = 512,
                            .inputs = 128};
  ExpectMoves(PlanHeadLinear(into), 37'748'736, 1'073'741'824);
  ExpectMoves(PlanFastHeadLinear<true>(into), 37'748'736, 1'073'741'824);
  // 64 x 512 of 4 in, as many weights, 64 x 128 of 2 out.
  const HeadLinearArgs out{.weight_dtype = kB16,
                           .y_dtype = kB16,
                           .rows = 64,
                           .heads = 128,
                           .outputs = 128,
                           .inputs = 512};
  ExpectMoves(PlanHeadLinear(out), 35'651'584, 1'073'741'824);
  ExpectMoves(PlanFastHeadLinear<false>(out), 35'651'584, 1'073'741'824);
}

GateTopKArgs GateOf(int64_t rows, int64_t hidden, int experts, int top_k, DType dtype) {
  return {.x_dtype = dtype,
          .weight_dtype = dtype,
          .rows = rows,
          .hidden = hidden,
          .experts = experts,
          .top_k = top_k};
}
constexpr float kBias = 0.0f;
GateTopKArgs DeepSeekV3() {
  GateTopKArgs a = GateOf(64, 7168, 256, 8, kB16);
  a.score = GateScore::kSigmoid;
  a.bias = &kBias;
  return a;
}

// 64 x 7,168 elements of 2 and a pointer of each row, 256 x 7,168 weights of 2, 64 x 256 logits.
TEST(PlanBytes, OfTheGatesLogits) {
  ExpectMoves(PlanGateLogits(DeepSeekV3()), 4'653'568, 234'881'024);
  ExpectMoves(PlanFastGateLogits(DeepSeekV3(), false), 4'653'568, 234'881'024);
  // 28 pieces of each logit.
  ExpectMoves(PlanFastGateLogits(DeepSeekV3(), true), 6'423'040, 234'881'024);
  // 16 x 4,096 of 4 and 16 pointers, 8 x 4,096 of 4, 16 x 8 logits.
  ExpectMoves(PlanGateLogits(GateOf(16, 4096, 8, 2, kF32)), 393'856, 1'048'576);
}

// A row's 256 logits in and scores out, 8 ids of 2 and weights of 4; the 256 biases once.
TEST(PlanBytes, OfTheGatesChoice) {
  ExpectMoves(PlanGateChoice(DeepSeekV3()), 135'168);
  ExpectMoves(PlanFastGateChoice(DeepSeekV3(), false), 135'168);
  // 28 pieces of each in.
  ExpectMoves(PlanFastGateChoice(DeepSeekV3(), true), 1'904'640);
  GateTopKArgs unbiased = DeepSeekV3();
  unbiased.bias = nullptr;
  ExpectMoves(PlanGateChoice(unbiased), 134'144);
  ExpectMoves(PlanFastGateChoice(unbiased, true), 1'903'616);
  // Logits are left as they are, where they were not pieces: 16 x (8 x 4 + 2 x 6).
  const GateTopKArgs mixtral = GateOf(16, 4096, 8, 2, kB16);
  ExpectMoves(PlanGateChoice(mixtral), 704);
  ExpectMoves(PlanFastGateChoice(mixtral, false), 704);
  // One piece is one: 16 x (8 x 4 x 2 + 2 x 6).
  ExpectMoves(PlanFastGateChoice(GateOf(16, 256, 8, 2, kB16), true), 1'216);
}

ScheduleExpertsArgs Schedule(int experts, int instances, int64_t count) {
  return {.placement = {.experts = experts,
                        .instances = instances,
                        .mask_words = (instances + 63) / 64},
          .count = count};
}

// Of 256 experts over 16 instances: 257 firsts, a replica of each, masks of 8, their order in 2;
// out a replica of each, activated ones in 2, 16 loads and a count, which is 6,216. 4,096 ids of 2,
// replicas of 4.
TEST(PlanBytes, OfAebs) {
  ExpectMoves(PlanScheduleExperts(Schedule(256, 16, 4096)), 30'792);
  ExpectMoves(PlanFastSchedule(Schedule(256, 16, 4096), false), 30'792);
  // Of 128 over 72, masks of two words: 129 x 4 + 128 x (4 + 16 + 2 + 4 + 2) + 72 x 4 + 4.
  ExpectMoves(PlanScheduleExperts(Schedule(128, 72, 0)), 4'392);
  // 64 blocks' bits of 128 experts in place of ids.
  ExpectMoves(PlanFastSchedule(Schedule(128, 72, 65536), true), 5'416);
}

// 65,536 ids of 2 in, the bits of 128 experts out, 16 bytes of each of 64 blocks. Then the ids
// again, 128 replicas of 4, and one of each id out.
TEST(PlanBytes, OfAebsOverBlocks) {
  ExpectMoves(PlanCollectExperts(Schedule(128, 16, 65536)), 132'096);
  ExpectMoves(PlanRemapExperts(Schedule(128, 16, 65536)), 393'728);
}

ListWorkArgs Lists(int64_t count, int slots, int senders) {
  ListWorkArgs a;
  a.count = count;
  a.top_k = 8;
  a.slots = slots;
  a.senders = senders;
  return a;
}

// 512 replicas and weights of 4 in, contributions of 24 out; 64 rows' pointers; of two senders the
// first row and where it is answered; 16 experts of 80 in and out.
TEST(PlanBytes, OfListsOfWork) {
  const Plan plan = PlanListWork(Lists(512, 16, 2));
  ExpectMoves(plan, 19'480);
  EXPECT_EQ(plan.blocks, 1);
  EXPECT_EQ(plan.threads, 512);
  // Of 16 slots 16 warps' counts in 2 and a sum in 4; 16 warps' sums in 4; a word of slots in 4 and
  // in bits; two senders in 4.
  EXPECT_EQ(plan.shared_bytes, 656);
  // A row's 8 ids are of 8 experts at most, whatever the slots.
  ExpectMoves(PlanListWork(Lists(8, 32, 2)), 1'568);
  EXPECT_TRUE(CanLaunch(PlanListWork(Lists(kMostListed, 1024, 64))));
}

// Its parts' by themselves: 1,904,640 of the choice, 9,288 of AEBS over 512 ids, 19,480 of lists.
TEST(PlanBytes, OfTheGateWithAebsAndLists) {
  GateTopKArgs gate = DeepSeekV3();
  ActiveExpert active;
  ListWorkArgs list = Lists(512, 16, 2);
  list.active = &active;
  ExpectMoves(PlanGateAndSchedule(gate, Schedule(256, 16, 512), list), 1'933'408);
  ExpectMoves(PlanGateAndSchedule(gate, Schedule(256, 16, 512), {}), 1'913'928);
}

// 458,752 elements of 1 byte in and 2 out, 56 scales of a row.
TEST(PlanBytes, OfRowsInFp8) {
  ExpectMoves(PlanPackFp8({.x_dtype = kB16, .rows = 64, .hidden = 7168}), 1'390'592);
  ExpectMoves(PlanUnpackFp8({.y_dtype = kB16, .rows = 64, .hidden = 7168}), 1'390'592);
  ExpectMoves(PlanUnpackFp8({.y_dtype = kF32, .rows = 64, .hidden = 7168}), 2'308'096);
  ExpectMoves(PlanUnpackFp8({.y_dtype = kB16, .rows = 64, .hidden = 129}), 64 * (3 * 129 + 8));
}

// Of a sum, its one term that is certain, 4 bytes an element, and where its terms end. On the other
// side the residual in and out, and a pointer for each part.
TEST(PlanBytes, OfExactSums) {
  ExpectMoves(PlanAddTerms({.bits = 32, .rows = 64, .hidden = 7168}), 64 * (7168 * 8 + 4), 458'752);
  ExpectMoves(PlanAddTerms({.bits = 24, .rows = 64, .hidden = 7168}), 64 * (7168 * 7 + 4), 458'752);
  ExpectMoves(PlanCombineSums({.bits = 24, .rows = 64, .hidden = 7168, .top_k = 8}),
              64 * (7168 * 11 + 64), 917'504);
}

// A row's logits, 40 bytes of how to draw, 172 of what was drawn.
TEST(PlanBytes, OfSampling) {
  ExpectMoves(PlanSample({.rows = 64, .vocab = 129280}), 33'109'248);
  ExpectMoves(PlanSample({.rows = 512, .vocab = 151936}), 311'273'472);
}

// Only the device's memory says how many states a row has and which rows are neighbours.
TEST(PlanBytes, AreNoneWhereTheDeviceAloneKnows) {
  MergedRows rows;
  rows.of.count = 512;
  rows.at = SplitStates{64, 128};
  ExpectMoves(PlanMergeAttention(rows), 0);
  ExpectMoves(PlanFindExpandedRuns(), 0);
}

}  // namespace
}  // namespace janus::kernels::cuda
