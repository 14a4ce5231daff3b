#include "dataplane/gateway/options.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

Result<GatewayOptions> Parse(std::vector<std::string_view> args) {
  return ParseGatewayOptions(args);
}

TEST(GatewayOptions, ReadsBothFormsAndRepeats) {
  const Result<GatewayOptions> got =
      Parse({"--model", "/models/tiny/", "--member=unix:/a", "--member", "b:1", "--listen=[::1]:0",
             "--queued-requests=0", "--debug-logits-hash"});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const GatewayOptions& options = *got;
  EXPECT_EQ(options.members, (std::vector<std::string>{"unix:/a", "b:1"}));
  EXPECT_EQ(options.model_name, "tiny");
  EXPECT_EQ(options.http.host, "::1");
  EXPECT_EQ(options.http.port, 0);
  EXPECT_EQ(options.queued_requests, 0);
  EXPECT_TRUE(options.debug_logits_hash);
}

TEST(GatewayOptions, NamesTheWrongFlag) {
  const auto message = [](std::vector<std::string_view> args) {
    return Parse(std::move(args)).status().message();
  };
  EXPECT_TRUE(Contains(message({"--modell", "x"}), "--modell"));
  EXPECT_TRUE(Contains(message({"model"}), "'model'"));
  EXPECT_TRUE(Contains(message({"--listen", "host:70000"}), "--listen: '70000'"));
  EXPECT_TRUE(Contains(message({"--threads", "0"}), "between 1 and 64"));
  EXPECT_TRUE(Contains(message({"--threads", "2x"}), "'2x'"));
  EXPECT_TRUE(Contains(message({"--model"}), "needs a value"));
}

TEST(GatewayOptions, PoolsAreSoughtAtAddressesOfTheirOwn) {
  const auto with = [](std::string_view member) {
    return Parse({"--model", "/m", "--member", member, "--pools=3"});
  };
  const Result<GatewayOptions> got = with("chat-pool-{pool}:9000");
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->pools, 3);
  EXPECT_TRUE(Contains(with("chat-members:9000").status().message(), "{pool}"));
  EXPECT_TRUE(Contains(Parse({"--pools", "9"}).status().message(), "between 1 and 8"));
  EXPECT_EQ(Parse({"--model", "/m", "--member", "a:1"})->pools, 1);
}

TEST(GatewayOptions, TheMemoryBudgetFollowsTheMachineAndTheLargestBody) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(DefaultMemoryBytes(2048 * kMiB, 4 * kMiB), 512 * kMiB);
  EXPECT_EQ(DefaultMemoryBytes(1 * kMiB, 4 * kMiB), 64 * kMiB);
  EXPECT_EQ(DefaultMemoryBytes((int64_t{1} << 20) * kMiB, 4 * kMiB), 1024 * kMiB);
  EXPECT_EQ(DefaultMemoryBytes(2048 * kMiB, 1024 * kMiB), 4096 * kMiB);
  EXPECT_TRUE(CheckMemoryBytes(16 * kMiB, 12 * kMiB).ok());
  EXPECT_TRUE(Contains(CheckMemoryBytes(16 * kMiB, 13 * kMiB).message(), "want at least"));
}

}  // namespace
}  // namespace janus::gateway
