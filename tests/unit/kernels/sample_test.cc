#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "common/philox.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

struct Drawn {
  Status status;
  std::vector<SampledToken> tokens;
};

Drawn Draw(const Stream& stream, const std::vector<std::vector<float>>& rows,
           const std::vector<SamplingParams>& params) {
  const auto vocab = static_cast<int64_t>(rows[0].size());
  std::vector<float> logits;
  for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
  const int threads = stream.team == nullptr ? 1 : stream.team->size();
  GuardedArray workspace(DType::kFloat32, SampleWorkspaceBytes(vocab, threads) / 4);
  Drawn drawn;
  drawn.tokens.resize(rows.size());
  drawn.status = Sample(stream, {.logits = logits.data(),
                                 .params = params.data(),
                                 .tokens = drawn.tokens.data(),
                                 .rows = static_cast<int64_t>(rows.size()),
                                 .vocab = vocab,
                                 .workspace = workspace.data(),
                                 .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
  EXPECT_TRUE(workspace.GuardsAreIntact());
  return drawn;
}

class SampleOnEveryDevice : public testing::Test {
 protected:
  template <class Check>
  void ForEachStream(Check check) {
    check(Stream{});
    for (const Isa isa : PresentIsas()) {
      for (const int threads : {1, 3}) {
        CpuStream cpu(isa, threads);
        check(cpu.stream);
      }
    }
  }
};

std::vector<float> RandomRow(int vocab, float deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> row(static_cast<size_t>(vocab));
  for (float& x : row) x = normal(random);
  return row;
}

TEST_F(SampleOnEveryDevice, ZeroTemperatureTakesTheLargestAndTiesTheLowerId) {
  ForEachStream([](const Stream& stream) {
    std::vector<float> row = RandomRow(1000, 1.0f, 1);
    row[700] = row[300] = row[999] = 9.0f;
    const Drawn drawn = Draw(stream, {row, row}, {{.temperature = 0.0f}, {.temperature = 1e-6f}});
    ASSERT_TRUE(drawn.status.ok());
    EXPECT_EQ(drawn.tokens[0].token, 300);
    EXPECT_EQ(drawn.tokens[1].token, 300);
  });
}

TEST_F(SampleOnEveryDevice, DrawsDependOnSeedAndPositionAlone) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> row = RandomRow(5000, 1.0f, 2);
    const SamplingParams params{.temperature = 0.8f, .seed = 77, .position = 12};
    const int32_t alone = Draw(stream, {row}, {params}).tokens[0].token;
    const std::vector<float> other = RandomRow(5000, 1.0f, 3);
    const Drawn together =
        Draw(stream, {other, row, other, row, row}, {{}, params, {.seed = 5}, params, params});
    EXPECT_EQ(together.tokens[1].token, alone);
    EXPECT_EQ(together.tokens[3].token, alone);
    EXPECT_EQ(together.tokens[4].token, alone);
    std::map<int32_t, int> seen;
    for (int64_t position = 0; position < 50; ++position) {
      SamplingParams next = params;
      next.position = position;
      ++seen[Draw(stream, {row}, {next}).tokens[0].token];
    }
    EXPECT_GT(seen.size(), 40u);
  });
}

// Which tokens are kept, with what probability: by the definition, in double.
std::map<int32_t, double> KeptByDefinition(const std::vector<float>& row,
                                           const SamplingParams& params) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](int32_t id) { return row[static_cast<size_t>(id)]; });
  if (params.top_k > 0)
    order.resize(std::min<size_t>(order.size(), static_cast<size_t>(params.top_k)));
  const double largest = row[static_cast<size_t>(order[0])];
  const auto weight = [&](int32_t id) {
    return std::exp((row[static_cast<size_t>(id)] - largest) / params.temperature);
  };
  double total = 0.0;
  for (const int32_t id : order) total += weight(id);
  double reached = 0.0;
  size_t prefix = 0;
  while (prefix < order.size() && reached < params.top_p * total)
    reached += weight(order[prefix++]);
  order.resize(std::max<size_t>(prefix, 1));
  total = 0.0;
  for (const int32_t id : order) total += weight(id);
  std::map<int32_t, double> kept;
  for (const int32_t id : order) kept[id] = weight(id) / total;
  return kept;
}

TEST_F(SampleOnEveryDevice, PicksTheTokenInWhoseIntervalTheUniformNumberFalls) {
  const std::vector<float> sharp = RandomRow(3001, 3.0f, 4);
  const std::vector<float> flat = RandomRow(3001, 0.01f, 5);
  ForEachStream([&](const Stream& stream) {
    for (const auto& row : {sharp, flat}) {
      for (const SamplingParams& base :
           {SamplingParams{}, SamplingParams{.temperature = 0.5f},
            SamplingParams{.temperature = 1.7f, .top_k = 40}, SamplingParams{.top_p = 0.9f},
            SamplingParams{.top_k = 5, .top_p = 0.5f}, SamplingParams{.top_p = 0.001f},
            SamplingParams{.top_k = 1}, SamplingParams{.top_k = 100000, .top_p = 0.999f}}) {
        const std::map<int32_t, double> kept = KeptByDefinition(row, base);
        for (uint64_t seed = 0; seed < 40; ++seed) {
          SamplingParams params = base;
          params.seed = seed;
          params.position = 9;
          const Drawn drawn = Draw(stream, {row}, {params});
          ASSERT_TRUE(drawn.status.ok());
          const int32_t token = drawn.tokens[0].token;
          double below = 0.0;
          for (const auto& [id, p] : kept) below += id < token ? p : 0.0;
          const double u = UniformAt(seed, 9);
          const auto it = kept.find(token);
          // A token at the very edge of what top-p keeps may differ by rounding.
          const double p = it == kept.end() ? 0.0 : it->second;
          EXPECT_GE(u, below - 2e-3) << "token " << token << " top_p " << base.top_p;
          EXPECT_LE(u, below + p + 2e-3) << "token " << token << " top_p " << base.top_p;
        }
      }
    }
  });
}

TEST_F(SampleOnEveryDevice, TopKBreaksTiesByTheLowerId) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> row(64, 1.0f);
    for (uint64_t seed = 0; seed < 64; ++seed) {
      const Drawn drawn = Draw(stream, {row}, {{.top_k = 3, .seed = seed}});
      EXPECT_LT(drawn.tokens[0].token, 3);
    }
  });
}

TEST_F(SampleOnEveryDevice, FollowsTheProbabilities) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> row = {std::log(0.1f), -INFINITY, std::log(0.6f), std::log(0.3f)};
    std::map<int32_t, int> seen;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      ++seen[Draw(stream, {row}, {{.seed = 3, .position = i}}).tokens[0].token];
    }
    EXPECT_NEAR(seen[0], 0.1 * kDraws, 100);
    EXPECT_EQ(seen.count(1), 0u);
    EXPECT_NEAR(seen[2], 0.6 * kDraws, 160);
    EXPECT_NEAR(seen[3], 0.3 * kDraws, 160);
  });
}

TEST_F(SampleOnEveryDevice, LogprobsAreOfTheLogitsAsGiven) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> row = {std::log(2.0f), std::log(5.0f), std::log(1.0f), std::log(2.0f)};
    const Drawn drawn = Draw(stream, {row, row, row},
                             {{.temperature = 0.0f, .logprobs = 3},
                              {.temperature = 0.3f, .logprobs = 20},
                              {.temperature = 0.0f, .logprobs = 0}});
    ASSERT_TRUE(drawn.status.ok());
    const SampledToken& first = drawn.tokens[0];
    EXPECT_NEAR(first.logprob, std::log(0.5), 1e-6);
    ASSERT_EQ(first.num_top, 3);
    EXPECT_EQ(first.top_tokens[0], 1);
    EXPECT_EQ(first.top_tokens[1], 0);
    EXPECT_EQ(first.top_tokens[2], 3);
    EXPECT_NEAR(first.top_logprobs[2], std::log(0.2), 1e-6);
    EXPECT_EQ(drawn.tokens[1].num_top, 4);
    EXPECT_EQ(drawn.tokens[2].num_top, 0);
    EXPECT_NEAR(drawn.tokens[2].logprob, std::log(0.5), 1e-6);
  });
}

TEST_F(SampleOnEveryDevice, AGivenTokenHasTheLogprobThatItHasWhenDrawn) {
  const std::vector<float> row = RandomRow(300, 2.0f, 9);
  ForEachStream([&](const Stream& stream) {
    const SamplingParams params{.temperature = 0.0f, .logprobs = 2};
    const SampledToken drawn = Draw(stream, {row}, {params}).tokens[0];
    const auto score = [&](int32_t given, SampledToken* out) {
      const int threads = stream.team == nullptr ? 1 : stream.team->size();
      GuardedArray workspace(DType::kFloat32, SampleWorkspaceBytes(300, threads) / 4);
      return Sample(stream, {.logits = row.data(),
                             .params = &params,
                             .tokens = out,
                             .given = &given,
                             .rows = 1,
                             .vocab = 300,
                             .workspace = workspace.data(),
                             .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    };
    SampledToken scored;
    if (stream.device == Device::kCuda) {
      EXPECT_EQ(score(0, &scored).code(), StatusCode::kInvalidArgument) << "on the host only";
      return;
    }
    for (int r = 0; r < 2; ++r) {
      ASSERT_TRUE(score(drawn.top_tokens[r], &scored).ok());
      EXPECT_EQ(scored.token, drawn.top_tokens[r]);
      EXPECT_EQ(scored.logprob, drawn.top_logprobs[r]);
      EXPECT_EQ(scored.top_tokens[1], drawn.top_tokens[1]);
    }
    ASSERT_TRUE(score(-1, &scored).ok());
    EXPECT_EQ(scored.token, drawn.token) << "-1 is drawn";
    EXPECT_EQ(score(300, &scored).code(), StatusCode::kInvalidArgument);
  });
}

TEST_F(SampleOnEveryDevice, NamesTheFirstRowItCannotDrawAndDrawsTheOthers) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> good = {0.0f, 5.0f, 1.0f};
    std::vector<float> nan = good;
    nan[2] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> infinite = good;
    infinite[0] = INFINITY;
    const std::vector<float> nothing(3, -INFINITY);
    for (const auto& bad : {nan, infinite, nothing}) {
      const SamplingParams greedy{.temperature = 0.0f};
      const Drawn drawn = Draw(stream, {good, bad, good}, {greedy, greedy, greedy});
      EXPECT_EQ(drawn.status.code(), StatusCode::kDataLoss);
      EXPECT_NE(drawn.status.message().find("row 1 "), std::string::npos);
      EXPECT_EQ(drawn.tokens[0].token, 1);
      EXPECT_EQ(drawn.tokens[1].token, -1);
      EXPECT_EQ(drawn.tokens[2].token, 1);
    }
  });
}

TEST_F(SampleOnEveryDevice, RefusesAbsurdValuesNamingTheRow) {
  ForEachStream([](const Stream& stream) {
    const std::vector<float> row = {0.0f, 1.0f};
    const auto message = [&](SamplingParams params) {
      const Drawn drawn = Draw(stream, {row, row}, {SamplingParams{}, params});
      EXPECT_EQ(drawn.status.code(), StatusCode::kInvalidArgument);
      return drawn.status.message();
    };
    EXPECT_NE(message({.temperature = -1.0f}).find("temperature"), std::string::npos);
    EXPECT_NE(message({.temperature = NAN}).find("row 1"), std::string::npos);
    EXPECT_NE(message({.top_k = -1}).find("top_k is -1"), std::string::npos);
    EXPECT_NE(message({.top_p = 0.0f}).find("top_p"), std::string::npos);
    EXPECT_NE(message({.top_p = NAN}).find("top_p"), std::string::npos);
    EXPECT_NE(message({.logprobs = 21}).find("logprobs is 21"), std::string::npos);
  });
}

TEST(HashLogits, ChangesWithEveryBitAndTheLength) {
  std::vector<float> row = RandomRow(257, 1.0f, 8);
  const uint64_t hash = HashLogits(row);
  EXPECT_EQ(HashLogits(row), hash);
  for (size_t i = 0; i < row.size(); ++i) {
    std::vector<float> changed = row;
    changed[i] = std::nextafter(changed[i], 100.0f);
    EXPECT_NE(HashLogits(changed), hash) << i;
  }
  std::vector<float> swapped = row;
  std::swap(swapped[3], swapped[5]);
  EXPECT_NE(HashLogits(swapped), hash);
  EXPECT_NE(HashLogits(std::span(row).first(256)), hash);
  const float zeros[2] = {0.0f, 0.0f};
  const float minus[2] = {0.0f, -0.0f};
  EXPECT_NE(HashLogits(zeros), HashLogits(minus));
  EXPECT_NE(HashLogits(zeros), HashLogits(std::span(zeros).first(1)));
}

}  // namespace
}  // namespace janus::kernels
