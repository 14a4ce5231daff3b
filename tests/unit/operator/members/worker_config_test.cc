#include "operator/members/worker_config.h"

#include <gtest/gtest.h>

#include "proto/convert.h"

namespace janus::control {
namespace {

TEST(WorkerConfigOf, TakesAlongWhatAllMembersScheduleBy) {
  ServicePlan plan;
  plan.effective.scheduling = SchedulingPolicy::kAebsGreedy;
  plan.crossover_rows = 11;
  plan.compute_threads = 3;
  plan.queued_requests = 5;
  plan.tpot_target_milliseconds = 40;
  const v1::WorkerConfig config = WorkerConfigOf(plan, 6, true);
  EXPECT_EQ(config.scheduling(), v1::SCHEDULING_POLICY_AEBS_GREEDY);
  EXPECT_EQ(config.crossover_rows(), 11u);
  EXPECT_EQ(config.compute_threads(), 3u);
  EXPECT_EQ(config.queued_requests(), 5u);
  EXPECT_EQ(config.tpot_target_ms(), 40u);
  EXPECT_EQ(config.machine_threads(), 6u);
  EXPECT_TRUE(config.debug_logits_hash());
  EXPECT_FALSE(config.fp8_kv_cache());
  plan.effective.fp8_kv_cache = true;
  EXPECT_TRUE(WorkerConfigOf(plan, 6, false).fp8_kv_cache());
  EXPECT_EQ(config.compression(), v1::COMPRESSION_NONE);
  plan.effective.compression = Compression::kFp8;
  EXPECT_EQ(WorkerConfigOf(plan, 6, false).compression(), v1::COMPRESSION_FP8);
  EXPECT_FALSE(config.has_fixed_sums());
  plan.effective.sums = {24, {-17, 3}};
  EXPECT_EQ(*FromProto(WorkerConfigOf(plan, 6, false).fixed_sums()), plan.effective.sums);
  EXPECT_FALSE(WorkerConfigOf(plan, 6, false).debug_logits_hash());
  EXPECT_EQ(config.prefix_sharing(), v1::PREFIX_SHARING_EXACT);
  plan.effective.prefix_cache = PrefixCache::kReuse;
  EXPECT_EQ(WorkerConfigOf(plan, 6, false).prefix_sharing(), v1::PREFIX_SHARING_REUSE);
  plan.effective.prefix_cache = PrefixCache::kDisabled;
  EXPECT_EQ(WorkerConfigOf(plan, 6, false).prefix_sharing(), v1::PREFIX_SHARING_DISABLED);
  EXPECT_FALSE(config.has_timed());
  plan.timed = TimedDevice{"H200", "deepseek-v3", 64, 8};
  const v1::TimedDevice timed = WorkerConfigOf(plan, 6, false).timed();
  EXPECT_EQ(timed.hardware(), "H200");
  EXPECT_EQ(timed.model(), "deepseek-v3");
  EXPECT_EQ(timed.scale(), 64u);
  EXPECT_EQ(timed.time_scale(), 8u);
}

}  // namespace
}  // namespace janus::control
