#include "operator/reconcile/epochs/compose.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace janus::control {
namespace {

ModelDescription Model() {
  ModelDescription model;
  model.architecture = "MixtralForCausalLM";
  model.layers = 2;
  model.hidden = 64;
  model.moe.experts = 4;
  model.moe.top_k = 2;
  return model;
}

ServicePlan Plan() {
  ServicePlan plan;
  plan.m = 1;
  plan.n = 2;
  plan.slots_per_instance = 2;
  plan.spare_slots = 1;
  plan.max_rows_per_round = 512;
  plan.max_model_len = 128;
  return plan;
}

std::vector<WorkerSeen> Workers() {
  const auto worker = [](Role role, const std::string& name) {
    return WorkerSeen{role,
                      "pod-" + name,
                      0,
                      0,
                      name,
                      "local",
                      "unix:/r/" + name + ".sock",
                      "unix:/r/" + name + ".x"};
  };
  return {worker(Role::kAttention, "attention-0"), worker(Role::kExperts, "experts-0"),
          worker(Role::kExperts, "experts-1")};
}

TEST(ComposeTopology, RanksWorkersInTheirOrderAndPlacesExperts) {
  const auto topology = ComposeTopology(1, Workers(), Plan(), Model());
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  EXPECT_EQ(topology->epoch, 1u);
  EXPECT_EQ(topology->m(), 1);
  EXPECT_EQ(topology->n(), 2);
  EXPECT_EQ(topology->attention[0].address, "unix:/r/attention-0.sock");
  EXPECT_EQ(topology->experts[1].node, "experts-1");
  EXPECT_EQ(topology->experts[1].slots, 3);
  const std::vector<uint16_t> layer = {0, 2, Placement::kEmpty, 1, 3, Placement::kEmpty};
  EXPECT_TRUE(std::equal(layer.begin(), layer.end(), topology->placement.expert_of.begin()));
  EXPECT_EQ(topology->max_rows_per_round, 512);
}

TEST(ComposeTopology, PutsConsecutiveRanksIntoTheNodesThatAMachinePlays) {
  ServicePlan plan = Plan();
  plan.nodes = {1, 2};
  plan.plays_nodes = true;
  const auto topology = ComposeTopology(1, Workers(), plan, Model());
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  EXPECT_EQ(topology->attention[0].node, "attention-node-0");
  EXPECT_EQ(topology->experts[0].domain, "experts-node-0");
  EXPECT_EQ(topology->experts[1].node, "experts-node-0");
  plan.nodes = {1, 1};
  EXPECT_EQ(ComposeTopology(1, Workers(), plan, Model())->experts[1].domain, "experts-node-1");
}

TEST(ComposeTopology, IsTheSameForTheSameInputs) {
  const auto first = ComposeTopology(1, Workers(), Plan(), Model());
  const auto second = ComposeTopology(1, Workers(), Plan(), Model());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->config_hash, second->config_hash);
  EXPECT_EQ(first->placement, second->placement);
}

TEST(ComposeTopology, HashesWhateverMembersMustShare) {
  const std::string hash = ComposeTopology(1, Workers(), Plan(), Model())->config_hash;
  ServicePlan queue = Plan();
  queue.queued_requests = 9;
  EXPECT_NE(ComposeTopology(1, Workers(), queue, Model())->config_hash, hash);
  ServicePlan crossover = Plan();
  crossover.crossover_rows = 9;
  EXPECT_NE(ComposeTopology(1, Workers(), crossover, Model())->config_hash, hash);
  ServicePlan dtype = Plan();
  dtype.dtype = DType::kBFloat16;
  EXPECT_NE(ComposeTopology(1, Workers(), dtype, Model())->config_hash, hash);
  ServicePlan prefixes = Plan();
  prefixes.effective.prefix_cache = PrefixCache::kDisabled;
  EXPECT_NE(ComposeTopology(1, Workers(), prefixes, Model())->config_hash, hash);
  ServicePlan slots = Plan();
  slots.slots_per_instance = 3;
  EXPECT_NE(ComposeTopology(1, Workers(), slots, Model())->config_hash, hash);
  ModelDescription model = Model();
  model.attention.latent.emplace().rank = 512;
  EXPECT_NE(ComposeTopology(1, Workers(), Plan(), model)->config_hash, hash);
}

TEST(ComposeTopology, WhoHoldsRoomForSequencesKeepsIt) {
  ServicePlan plan = Plan();
  plan.max_batch_size = 8;
  plan.kv_bytes = 1000;
  plan.swap_bytes = 100;
  plan.prefix_host_bytes = 200;
  std::vector<WorkerSeen> workers = Workers();
  const auto fresh = ComposeTopology(1, workers, plan, Model());
  EXPECT_EQ(fresh->attention[0].sequences, (SequenceRoom{8, 128, 1000, 100, 200}));
  workers[0].held = SequenceRoom{700, 64, 5000, 0, 0};
  const auto topology = ComposeTopology(1, workers, plan, Model());
  EXPECT_EQ(topology->attention[0].sequences, *workers[0].held);
  EXPECT_EQ(topology->max_rows_per_round, 700) << "a row for each sequence that it may run";
  EXPECT_EQ(topology->experts[0].sequences, SequenceRoom());
}

TEST(ComposeTopology, WhoHasExpertsKeepsThem) {
  std::vector<WorkerSeen> workers = Workers();
  workers[1].experts = {{3, 1}, {0, 2}};
  const auto topology = ComposeTopology(1, workers, Plan(), Model());
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  constexpr uint16_t kEmpty = Placement::kEmpty;
  EXPECT_EQ(topology->placement.expert_of,
            (std::vector<uint16_t>{3, 1, kEmpty, 0, 2, kEmpty, 0, 2, kEmpty, 1, 3, kEmpty}));
}

TEST(ComposeTopology, WantsAWorkerOfEachRole) {
  std::vector<WorkerSeen> workers = Workers();
  workers.resize(1);
  EXPECT_EQ(ComposeTopology(1, workers, Plan(), Model()).status().message(),
            "topology: 1 attention and 0 expert instances; want at least one of each");
}

TEST(ComposeTopology, PassesOnWhatThePlacementRefuses) {
  ServicePlan plan = Plan();
  plan.slots_per_instance = 1;
  EXPECT_EQ(ComposeTopology(1, Workers(), plan, Model()).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::control
