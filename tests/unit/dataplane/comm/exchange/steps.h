#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/unit/dataplane/comm/exchange/members.h"

// Whole steps between nodes of several instances, over any exchange.
namespace janus::dataplane {

// Instances per node, by role.
struct Nodes {
  std::vector<int> attention;
  std::vector<int> experts;
};

inline ExchangeShape ShapeOfNodes(const Nodes& nodes, int micro_batches, int layers, int max_rows,
                                  Compression compression = Compression::kNone,
                                  FixedPointSums sums = {}) {
  const auto sum = [](const std::vector<int>& of) {
    return std::accumulate(of.begin(), of.end(), 0);
  };
  ExchangeShape shape = ShapeFor(sum(nodes.attention), sum(nodes.experts), micro_batches, max_rows,
                                 compression, std::move(sums));
  shape.layers = layers;
  for (const std::vector<int>* role : {&nodes.attention, &nodes.experts}) {
    for (size_t node = 0; node < role->size(); ++node) {
      shape.node_of.insert(shape.node_of.end(), static_cast<size_t>((*role)[node]),
                           static_cast<int>(node));
    }
  }
  return shape;
}

// One step: the instances that take part, and the rounds [layer][micro-batch]. A micro-batch has
// the same rows in every layer.
struct StepPlan {
  uint64_t step = 0;
  Participants takes_part;
  std::vector<std::vector<RoundPlan>> rounds;

  bool Sends(int a, int layer, int mb) const {
    const auto at = static_cast<size_t>(a);
    return takes_part[at] && (layer == 0 || rounds[0][static_cast<size_t>(mb)].rows[at] > 0);
  }
};

inline StepPlan RandomStep(Random& random, const ExchangeShape& shape, uint64_t step) {
  StepPlan plan;
  plan.step = step;
  for (int a = 0; a < shape.m; ++a) plan.takes_part.push_back(random.Chance(0.7));
  plan.takes_part[static_cast<size_t>(random.Between(0, shape.m - 1))] = true;
  for (int layer = 0; layer < shape.layers; ++layer) {
    std::vector<RoundPlan>& rounds = plan.rounds.emplace_back();
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      RoundPlan round = RandomRound(random, shape, KeyOf(step, layer, mb), shape.max_rows);
      for (size_t a = 0; a < plan.takes_part.size(); ++a) {
        const int rows = !plan.takes_part[a] ? 0
                         : layer == 0        ? round.rows[a]
                                             : plan.rounds[0][static_cast<size_t>(mb)].rows[a];
        round.rows[a] = rows;
        round.owner_of[a].clear();
        for (int cell = 0; cell < rows * shape.top_k; ++cell) {
          round.owner_of[a].push_back(random.Between(0, shape.n - 1));
        }
      }
      rounds.push_back(std::move(round));
    }
  }
  return plan;
}

// Runs steps as workers do, each member in its own thread. A member that takes no part in a step
// only waits. Then it passes messages on.
inline void RunSteps(Members& members, const ExchangeShape& shape,
                     const std::vector<StepPlan>& steps, uint64_t seed) {
  std::atomic<int> running{shape.m};
  const auto idle = [&](Transport& transport) {
    static_cast<void>(transport.Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                                     [&] { return running.load() == 0; }));
  };
  std::vector<std::jthread> threads;
  for (int a = 0; a < shape.m; ++a) {
    threads.emplace_back([&, a] {
      for (const StepPlan& step : steps) {
        members.attention(a).BeginStep(KeyOf(step.step), step.takes_part);
        for (int layer = 0; layer < shape.layers && !testing::Test::HasFailure(); ++layer) {
          for (int mb = 0; mb < shape.micro_batches; ++mb) {
            const auto at = static_cast<size_t>(mb);
            if (layer > 0 && step.Sends(a, layer - 1, mb)) {
              members.ExpectContributions(step.rounds[static_cast<size_t>(layer - 1)][at], a);
            }
            if (step.Sends(a, layer, mb)) {
              members.PostRows(step.rounds[static_cast<size_t>(layer)][at], a);
            }
          }
        }
        for (int mb = 0; mb < shape.micro_batches && !testing::Test::HasFailure(); ++mb) {
          if (!step.Sends(a, shape.layers - 1, mb)) continue;
          members.ExpectContributions(step.rounds.back()[static_cast<size_t>(mb)], a);
        }
      }
      --running;
      for (auto& member : members.network().members) member->Wake();
      idle(members.network().attention(a));
    });
  }
  for (int e = 0; e < shape.n; ++e) {
    threads.emplace_back([&, e] {
      Random own(MixSeed(seed, static_cast<uint64_t>(e)));
      for (const StepPlan& step : steps) {
        members.experts(e).BeginStep(KeyOf(step.step), step.takes_part);
        for (int layer = 0; layer < shape.layers; ++layer) {
          for (int mb = 0; mb < shape.micro_batches; ++mb) {
            const RoundPlan& round =
                step.rounds[static_cast<size_t>(layer)][static_cast<size_t>(mb)];
            for (int a = 0; a < shape.m && !testing::Test::HasFailure(); ++a) {
              if (step.Sends(a, layer, mb)) members.ExpectRows(round, e, a);
            }
            for (int a = 0; a < shape.m && !testing::Test::HasFailure(); ++a) {
              if (step.Sends(a, layer, mb)) members.PostContributions(round, e, a, own);
            }
          }
        }
      }
      idle(members.network().experts(e));
    });
  }
}

}  // namespace janus::dataplane
