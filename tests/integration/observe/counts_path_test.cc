// The whole way of the counters: from a gateway's pool and the workers' steps, over the token
// stream and the control call, to the world that a scaling decision sees.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "controllers/observe/world_from.h"
#include "dataplane/gateway/attention_pool.h"
#include "proto/convert.h"
#include "tests/support/contains.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus {
namespace {

using dataplane::ServiceUnderTest;

// Counts an answer as an HTTP call does.
class CountingSink final : public gateway::TokenSink {
 public:
  explicit CountingSink(gateway::RequestCounts& counts) : counts_(counts) {}
  void OnTokens(gateway::TokenEvent event) override {
    tokens_ += event.tokens.size();
    if (event.finish == gateway::Finish::kNone) return;
    counts_.Finished(tokens_, Seconds(0.1), Seconds(0.01));
    done = true;
  }
  std::atomic<bool> done = false;

 private:
  gateway::RequestCounts& counts_;
  uint64_t tokens_ = 0;
};

class CountsPathTest : public testing::Test {
 protected:
  static constexpr int kTokens = 6;

  CountsPathTest() { service_.Serve(); }

  std::unique_ptr<gateway::AttentionPool> Gateway(const std::string& id) {
    auto pool = std::make_unique<gateway::AttentionPool>(
        gateway::AttentionPoolOptions{.gateway_id = id, .service_uid = ServiceUnderTest::kUid},
        clock_, metrics_, Logger(2, LogLevel::kError));
    pool->SetMembers({service_.topology().attention[0].address});
    EXPECT_TRUE(Comes([&] { return pool->HasInstance(); }));
    return pool;
  }
  // Answers requests one after the other.
  static void Answer(gateway::AttentionPool& pool, int requests, size_t prompt_tokens) {
    for (int i = 0; i < requests; ++i) {
      gateway::GenerationRequest request;
      request.prompt.assign(prompt_tokens, 5);
      request.max_tokens = kTokens;
      request.temperature = 0;
      request.ignore_eos = true;
      const auto sink = std::make_shared<CountingSink>(pool.counts());
      pool.counts().Arrived(prompt_tokens);
      const Result<uint64_t> id = pool.Submit(std::move(request), sink);
      ASSERT_TRUE(id.ok()) << id.status().ToString();
      ASSERT_TRUE(Comes([&] { return sink->done.load(); }));
    }
    pool.ReportCounts();
  }
  static bool Comes(const std::function<bool()>& it) {
    const auto deadline = std::chrono::steady_clock::now() + Scaled(std::chrono::seconds(20));
    while (!it()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // What one member tells of all.
  Statistics Ask() {
    v1::GetStatisticsRequest request;
    request.set_service_uid(ServiceUnderTest::kUid);
    for (const Instance* const one :
         {&service_.topology().attention[0], &service_.topology().experts[0]}) {
      v1::RelayTarget& target = *request.add_relay();
      target.set_name(std::string(ToString(one->role)) + "-0");
      target.set_role(one->role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS);
      target.set_address(one->address);
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(20)));
    v1::Statistics all;
    const grpc::Status status =
        service_.attention().control().GetStatistics(&context, request, &all);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return FromProto(all);
  }
  // Asks until the gateways' reports say that so many requests have finished.
  Statistics AskUntil(uint64_t finished) {
    Statistics all;
    EXPECT_TRUE(Comes([&] {
      all = Ask();
      uint64_t sum = 0;
      bool all_report = !all.gateways.gateways.empty();
      for (const GatewayCounts& one : all.gateways.gateways) {
        sum += one.finished;
        all_report = all_report && one.reports > 0;
      }
      return all_report && sum == finished;
    }));
    return all;
  }
  // A look at this time of the test's own clock.
  Result<controllers::World> LookAt(double time, Statistics statistics) {
    controllers::Look look;
    look.time_seconds = time;
    look.statistics = std::move(statistics);
    look.current.m = look.current.n = 1;
    look.attention.ready = look.experts.ready = 1;
    return WorldFrom(look, options_, history_);
  }

  const SystemClock clock_;
  MetricRegistry registry_;
  gateway::GatewayMetrics metrics_{registry_, "m"};
  ServiceUnderTest service_;
  controllers::ObserveOptions options_{.tpot = {.seconds = 0.05}, .warm_up_steps = 0};
  controllers::LookHistory history_;
};

TEST_F(CountsPathTest, WhatGatewaysAndWorkersCountBecomesAWorld) {
  const auto a = Gateway("a");
  auto b = Gateway("b");
  Answer(*a, 1, 4);
  EXPECT_EQ(LookAt(1000, AskUntil(1)).status().code(), StatusCode::kUnavailable);

  Answer(*a, 4, 10);
  Answer(*b, 2, 10);
  Result<controllers::World> world = LookAt(1015, AskUntil(7));
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_NEAR(world->arrivals[0].requests_per_second, 6.0 / 15, 1e-9);
  EXPECT_NEAR(world->arrivals[0].prompt_tokens_per_second, 60.0 / 15, 1e-9);
  EXPECT_NEAR(world->lengths.output_tokens, kTokens, 1e-9);
  EXPECT_EQ(world->ended.requests, 6);
  EXPECT_EQ(world->ended.attained, 6);
  EXPECT_EQ(world->now.waiting, 0);
  EXPECT_GT(world->now.kv_tokens_capacity, 0);
  ASSERT_TRUE(world->step);
  // One request at a time: a step has either its prompt or one row that decodes.
  const controllers::StepLoad& load = world->step->load;
  EXPECT_NEAR(load.prompt_rows / load.decode_rows, 10.0 / (kTokens - 1), 1e-6);
  EXPECT_NEAR(load.prompt_keys, 5.5, 1e-6);
  EXPECT_NEAR(load.context, 13, 1e-6) << "11 to 15 keys";
  EXPECT_GT(world->step->seconds.attention, 0);
  EXPECT_GT(world->step->seconds.experts, 0);
  EXPECT_GT(world->step->seconds.step,
            world->step->seconds.attention + world->step->seconds.experts);

  // No traffic is a world, too.
  world = LookAt(1030, Ask());
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_NEAR(world->arrivals[0].requests_per_second, 6.0 / 30, 1e-9) << "of a minute";
  // A last step, which has no rows, may still have run.
  if (world->step) {
    EXPECT_EQ(world->step->load.decode_rows + world->step->load.prompt_rows, 0);
  }

  // A gateway ends, after it has counted something, and its successor counts from zero.
  Answer(*b, 3, 10);
  (void)AskUntil(10);  // its last report has come
  b.reset();
  b = Gateway("b-again");
  Answer(*b, 2, 10);
  world = LookAt(1045, AskUntil(12));
  ASSERT_TRUE(world.ok()) << world.status().ToString();
  EXPECT_NEAR(world->arrivals[0].requests_per_second, (6 + 5) / 45.0, 1e-9);
  EXPECT_EQ(world->ended.requests, 5);
}

TEST_F(CountsPathTest, WithoutAGatewayThereIsNoWorld) {
  auto a = Gateway("a");
  Answer(*a, 1, 4);
  EXPECT_FALSE(LookAt(1000, AskUntil(1)).ok());
  EXPECT_TRUE(LookAt(1015, Ask()).ok());
  a.reset();
  ASSERT_TRUE(Comes([&] { return !Ask().gateways.gateways.at(0).is_attached; }));
  const Result<controllers::World> world = LookAt(1030, Ask());
  EXPECT_EQ(world.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(world.status().message(), "no gateway is attached"));
}

}  // namespace
}  // namespace janus
