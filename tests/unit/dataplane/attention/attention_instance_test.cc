#include "dataplane/attention/attention_instance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "dataplane/attention/self_attention.h"
#include "dataplane/comm/transport/loopback.h"
#include "tests/support/contains.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/modular_grammar.h"
#include "tests/support/passing_exchange.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

class AttentionInstanceTest : public testing::Test {
 protected:
  LoopbackCluster::Options OptionsFor(int m, const std::vector<int>& slots) const {
    LoopbackCluster::Options options;
    options.topology = MakeTopology(m, slots, held_.model.layers, held_.model.moe.experts);
    options.attention.kv_bytes = 1 << 20;
    options.attention.swap_bytes = 1 << 20;
    options.attention.max_batch = 8;
    return options;
  }
  std::unique_ptr<LoopbackCluster> Start(const LoopbackCluster::Options& options) {
    shares_ = held_.Shares(options.topology.placement);
    return std::make_unique<LoopbackCluster>(options, held_.model, held_.attention,
                                             PointersTo(shares_));
  }
  static Request Ask(uint64_t id, int prompt, int max_tokens) {
    Request request;
    request.key = {1, id, 1};
    for (int i = 0; i < prompt; ++i) request.prompt.push_back((i * 7 + static_cast<int>(id)) % 80);
    request.max_tokens = max_tokens;
    return request;
  }

  const HeldModel held_ = SmallRandomModel(DType::kFloat32, 5);
  std::vector<ExpertWeights> shares_;
};

TEST_F(AttentionInstanceTest, RefusesTokensOutsideTheVocabulary) {
  const auto cluster = Start(OptionsFor(1, {7}));
  Request request = Ask(1, 3, 1);
  request.prompt[1] = held_.model.vocab;
  EXPECT_TRUE(Contains(cluster->attention(0).Submit(request).message(), "83"));
  request.prompt[1] = -1;
  EXPECT_EQ(cluster->attention(0).Submit(request).code(), StatusCode::kInvalidArgument);
  request.prompt.clear();
  EXPECT_EQ(cluster->attention(0).Submit(request).code(), StatusCode::kInvalidArgument);
}

// Without a limit, rows of the vocabulary beyond the tokenizer's are drawn here. With it they never
// are: not greedily, not at a high temperature, not with changed logits, not as a top token.
TEST_F(AttentionInstanceTest, DrawsNoTokenThatTheTokenizerDoesNotHave) {
  const auto run = [&](int vocabulary, float temperature, float bias) {
    LoopbackCluster::Options options = OptionsFor(1, {7});
    options.attention.vocabulary = vocabulary;
    const auto cluster = Start(options);
    Request request = Ask(1, 3, 40);
    for (int32_t& token : request.prompt) token %= 20;
    request.temperature = temperature;
    request.seed = 3;
    request.logprobs = 20;
    if (bias != 0.0f) request.changes = {.bias = {{1, bias}}};
    EXPECT_TRUE(cluster->attention(0).Submit(request).ok());
    return cluster->Await({1, 1, 1});
  };
  for (const float temperature : {0.0f, 2.0f}) {
    for (const float bias : {0.0f, 0.5f}) {
      const auto all = run(0, temperature, bias);
      EXPECT_GE(*std::max_element(all.tokens.begin(), all.tokens.end()), 20);
      const auto known = run(20, temperature, bias);
      EXPECT_EQ(known.tokens.size(), 40u);
      for (const int32_t token : known.tokens) EXPECT_LT(token, 20);
      for (const TokenEvent& event : known.events) {
        if (!event.has_logprobs) continue;
        EXPECT_EQ(event.logprobs.top.size(), 20u);
        for (const auto& [token, logprob] : event.logprobs.top) EXPECT_LT(token, 20);
      }
    }
  }
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.attention.vocabulary = 20;
  const auto cluster = Start(options);
  Request request = Ask(1, 3, 1);
  request.prompt = {19, 20};
  EXPECT_TRUE(Contains(cluster->attention(0).Submit(request).message(),
                       "token id 20 of the prompt: the vocabulary has 20"));
}

TEST_F(AttentionInstanceTest, AbsurdSamplingValuesAreRefusedAndHurtNobodyElse) {
  const auto cluster = Start(OptionsFor(1, {7}));
  const auto refused = [&](auto&& change, std::string_view field) {
    Request request = Ask(1, 3, 4);
    change(request);
    const Status status = cluster->attention(0).Submit(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
    EXPECT_TRUE(Contains(status.message(), field));
  };
  refused([](Request& r) { r.temperature = NAN; }, "temperature");
  refused([](Request& r) { r.temperature = -1.0f; }, "temperature");
  refused([](Request& r) { r.temperature = INFINITY; }, "temperature");
  refused([](Request& r) { r.top_k = -1; }, "top_k");
  refused([](Request& r) { r.top_p = 0.0f; }, "top_p");
  refused([](Request& r) { r.top_p = 1.5f; }, "top_p");
  refused([](Request& r) { r.top_p = NAN; }, "top_p");
  refused([](Request& r) { r.logprobs = 21; }, "logprobs");
  refused([](Request& r) { r.max_tokens = 0; }, "max_tokens");
  refused([](Request& r) { r.routed_from = -2; }, "routed_from");
  refused([](Request& r) { r.routed_from = 4; }, "routed_from");
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(2, 3, 4)).ok());
  EXPECT_EQ(cluster->Await({1, 2, 1}).tokens.size(), 4u);
}

TEST_F(AttentionInstanceTest, AbsurdChangesOfLogitsAreRefused) {
  const auto cluster = Start(OptionsFor(1, {7}));
  const auto refused = [&](SamplingChanges changes, std::string_view field) {
    Request request = Ask(1, 3, 4);
    request.changes = std::move(changes);
    const Status status = cluster->attention(0).Submit(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
    EXPECT_TRUE(Contains(status.message(), field));
  };
  refused({.bias = {}, .repetition_penalty = 0.0f}, "repetition_penalty");
  refused({.bias = {}, .repetition_penalty = NAN}, "repetition_penalty");
  refused({.bias = {}, .frequency_penalty = 3.0f}, "frequency_penalty");
  refused({.bias = {}, .presence_penalty = NAN}, "presence_penalty");
  refused({.bias = {}, .min_p = 1.5f}, "min_p");
  refused({.bias = {}, .min_tokens = -1}, "min_tokens");
  refused({.bias = {{held_.model.vocab, 1.0f}}}, "logit_bias");
  refused({.bias = {{1, NAN}}}, "logit_bias");
}

struct Bits {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;
  std::vector<float> logprobs;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits BitsOf(const LoopbackCluster::Outcome& outcome) {
  Bits bits{.tokens = outcome.tokens, .hashes = {}, .logprobs = {}};
  for (const TokenEvent& event : outcome.events) {
    if (event.has_logits_hash) bits.hashes.push_back(event.logits_hash);
    if (event.has_logprobs) bits.logprobs.push_back(event.logprobs.logprob);
  }
  return bits;
}

// Requests with and without changes of their logits, and with and without a grammar, run beside
// each other, alone, preempted and replayed. Each has the same bits every time.
TEST_F(AttentionInstanceTest, ChangesOfLogitsAreOfTheirOwnRequestAlone) {
  constexpr int kTokens = 8, kRequests = 8, kVariants = 4;
  const auto ask = [&](uint64_t id, int variant) {
    Request request = Ask(id, 5 + static_cast<int>(id), kTokens);
    request.temperature = id % 2 == 0 ? 0.0f : 0.9f;
    request.seed = id;
    request.logprobs = 2;
    request.want_logits_hash = true;
    if (variant >= 2) {
      request.grammar = std::make_shared<ModularGrammar>(static_cast<size_t>(held_.model.vocab),
                                                         kTokens, kTokens);
    }
    if (variant % 2 == 0) return request;
    request.changes = {.bias = {{3, 4.0f}, {7, -3.0f}},
                       .repetition_penalty = 1.5f,
                       .frequency_penalty = 0.8f,
                       .presence_penalty = 0.3f,
                       .min_p = 0.05f};
    return request;
  };
  std::map<std::pair<uint64_t, int>, Bits> alone;
  for (uint64_t id = 0; id < kRequests; ++id) {
    for (int variant = 0; variant < kVariants; ++variant) {
      const auto cluster = Start(OptionsFor(1, {7}));
      ASSERT_TRUE(cluster->attention(0).Submit(ask(id, variant)).ok());
      alone[{id, variant}] = BitsOf(cluster->Await({1, id, 1}));
      ASSERT_EQ(alone.at({id, variant}).tokens.size(), size_t{kTokens});
    }
  }
  for (int variant = 1; variant < kVariants; ++variant) {
    int differ = 0;
    for (uint64_t id = 0; id < kRequests; ++id) {
      differ += alone.at({id, 0}).tokens != alone.at({id, variant}).tokens ? 1 : 0;
    }
    EXPECT_GT(differ, 0) << "variant " << variant << " changes something";
  }

  LoopbackCluster::Options options = OptionsFor(1, {4, 3});
  options.steering.preempt_override = [](uint64_t step) { return step % 5 == 3; };
  auto together = Start(options);
  for (uint64_t id = 0; id < kRequests; ++id) {
    ASSERT_TRUE(together->attention(0).Submit(ask(id, static_cast<int>(id % kVariants))).ok());
  }
  for (uint64_t id = 0; id < kRequests; ++id) {
    EXPECT_EQ(BitsOf(together->Await({1, id, 1})), alone.at({id, static_cast<int>(id % kVariants)}))
        << id;
  }
  together.reset();  // destroy it before the next cluster reuses its memory of expert shares

  for (const int given : {1, kTokens - 1}) {
    const auto again = Start(OptionsFor(1, {7}));
    for (uint64_t id = 0; id < kRequests; ++id) {
      Request request = ask(id, 1 + static_cast<int>(id % 3));
      const Bits& whole = alone.at({id, 1 + static_cast<int>(id % 3)});
      request.generated.assign(whole.tokens.begin(), whole.tokens.begin() + given);
      ASSERT_TRUE(again->attention(0).Submit(request).ok());
    }
    for (uint64_t id = 0; id < kRequests; ++id) {
      const Bits rest = BitsOf(again->Await({1, id, 1}));
      const Bits& whole = alone.at({id, 1 + static_cast<int>(id % 3)});
      EXPECT_EQ(rest.tokens, std::vector(whole.tokens.begin() + given, whole.tokens.end()));
      EXPECT_EQ(rest.hashes, std::vector(whole.hashes.begin() + given, whole.hashes.end()));
    }
  }
}

TEST_F(AttentionInstanceTest, AnAnswerEndsWhereItsGrammarIsCompleteAndABrokenOneHurtsNoOther) {
  const auto cluster = Start(OptionsFor(1, {7}));
  const auto vocab = static_cast<size_t>(held_.model.vocab);
  Request complete = Ask(1, 5, 20), broken = Ask(2, 5, 20), other = Ask(3, 5, 4);
  complete.grammar = std::make_shared<ModularGrammar>(vocab, 3, 3);
  complete.ignore_stop_tokens = true;
  broken.grammar = std::make_shared<ModularGrammar>(vocab, 5, 5);
  broken.generated = {1};  // which that grammar does not allow
  for (const Request& request : {complete, broken, other}) {
    ASSERT_TRUE(cluster->attention(0).Submit(request).ok());
  }
  const LoopbackCluster::Outcome ended = cluster->Await(complete.key);
  EXPECT_EQ(ended.tokens.size(), 3u);
  EXPECT_EQ(ended.finish, FinishReason::kComplete);
  const LoopbackCluster::Outcome failed = cluster->Await(broken.key);
  EXPECT_EQ(failed.finish, FinishReason::kError);
  EXPECT_TRUE(Contains(failed.error.message(), "does not allow"));
  EXPECT_EQ(cluster->Await(other.key).tokens.size(), 4u);
}

// The log probability of a prompt token equals that of the same token as an answer to the tokens
// before it, however the prompt is cut into pieces.
TEST_F(AttentionInstanceTest, ScoresThePromptAsItWouldScoreAnAnswer) {
  constexpr int kPrompt = 23;
  Request request = Ask(1, kPrompt, 3);
  request.prompt_logprobs = 2;
  std::vector<std::vector<TokenLogprobs>> seen;
  for (const int chunk : {1, 4, 100}) {
    LoopbackCluster::Options options = OptionsFor(1, {7});
    options.steering.prefill_override = [chunk](uint64_t) { return chunk; };
    options.steering.preempt_override = [](uint64_t step) { return step % 4 == 2; };
    const auto cluster = Start(options);
    ASSERT_TRUE(cluster->attention(0).Submit(request).ok());
    const LoopbackCluster::Outcome outcome = cluster->Await(request.key);
    ASSERT_EQ(outcome.tokens.size(), 3u);
    std::vector<TokenLogprobs> scores;
    bool has_token = false;
    for (const TokenEvent& event : outcome.events) {
      has_token |= event.token >= 0;
      if (event.prompt_logprobs.empty()) continue;
      EXPECT_FALSE(has_token) << "all come before the first token";
      EXPECT_EQ(event.prompt_logprobs_from, static_cast<int>(scores.size()) + 1);
      scores.insert(scores.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
    }
    ASSERT_EQ(scores.size(), size_t{kPrompt} - 1);
    seen.push_back(scores);
  }
  for (const auto& scores : seen) {
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_EQ(scores[i].logprob, seen[0][i].logprob) << i;
      EXPECT_EQ(scores[i].top, seen[0][i].top) << i;
      EXPECT_LE(scores[i].logprob, scores[i].top[0].second);
    }
  }
  // A bias that outweighs everything forces the token as an answer.
  for (const int position : {1, 9, kPrompt - 1}) {
    const auto cluster = Start(OptionsFor(1, {7}));
    Request forced = Ask(1, kPrompt, 1);
    const int32_t token = forced.prompt[static_cast<size_t>(position)];
    forced.prompt.resize(static_cast<size_t>(position));
    forced.changes.bias = {{token, 100.0f}};
    forced.logprobs = 0;
    ASSERT_TRUE(cluster->attention(0).Submit(forced).ok());
    const LoopbackCluster::Outcome outcome = cluster->Await(forced.key);
    ASSERT_EQ(outcome.tokens, std::vector<int32_t>{token});
    EXPECT_EQ(outcome.events.back().logprobs.logprob,
              seen[0][static_cast<size_t>(position) - 1].logprob);
  }
}

// One event's experts continue those before it, and come no later than the tokens of their
// positions.
std::vector<uint16_t> ExpertsIn(const LoopbackCluster::Outcome& outcome, int from, size_t width,
                                int given_positions) {
  std::vector<uint16_t> all;
  int tokens = 0;
  for (const TokenEvent& event : outcome.events) {
    if (!event.routed.empty()) {
      EXPECT_EQ(event.routed_from, from + static_cast<int>(all.size() / width));
      EXPECT_EQ(event.routed.size() % width, 0u);
      all.insert(all.end(), event.routed.begin(), event.routed.end());
    }
    if (event.token < 0) continue;
    EXPECT_EQ(from + static_cast<int>(all.size() / width), given_positions + tokens++);
  }
  return all;
}

TEST_F(AttentionInstanceTest, ReportsTheExpertsOfEachPositionOnceWhateverHappens) {
  constexpr int kPrompt = 23, kTokens = 6;
  const auto width = static_cast<size_t>(held_.model.layers * held_.model.moe.top_k);
  Request request = Ask(1, kPrompt, kTokens);
  request.routed_from = 0;
  std::vector<uint16_t> first;
  std::vector<int32_t> tokens;
  for (const int chunk : {1, 4, 100}) {
    for (const int micro_batches : {1, 2}) {
      for (const int64_t swap_bytes : {0, 1 << 20}) {
        LoopbackCluster::Options options =
            chunk == 4 ? OptionsFor(2, {3, 5, 4}) : OptionsFor(1, {7});
        options.topology.micro_batches = micro_batches;
        options.attention.swap_bytes = swap_bytes;
        options.steering.prefill_override = [chunk](uint64_t) { return chunk; };
        // What is dropped is computed again from the start, so it must come to an end.
        options.steering.preempt_override = [](uint64_t step) {
          return step % 4 == 2 && step < 30;
        };
        const auto cluster = Start(options);
        ASSERT_TRUE(cluster->attention(0).Submit(request).ok());
        ASSERT_TRUE(cluster->attention(0).Submit(Ask(2, 9, 3)).ok());
        const LoopbackCluster::Outcome outcome = cluster->Await(request.key);
        const std::vector<uint16_t> experts = ExpertsIn(outcome, 0, width, kPrompt);
        ASSERT_EQ(experts.size(), (kPrompt + kTokens - 1) * width);
        if (first.empty()) {
          first = experts;
          tokens = outcome.tokens;
        }
        EXPECT_EQ(experts, first) << chunk << " " << micro_batches << " " << swap_bytes;
        for (const TokenEvent& event : cluster->Await({1, 2, 1}).events) {
          EXPECT_TRUE(event.routed.empty()) << "it did not ask";
        }
      }
    }
  }
  for (const uint16_t expert : first) EXPECT_LT(expert, held_.model.moe.experts);
  EXPECT_GT(std::set(first.begin(), first.end()).size(), 2u);
  // From within the prompt, and behind the tokens of a replay, it reports the rest.
  const auto rest = [&](int from, std::vector<int32_t> generated) {
    const auto cluster = Start(OptionsFor(1, {7}));
    Request later = request;
    const int positions = kPrompt + static_cast<int>(generated.size());
    later.routed_from = from;
    later.generated = std::move(generated);
    EXPECT_TRUE(cluster->attention(0).Submit(later).ok());
    return ExpertsIn(cluster->Await(later.key), from, width, positions);
  };
  const auto behind = [&](int position) {
    return std::vector<uint16_t>(
        first.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(position) * width), first.end());
  };
  EXPECT_EQ(rest(9, {}), behind(9));
  EXPECT_EQ(rest(kPrompt, {}), behind(kPrompt));
  EXPECT_EQ(rest(kPrompt + 2, {tokens[0], tokens[1], tokens[2]}), behind(kPrompt + 2));
}

// The experts come from other processes: one that does not exist fails the round, and no other.
TEST_F(AttentionInstanceTest, AnExpertThatDoesNotExistGivesTheStepUp) {
  struct Lying final : PassingExchange {
    Lying(std::unique_ptr<AttentionExchange> inner, std::atomic<int>& lies, int experts)
        : PassingExchange(std::move(inner)),
          left(lies),
          wrong(64, static_cast<uint16_t>(experts)) {}
    std::span<const uint16_t> Experts(int micro_batch) const override {
      const auto true_ones = PassingExchange::Experts(micro_batch);
      return left-- > 0 ? std::span(wrong).first(true_ones.size()) : true_ones;
    }
    std::atomic<int>& left;
    const std::vector<uint16_t> wrong;
  };
  std::atomic<int> lies = 1;
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.wrap_exchange = [&](std::unique_ptr<AttentionExchange> inner) {
    return std::make_unique<Lying>(std::move(inner), lies, held_.model.moe.experts);
  };
  const auto cluster = Start(options);
  Request request = Ask(1, 5, 4);
  request.routed_from = 0;
  ASSERT_TRUE(cluster->attention(0).Submit(request).ok());
  const LoopbackCluster::Outcome outcome = cluster->Await(request.key);
  EXPECT_EQ(outcome.tokens.size(), 4u);
  const auto width = static_cast<size_t>(held_.model.layers * held_.model.moe.top_k);
  EXPECT_EQ(ExpertsIn(outcome, 0, width, 5).size(), 8 * width);
  EXPECT_EQ(cluster->attention(0).statistics().steps_aborted, 1u);
}

TEST_F(AttentionInstanceTest, ARequestThatCanNeverRunEndsWithAnError) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.attention.max_model_len = 20;
  const auto cluster = Start(options);
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 20, 4)).ok());
  const LoopbackCluster::Outcome outcome = cluster->Await({1, 1, 1});
  EXPECT_EQ(outcome.finish, FinishReason::kError);
  EXPECT_EQ(outcome.error.code(), StatusCode::kInvalidArgument) << "the client's to mend";
  EXPECT_TRUE(Contains(outcome.error.message(), "at most 19"));
}

TEST_F(AttentionInstanceTest, UnsoundLogitsEndTheirOwnRequestAndNoOther) {
  constexpr int kUnsound = 81;  // no other prompt holds it
  const auto* table = static_cast<const float*>(held_.attention.embedding.data);
  const auto hidden = static_cast<size_t>(held_.model.hidden);
  std::vector<float> broken(table, table + static_cast<size_t>(held_.model.vocab) * hidden);
  broken[kUnsound * hidden] = NAN;
  AttentionWeights weights = held_.attention;
  weights.embedding.data = broken.data();
  const LoopbackCluster::Options options = OptionsFor(1, {7});
  shares_ = held_.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held_.model, weights, PointersTo(shares_));
  Request unsound = Ask(1, 3, 5);
  unsound.prompt.back() = kUnsound;
  ASSERT_TRUE(cluster.attention(0).Submit(Ask(2, 3, 5)).ok());
  ASSERT_TRUE(cluster.attention(0).Submit(unsound).ok());
  ASSERT_TRUE(cluster.attention(0).Submit(Ask(3, 3, 5)).ok());
  const LoopbackCluster::Outcome outcome = cluster.Await(unsound.key);
  EXPECT_EQ(outcome.error.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Contains(outcome.error.message(), "position 2"));
  for (const uint64_t id : {2u, 3u}) EXPECT_EQ(cluster.Await({1, id, 1}).tokens.size(), 5u);
}

TEST_F(AttentionInstanceTest, HashesOfLogitsAreRefusedWhereTheServiceMakesNone) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.attention.logits_hashes = false;
  const auto cluster = Start(options);
  Request request = Ask(1, 3, 1);
  request.want_logits_hash = true;
  const Status refused = cluster->attention(0).Submit(request);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(refused.message(), "--debug-logits-hash"));
}

TEST_F(AttentionInstanceTest, WhatWaitsIsCountedWhileNoStepEnds) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.idle = {0};  // its step thread never runs
  const auto cluster = Start(options);
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 3, 1)).ok());
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(2, 3, 1)).ok());
  const InstanceStatistics statistics = cluster->attention(0).statistics();
  EXPECT_EQ(statistics.waiting, 2u);
  EXPECT_EQ(statistics.load->awaiting, 2u);
  EXPECT_EQ(statistics.load->waiting_prompt_tokens, 6u);
  EXPECT_GT(statistics.load->oldest_waiting_seconds, 0);
}

TEST_F(AttentionInstanceTest, TheQueueIsBounded) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.pace.max_waiting = 4;
  options.attention.max_batch = 1;
  const auto cluster = Start(options);
  int taken = 0;
  for (uint64_t id = 1; id <= 50; ++id) {
    const Status status = cluster->attention(0).Submit(Ask(id, 30, 60));
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    } else {
      ++taken;
    }
  }
  EXPECT_GE(taken, 4);
  EXPECT_LT(taken, 50);
}

TEST_F(AttentionInstanceTest, SaysHowItsTimeWasSpent) {
  const auto cluster = Start(OptionsFor(2, {4, 4}));
  ASSERT_TRUE(cluster->attention(1).Submit(Ask(1, 9, 6)).ok());
  cluster->Await({1, 1, 1});
  // The step thread publishes statistics before it emits tokens.
  const InstanceStatistics statistics = cluster->attention(1).statistics();
  EXPECT_EQ(statistics.tokens, 6u);
  EXPECT_EQ(statistics.rows, 14u);
  EXPECT_EQ(statistics.running, 0u);
  EXPECT_GT(statistics.step_seconds_median, 0.0);
  // The prompt's nine rows drew the first token; five more steps had a row of the sequence each,
  // which attended to itself and to all before it.
  const LoadCounts& load = *statistics.load;
  EXPECT_EQ(load.prompt_rows, 9u);
  EXPECT_EQ(load.prompt_keys, 9u * 10 / 2);
  EXPECT_EQ(load.decode_rows, 5u);
  EXPECT_EQ(load.decode_keys, 10u + 11 + 12 + 13 + 14);
  EXPECT_GT(load.attention_seconds, 0);
  EXPECT_GT(load.exchange_seconds, 0);
  EXPECT_GE(load.step_seconds, statistics.compute_seconds + statistics.wait_seconds);
  EXPECT_EQ(load.decoding, 0u);
  EXPECT_EQ(load.decoding_kv_tokens, 0u);
  EXPECT_EQ(load.awaiting, 0u);
  EXPECT_EQ(load.waiting_prompt_tokens, 0u);
  EXPECT_EQ(load.oldest_waiting_seconds, 0);
  EXPECT_EQ(cluster->attention(0).statistics().steps, 0u) << "it had no work: it takes no part";
}

uint64_t CountOf(const Histogram& histogram) {
  uint64_t count = 0;
  for (const uint64_t some : histogram.Sample().counts) count += some;
  return count;
}

double SumOf(const Histogram& histogram) {
  return histogram.Sample().sum;
}

TEST_F(AttentionInstanceTest, MeasuresEveryStepAndEveryRound) {
  StepMetrics metrics;
  LoopbackCluster::Options options = OptionsFor(2, {4, 4});
  options.topology.micro_batches = 2;
  options.attention.metrics = &metrics;  // of both instances
  const auto cluster = Start(options);
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(cluster->attention(1).Submit(Ask(id, 9, 6)).ok());
  }
  for (uint64_t id = 1; id <= 2; ++id) cluster->Await({1, id, 1});
  EXPECT_TRUE(cluster->Stop().ok());  // a last step, which has no rows, may still run
  const InstanceStatistics statistics = cluster->attention(1).statistics();
  EXPECT_EQ(CountOf(metrics.step), statistics.steps);
  EXPECT_EQ(CountOf(metrics.wait_coordinator), statistics.steps);
  EXPECT_EQ(CountOf(metrics.wait_peer), statistics.steps);
  EXPECT_NEAR(SumOf(metrics.wait_peer), statistics.wait_seconds, 1e-9);
  EXPECT_NEAR(SumOf(metrics.step), statistics.wait_seconds + statistics.compute_seconds, 1e-9);
  const auto layers = static_cast<uint64_t>(held_.model.moe_layers());
  const uint64_t rounds = CountOf(metrics.attention);
  EXPECT_GE(rounds, 6 * layers);
  EXPECT_LE(rounds, statistics.steps * layers * 2);
  const StepMetrics::Exchange& exchange = metrics.Of(options.topology.mode);
  EXPECT_EQ(CountOf(exchange.send), rounds);
  EXPECT_EQ(CountOf(exchange.receive), rounds);
  EXPECT_EQ(CountOf(metrics.combine), rounds);
  EXPECT_EQ(CountOf(metrics.shared_experts), held_.model.moe.shared_intermediate > 0 ? rounds : 0u);
  EXPECT_GT(SumOf(metrics.attention), 0);
  EXPECT_LE(SumOf(exchange.receive), statistics.wait_seconds + 1e-9);
  EXPECT_LE(SumOf(metrics.attention) + SumOf(metrics.combine), statistics.compute_seconds);
}

// Each call is a second later, and never behind the machine's clock, which ends waits.
class StridingClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    return MonotonicClock::now() + std::chrono::seconds(strides_.fetch_add(1));
  }
  WallTime WallNow() const override { return {}; }
  void Advance(int64_t seconds) { strides_ += seconds; }

 private:
  mutable std::atomic<int64_t> strides_ = 0;
};

TEST_F(AttentionInstanceTest, WaitsForTheCoordinatorFromHavingWorkToTheNextStep) {
  constexpr int64_t kIdle = 1'000'000;
  StepMetrics metrics;
  StridingClock clock;
  LoopbackCluster::Options options = OptionsFor(1, {7});
  options.attention.metrics = &metrics;
  options.clock = &clock;
  options.attention.max_model_len = 20;
  const auto cluster = Start(options);
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 9, 6)).ok());
  cluster->Await({1, 1, 1});
  EXPECT_GE(SumOf(metrics.wait_coordinator), 6) << "once before each step";
  // A request that can never run is answered between steps. The first answer may come before a last
  // step, which has no rows; the second comes after it.
  for (uint64_t id = 3; id <= 4; ++id) {
    ASSERT_TRUE(cluster->attention(0).Submit(Ask(id, 20, 1)).ok());
    EXPECT_EQ(cluster->Await({1, id, 1}).finish, FinishReason::kError);
  }
  clock.Advance(kIdle);
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(2, 9, 6)).ok());
  cluster->Await({1, 2, 1});
  EXPECT_GE(SumOf(metrics.wait_coordinator), 12);
  EXPECT_LT(SumOf(metrics.wait_coordinator), kIdle) << "it had no work";
}

TEST_F(AttentionInstanceTest, CountsRequestsByTheTimeOfTheirTokens) {
  const auto cluster = Start(OptionsFor(1, {7}));
  const MonotonicTime start = MonotonicClock::now();
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 9, 6)).ok());
  cluster->Await({1, 1, 1});
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(2, 9, 1)).ok());
  cluster->Await({1, 2, 1});
  Request replay = Ask(3, 9, 6);
  replay.generated = {1, 2, 3};
  ASSERT_TRUE(cluster->attention(0).Submit(replay).ok());
  cluster->Await({1, 3, 1});
  const Seconds all = MonotonicClock::now() - start;
  const auto count = [](const LatencyCounts& counts) {
    uint64_t sum = 0;
    for (const uint64_t some : counts.counts) sum += some;
    return sum;
  };
  const InstanceStatistics statistics = cluster->attention(0).statistics();
  EXPECT_EQ(count(statistics.tpot_counts), 2u) << "one token alone has no time per token";
  EXPECT_EQ(count(statistics.ttft_counts), 2u) << "the first token of a replay was there before";
  EXPECT_LE(statistics.ttft_counts.Percentile(1)->count(), 1.1 * all.count() + 0.001);
  EXPECT_EQ(statistics.replayed, 3u);
}

TEST_F(AttentionInstanceTest, SequencesInHostMemoryAreToldWhileTheyAreThere) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  // Three pages for three sequences that each need two in the end.
  options.attention.kv_bytes =
      3 * held_.model.layers * CachePageBytes(held_.model, WireType(held_.model));
  std::atomic<AttentionInstance*> instance = nullptr;
  std::atomic<uint64_t> most = 0;
  options.steering.prefill_override = [&](uint64_t) {
    if (instance != nullptr) most = std::max<uint64_t>(most, instance.load()->statistics().swapped);
    return 64;
  };
  const auto cluster = Start(options);
  instance = &cluster->attention(0);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(cluster->attention(0).Submit(Ask(id, 12, 20)).ok());
  }
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(cluster->Await({1, id, 1}).tokens.size(), 20u);
  }
  EXPECT_GE(most, 1u);
  EXPECT_LE(most, 2u);
  EXPECT_GT(cluster->attention(0).statistics().preempted, 0u);
  EXPECT_EQ(cluster->attention(0).statistics().swapped, 0u);
}

// A page of 16 positions is smaller by as many bytes as the format defines; it includes `heads`
// scales.
TEST_F(AttentionInstanceTest, ACacheInFp8HoldsMorePositions) {
  LoopbackCluster::Options options = OptionsFor(1, {7});
  const int64_t layers = held_.model.layers;
  const int64_t fp8 = CachePageBytes(held_.model, DType::kFloat8E4M3);
  const int64_t plain = CachePageBytes(held_.model, WireType(held_.model));
  const AttentionDescription& a = held_.model.attention;
  ASSERT_EQ(fp8, int64_t{2} * a.kv_heads * kernels::kPageTokens * (a.head_dim + 4));
  options.attention.kv_bytes = layers * (6 * plain + fp8 / 2);
  EXPECT_EQ(Start(options)->attention(0).statistics().kv_tokens_capacity, 6u * 16);
  options.attention.fp8_cache = true;
  EXPECT_EQ(Start(options)->attention(0).statistics().kv_tokens_capacity,
            static_cast<uint64_t>((6 * plain + fp8 / 2) / fp8) * 16);
  EXPECT_GT((6 * plain + fp8 / 2) / fp8, 9);
}

TEST_F(AttentionInstanceTest, GivesLogprobsOfTheTokenAndOfTheLikeliest) {
  const auto cluster = Start(OptionsFor(1, {7}));
  Request request = Ask(1, 5, 3);
  request.logprobs = 4;
  ASSERT_TRUE(cluster->attention(0).Submit(request).ok());
  const LoopbackCluster::Outcome outcome = cluster->Await(request.key);
  ASSERT_EQ(outcome.events.size(), 3u);
  for (const TokenEvent& event : outcome.events) {
    ASSERT_TRUE(event.has_logprobs);
    ASSERT_EQ(event.logprobs.top.size(), 4u);
    EXPECT_EQ(event.logprobs.top[0].first, event.token) << "greedy";
    EXPECT_EQ(event.logprobs.top[0].second, event.logprobs.logprob);
    EXPECT_LE(event.logprobs.logprob, 0.0f);
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_LE(event.logprobs.top[i].second, event.logprobs.top[i - 1].second);
    }
  }
}

// An idle instance reads its tickets when it gets CPU time. However long that takes, it delays no
// other member and breaks nothing.
TEST_F(AttentionInstanceTest, AnIdlePeerThatDoesNotReadItsTicketsStopsNobody) {
  LoopbackCluster::Options options = OptionsFor(2, {7});
  options.idle = {1};  // connected, and never run
  const auto cluster = Start(options);
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(cluster->attention(0).Submit(Ask(id, 4, 100)).ok());
    EXPECT_EQ(cluster->Await({1, id, 1}).tokens.size(), 100u);
  }
}

// Only the coordinator is real; the test plays all other members.
class CoordinatorAlone {
 public:
  CoordinatorAlone(const HeldModel& held, int m, const std::vector<int>& slots,
                   StepDeadlines deadlines = {})
      : topology_(MakeTopology(m, slots, held.model.layers, held.model.moe.experts)) {
    const ExchangeShape shape =
        ShapeOf(topology_, held.model.hidden, held.model.moe.top_k, WireType(held.model));
    LoopbackNetwork network(LayoutFor(topology_.mode, shape, PeerId{}));
    own_ = network.Connect(kSelf, {});
    for (const PeerId& peer : PeersOf(own_->layout())) peers_[peer] = network.Connect(peer, {});
    exchange_ = std::move(*MakeAttentionExchange(shape, *own_));
    AttentionOptions options;
    options.kv_bytes = 1 << 20;
    options.max_batch = 8;
    AttentionPace pace;
    pace.deadlines = deadlines;
    options.log = Logger(2, LogLevel::kError);
    instance_ =
        std::move(*AttentionInstance::Create(options, held.model, held.attention, sink_, clock_));
    epoch_ = std::move(
        *instance_->Enter(topology_, Rank{0}, *own_, *exchange_, kernels::Stream{}, pace));
    runs_ = std::jthread([this](std::stop_token stop) { ended_ = instance_->Run(*epoch_, stop); });
  }
  // Stops it, or waits for its end; returns its status.
  Status Stop() {
    runs_.request_stop();
    return Join();
  }
  Status Join() {
    runs_.join();
    return ended_;
  }

  void Say(PeerId from, MessageKind kind, uint64_t step, std::span<const std::byte> payload = {}) {
    Say(from, kind, step, 0, 1, payload);
  }
  void SayMiss(PeerId from, uint64_t step, uint16_t layer, RoundTrouble trouble,
               std::string_view why) {
    Say(from, MessageKind::kMiss, step, layer, static_cast<uint32_t>(trouble), WriteReason(why));
  }
  void SayDemand(PeerId from, uint64_t step) {
    const Demand demand = OneRow();
    Say(from, MessageKind::kDemand, step, std::as_bytes(std::span(&demand, 1)));
  }
  void SayLeft(PeerId from, uint64_t step, uint64_t newest) {
    Left left{newest, {}};
    if (from.role == Role::kAttention) left.demand = OneRow();
    Say(from, MessageKind::kLeft, step, std::as_bytes(std::span(&left, 1)));
  }
  // The next message to a member: its kind and step.
  std::pair<MessageKind, uint64_t> Hear(PeerId member) {
    Header header;
    std::vector<std::byte> payload;
    Transport& transport = *peers_[member];
    const Status waited = transport.Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                                         [&] { return transport.Receive(kSelf, header, payload); });
    EXPECT_TRUE(waited.ok()) << waited.ToString();
    return {header.kind, header.step};
  }

 private:
  static constexpr PeerId kSelf{Role::kAttention, Rank{0}};
  class NoSink final : public TokenSink {
    void Push(StepOutput&&) override {}
  };
  void Say(PeerId from, MessageKind kind, uint64_t step, uint16_t layer, uint32_t count,
           std::span<const std::byte> payload) {
    RoundKey key;
    key.epoch = 1;
    key.step = step;
    key.layer = layer;
    const Header header = MakeHeader(kind, key, static_cast<uint16_t>(from.rank.value), count);
    ASSERT_TRUE(peers_[from]->Send(kSelf, header, payload).ok());
  }
  static Demand OneRow() {
    Demand demand;
    demand.decode_rows = demand.last_decode_rows = 1;
    demand.last_step_ns = 1'000'000'000;  // so that the patience is a tenth of a second
    return demand;
  }

  const Topology topology_;
  const SystemClock clock_;
  NoSink sink_;
  std::unique_ptr<Transport> own_;
  std::map<PeerId, std::unique_ptr<Transport>> peers_;
  std::unique_ptr<AttentionExchange> exchange_;
  std::unique_ptr<AttentionInstance> instance_;
  std::unique_ptr<AttentionEpoch> epoch_;
  Status ended_;
  std::jthread runs_;
};

constexpr PeerId kAttention1{Role::kAttention, Rank{1}};
constexpr PeerId kAttention2{Role::kAttention, Rank{2}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
using Heard = std::pair<MessageKind, uint64_t>;

TEST_F(AttentionInstanceTest, AnIdleCoordinatorGoesOnWhenItsPatienceEnds) {
  CoordinatorAlone coordinator(held_, 3, {7});
  coordinator.SayDemand(kAttention2, 1);
  EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kTicket, 1));
  // Attention 2, which takes part in step 1, sends nothing more.
  coordinator.SayDemand(kAttention1, 2);
  EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kTicket, 2));
  EXPECT_TRUE(coordinator.Stop().ok());
}

TEST_F(AttentionInstanceTest, HoweverManyMissAStepItIsGivenUpOnce) {
  CoordinatorAlone coordinator(held_, 2, {7});
  coordinator.SayDemand(kAttention1, 1);
  for (uint64_t step = 1; step <= 3; ++step) {
    for (const PeerId& member : {kAttention1, kExperts0}) {
      EXPECT_EQ(coordinator.Hear(member), Heard(MessageKind::kTicket, step));
    }
    coordinator.Say(kExperts0, MessageKind::kMiss, step);
    coordinator.Say(kAttention1, MessageKind::kMiss, step);
    for (const PeerId& member : {kAttention1, kExperts0}) {
      EXPECT_EQ(coordinator.Hear(member), Heard(MessageKind::kAbort, step));
      coordinator.SayLeft(member, step, step);
    }
    coordinator.Say(kExperts0, MessageKind::kMiss, step);  // late: it gives up nothing
  }
  for (const PeerId& member : {kAttention1, kExperts0}) {
    EXPECT_EQ(coordinator.Hear(member), Heard(MessageKind::kTicket, 4));
  }
  EXPECT_TRUE(coordinator.Stop().ok());
}

TEST_F(AttentionInstanceTest, NoTicketIsIssuedBeforeAllHaveLeftAndTheSilentAreToldAgain) {
  CoordinatorAlone coordinator(held_, 2, {7}, {Seconds(0.05), Scaled(Seconds(30))});
  coordinator.SayDemand(kAttention1, 1);
  for (const PeerId& member : {kAttention1, kExperts0}) {
    EXPECT_EQ(coordinator.Hear(member), Heard(MessageKind::kTicket, 1));
  }
  coordinator.Say(kAttention1, MessageKind::kMiss, 1);
  EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kAbort, 1));
  coordinator.SayLeft(kAttention1, 1, 1);
  for (int told = 0; told < 3; ++told) {
    EXPECT_EQ(coordinator.Hear(kExperts0), Heard(MessageKind::kAbort, 1));
  }
  // The next message to attention 1. On a slow machine the kAbort is repeated before its kLeft
  // arrives.
  const auto hear_after = [&](const Heard& told) {
    Heard heard = told;
    while (heard == told && !HasFailure()) heard = coordinator.Hear(kAttention1);
    return heard;
  };
  // It reports a ticket that was never issued: all members leave that one too.
  coordinator.SayLeft(kExperts0, 1, 5);
  const Heard all_leave(MessageKind::kAbort, 5);
  EXPECT_EQ(hear_after(Heard(MessageKind::kAbort, 1)), all_leave);
  for (const PeerId& member : {kAttention1, kExperts0}) coordinator.SayLeft(member, 5, 5);
  EXPECT_EQ(hear_after(all_leave), Heard(MessageKind::kTicket, 6));
  EXPECT_TRUE(coordinator.Stop().ok());
}

TEST_F(AttentionInstanceTest, WhoDoesNotLeaveAGivenUpStepIsNamed) {
  CoordinatorAlone coordinator(held_, 2, {7}, {Scaled(Seconds(30)), Scaled(Seconds(0.5))});
  coordinator.SayDemand(kAttention1, 1);
  EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kTicket, 1));
  const std::string why = "waiting for the contributions of experts 0";
  coordinator.Say(kAttention1, MessageKind::kMiss, 1, std::as_bytes(std::span(why)));
  EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kAbort, 1));
  coordinator.SayLeft(kAttention1, 1, 1);
  EXPECT_EQ(coordinator.Join(),
            DeadlineExceeded("step 1 is given up (attention 1 missed step 1 MoE layer 0: " + why +
                             "), but still in it: experts 0"));
}

// The member that waits first is the first to miss a round, even if the fault is two rounds away.
TEST_F(AttentionInstanceTest, TheReasonIsTheWordOfWhomNobodyElseHeldUp) {
  struct Word {
    PeerId by;
    uint64_t step;
    uint16_t layer;
    RoundTrouble trouble;
  };
  constexpr auto kAwaited = RoundTrouble::kAwaited, kUnusable = RoundTrouble::kUnusable;
  const auto text = [](const Word& word) {
    return "word of " + ToString(word.by) + " on layer " + std::to_string(word.layer);
  };
  const auto reason = [&](const Word& word) {
    return ToString(word.by) + " missed step 2 MoE layer " + std::to_string(word.layer) + ": " +
           text(word);
  };
  const std::vector<std::pair<std::vector<Word>, size_t>> cases = {
      {{{kExperts0, 2, 1, kAwaited}, {kAttention1, 2, 0, kAwaited}}, 1},
      {{{kAttention1, 2, 0, kAwaited}, {kExperts0, 2, 1, kAwaited}}, 0},
      {{{kAttention1, 2, 1, kAwaited}, {kExperts0, 2, 1, kAwaited}}, 1},  // rows come first
      {{{kExperts0, 2, 1, kAwaited}, {kAttention1, 2, 1, kAwaited}}, 0},
      {{{kExperts0, 2, 0, kAwaited}, {kAttention1, 2, 1, kUnusable}}, 1},
      {{{kAttention1, 2, 1, kUnusable}, {kExperts0, 2, 0, kAwaited}}, 0},
      {{{kAttention1, 2, 1, kUnusable}, {kExperts0, 2, 0, kUnusable}}, 0},
      {{{kExperts0, 2, 1, kAwaited}, {kAttention1, 1, 0, kAwaited}}, 0},   // was given up before
      {{{kExperts0, 2, 1, kAwaited}, {kAttention1, 3, 0, kUnusable}}, 0},  // was never issued
  };
  for (const auto& [words, right] : cases) {
    CoordinatorAlone coordinator(held_, 2, {7}, {Scaled(Seconds(30)), Scaled(Seconds(0.5))});
    coordinator.SayDemand(kAttention1, 1);
    EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kTicket, 1));
    coordinator.SayMiss(kAttention1, 1, 0, kUnusable, "the step before");
    EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kAbort, 1));
    coordinator.SayLeft(kAttention1, 1, 1);
    coordinator.SayLeft(kExperts0, 1, 1);
    EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kTicket, 2));
    coordinator.SayMiss(words[0].by, words[0].step, words[0].layer, words[0].trouble,
                        text(words[0]));
    EXPECT_EQ(coordinator.Hear(kAttention1), Heard(MessageKind::kAbort, 2));
    coordinator.SayMiss(words[1].by, words[1].step, words[1].layer, words[1].trouble,
                        text(words[1]));
    coordinator.SayLeft(kAttention1, 2, 2);
    EXPECT_EQ(coordinator.Join(), DeadlineExceeded("step 2 is given up (" + reason(words[right]) +
                                                   "), but still in it: experts 0"));
  }
}

TEST_F(AttentionInstanceTest, WorkOfferedAtAnyMomentIsDone) {
  // Three instances with short requests at random instances, so that steps begin, end and pause all
  // the time while demands and tickets cross.
  LoopbackCluster::Options options = OptionsFor(3, {4, 4});
  const auto cluster = Start(options);
  for (uint64_t id = 1; id <= 600; ++id) {
    ASSERT_TRUE(cluster->attention(static_cast<int>(id * 7 % 3))
                    .Submit(Ask(id, 1 + id % 3, 1 + id % 2))
                    .ok());
    if (id % 5 != 0) continue;
    cluster->Await({1, id, 1});
    ASSERT_TRUE(cluster->failure().ok()) << cluster->failure().ToString();
    ASSERT_FALSE(HasFailure());
  }
  for (uint64_t id = 1; id <= 600; ++id) {
    EXPECT_EQ(cluster->Await({1, id, 1}).tokens.size(), 1 + id % 2);
  }
}

TEST_F(AttentionInstanceTest, WorkAtTheOthersGoesOnWhileTheCoordinatorIsIdle) {
  const auto cluster = Start(OptionsFor(3, {7}));
  for (uint64_t id = 1; id <= 40; ++id) {
    ASSERT_TRUE(cluster->attention(1 + static_cast<int>(id % 2)).Submit(Ask(id, 3, 12)).ok());
  }
  for (uint64_t id = 1; id <= 40; ++id) {
    EXPECT_EQ(cluster->Await({1, id, 1}).tokens.size(), 12u);
  }
}

}  // namespace
}  // namespace janus::dataplane
