#include "operator/local/node/gpu_shares.h"

#include <gtest/gtest.h>

#include "operator/api/yaml.h"

namespace janus::control {
namespace {

TEST(GpuShares, ANewPodGetsTheGpuWithTheFewest) {
  GpuShares shares({{"GPU-a", "H200"}, {"GPU-b", "H200"}}, "/run", "/bin/worker");
  EXPECT_EQ(shares.Take(), 0);
  EXPECT_EQ(shares.Take(), 1);
  EXPECT_EQ(shares.Take(), 0);
  shares.GiveBack(0);
  shares.GiveBack(0);
  EXPECT_EQ(shares.Take(), 0);
  EXPECT_EQ(shares.Find("gpu-1"), 1);
  EXPECT_EQ(shares.Find("gpu-2"), std::nullopt);
  EXPECT_EQ(shares.Find("attention-1"), std::nullopt);
  EXPECT_EQ(GpuShares({}, "/run", "").Take(), std::nullopt);
}

TEST(GpuShares, OnlyAnEndBeforeItIsReadyIsAFailureToStart) {
  GpuShares shares({{"GPU-a", "H200"}}, "/run", "/bin/true");
  const auto processes = Processes::Create({testing::TempDir()});
  ASSERT_TRUE(processes.ok()) << processes.status().ToString();
  const auto await = [&] {
    std::optional<ProcessEvent> event;
    while (!(event = (*processes)->NextEvent())) std::this_thread::yield();
    return *event;
  };
  EXPECT_FALSE(*shares.Prepare(0, **processes));
  EXPECT_TRUE(shares.IsStarting(0));
  EXPECT_TRUE(shares.Note(await(), 0)) << "it has ended";
  EXPECT_FALSE(shares.IsStarting(0));
  EXPECT_FALSE(*shares.Prepare(0, **processes)) << "it is started again";
  EXPECT_FALSE(shares.Note({ProcessEvent::Kind::kReady, "gpu-0", "/run/gpu-0"}, 0));
  EXPECT_TRUE(*shares.Prepare(0, **processes));
  EXPECT_FALSE(shares.Note(await(), 0));
}

TEST(HasGpuLimit, LooksForNvidiasNames) {
  const auto has = [](const std::string& limits) {
    return HasGpuLimit(
        *ParseYaml("{spec: {containers: [{resources: {limits: {" + limits + "}}}]}}", "pod"));
  };
  EXPECT_TRUE(has("cpu: 1, nvidia.com/gpu: 1"));
  EXPECT_FALSE(has("cpu: 1"));
  EXPECT_FALSE(HasGpuLimit(*ParseYaml("{spec: {containers: [{name: worker}]}}", "pod")));
}

}  // namespace
}  // namespace janus::control
