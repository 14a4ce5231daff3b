// Loads the next epoch's weights while the previous epoch computes on the same device.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "common/model/config.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/contains.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

// One attention and two expert workers, each expert worker with half of the experts. They swap
// halves in every epoch, so that all experts are loaded anew while requests run.
class LoadingTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr const char* kUid = ServiceUnderTest::kUid;
  static constexpr uint64_t kFence = ServiceUnderTest::kFence;
  static constexpr uint32_t kTokens = 30;
  static constexpr size_t kDeviceBytes = size_t{4} << 20;

  LoadingTest() {
    const int experts = model_.moe.experts;
    topology_ = MakeTopology(1, {experts / 2, experts / 2}, model_.layers, experts);
    topology_.epoch = 0;
    topology_.attention[0].role = Role::kAttention;
    topology_.attention[0].sequences = {.max_batch_size = 8, .kv_bytes = 4 << 20};
    Serve(topology_.attention[0], "attention-0", Role::kAttention, attention_device_, attention_);
    for (size_t i = 0; i < 2; ++i) {
      Serve(topology_.experts[i], "experts-" + std::to_string(i), Role::kExperts, devices_[i],
            experts_[i]);
      if (GetParam()) devices_[i].LandAtAnyTime(MixSeed(TestSeed(), 31, i));
    }
  }

  void Serve(Instance& instance, const std::string& name, Role role,
             kernels::EmulatedDevice& device, std::unique_ptr<ServedWorker>& worker) {
    instance.address = "unix:" + folder_.path() + "/" + name + ".sock";
    instance.exchange_address = "unix:" + folder_.path() + "/" + name + ".x";
    worker = std::make_unique<ServedWorker>(
        WorkerFlags{role, golden_.folder, instance.address, kUid}, clock_, [](const Status&) {},
        device);
  }

  // The expert workers swap their halves.
  void Swap() {
    ++topology_.epoch;
    std::vector<uint16_t>& of = topology_.placement.expert_of;
    const auto layer = static_cast<size_t>(model_.moe.experts);
    for (size_t at = 0; at < of.size(); at += layer) {
      const auto begin = of.begin() + static_cast<ptrdiff_t>(at);
      std::rotate(begin, begin + static_cast<ptrdiff_t>(layer / 2),
                  begin + static_cast<ptrdiff_t>(layer));
    }
  }
  Stamp stamp() const { return {kUid, kFence, topology_.epoch}; }
  std::vector<ServedWorker*> all() const {
    return {attention_.get(), experts_[0].get(), experts_[1].get()};
  }

  // All three workers prepare. A failure ends the others' waits for that worker.
  std::vector<Status> Prepare() {
    std::vector<Status> said(3);
    std::atomic<bool> has_failed = false;
    std::vector<std::jthread> calls;
    for (size_t i = 0; i < said.size(); ++i) {
      calls.emplace_back([&, i] {
        said[i] = all()[i]->worker().Prepare(stamp(), topology_, {}, std::string(16, 'k'),
                                             [&](const PrepareProgress&) { return !has_failed; });
        if (!said[i].ok()) has_failed = true;
      });
    }
    calls.clear();
    return said;
  }
  void PrepareAll() {
    for (const Status& status : Prepare()) ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void CommitAll() {
    for (ServedWorker* const one : all()) {
      const Status committed = one->worker().Commit(stamp());
      ASSERT_TRUE(committed.ok()) << committed.ToString();
    }
  }
  void AbortAll() {
    for (ServedWorker* const one : all()) {
      const Status aborted = one->worker().Abort(stamp());
      ASSERT_TRUE(aborted.ok()) << aborted.ToString();
    }
  }

  // Bytes that are still allocated, once all loads have run.
  static uint64_t Held(kernels::EmulatedDevice& device) {
    const std::unique_ptr<kernels::Event> all = *device.MakeEvent();
    EXPECT_TRUE(device.RecordLoads(*all).ok());
    EXPECT_TRUE(device.Await(*all).ok());
    return device.memory()->held;
  }

  void Send(uint64_t id) {
    v1::ToAttention message = TestGateway::Submit(id, {5, 6, 7}, kTokens);
    message.mutable_submit()->set_ignore_eos(true);
    gateway_->Send(message);
  }
  std::vector<int32_t> Answer(uint64_t id) {
    const v1::RequestTokens answer = gateway_->ReadToTheEnd(id);
    EXPECT_EQ(answer.error(), "");
    return {answer.tokens().begin(), answer.tokens().end()};
  }
  // The answer while nothing is loaded.
  std::vector<int32_t> FirstEpochsAnswer() {
    Swap();
    PrepareAll();
    CommitAll();
    gateway_.emplace(*attention_);
    gateway_->Hello();
    Send(1);
    const std::vector<int32_t> alone = Answer(1);
    EXPECT_EQ(alone.size(), kTokens);
    return alone;
  }
  // The answer to a request during which the halves are swapped, after an aborted swap.
  std::vector<int32_t> AnswerOverTheNextSwap(uint64_t id) {
    Send(id);
    Swap();
    Swap();
    PrepareAll();
    CommitAll();
    return Answer(id);
  }

  const Golden golden_ = ReadGolden("mixtral");
  const ModelDescription model_ = *LoadModelConfig(golden_.folder);
  const TempFolder folder_;
  const SystemClock clock_;
  kernels::EmulatedDevice attention_device_;
  kernels::EmulatedDevice devices_[2] = {kernels::EmulatedDevice(kDeviceBytes),
                                         kernels::EmulatedDevice(kDeviceBytes)};
  Topology topology_;
  std::unique_ptr<ServedWorker> attention_;
  std::unique_ptr<ServedWorker> experts_[2];
  std::optional<TestGateway> gateway_;
};

TEST_P(LoadingTest, TheNextEpochsWeightsComeUnderRequestsAndAreWaitedForAtCommit) {
  const std::vector<int32_t> alone = FirstEpochsAnswer();
  std::vector<uint64_t> held;
  for (uint64_t id = 2; id <= 4; ++id) {
    Send(id);
    const uint64_t loaded = devices_[0].counts().bytes_loaded;
    Swap();
    PrepareAll();
    EXPECT_GT(devices_[0].counts().bytes_loaded, loaded);
    // The previous epoch has waited for none of them.
    if (!GetParam()) {
      EXPECT_GT(devices_[0].pending_loads(), 0u);
    }
    CommitAll();
    EXPECT_EQ(Answer(id), alone) << "epoch " << topology_.epoch;
    held.push_back(Held(devices_[0]));
  }
  // The memory of an epoch is freed with it.
  EXPECT_EQ(held.back(), held.front());
}

TEST_P(LoadingTest, AnEpochIsAbortedAndPreparedAnewUnderRequests) {
  const std::vector<int32_t> alone = FirstEpochsAnswer();
  Send(2);
  Swap();
  PrepareAll();
  AbortAll();
  Swap();  // the served state
  Swap();
  PrepareAll();
  AbortAll();
  EXPECT_EQ(Answer(2), alone) << "the epoch that serves is as it was";
  EXPECT_EQ(AnswerOverTheNextSwap(3), alone);
}

TEST_P(LoadingTest, ALoadThatFailsRefusesItsEpochAlone) {
  const std::vector<int32_t> alone = FirstEpochsAnswer();
  Send(2);
  const uint64_t held = Held(devices_[1]);
  devices_[1].RefuseLoadAfter(4);
  Swap();
  const std::vector<Status> said = Prepare();
  EXPECT_EQ(said[2], Internal("the emulated device refuses a load"));
  EXPECT_FALSE(devices_[1].has_failed());
  AbortAll();
  EXPECT_EQ(Answer(2), alone);
  EXPECT_EQ(AnswerOverTheNextSwap(3), alone);
  EXPECT_EQ(Held(devices_[1]), held) << "what was refused is given back";
}

// If the step thread cannot wait for the loads, the device has failed.
TEST_P(LoadingTest, ADeviceThatFailsBeforeCommitIsKnownToHaveFailed) {
  Swap();
  PrepareAll();
  devices_[0].Break();
  CommitAll();
  const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  while (!devices_[0].has_failed() && MonotonicClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(devices_[0].has_failed());
  EXPECT_FALSE(devices_[1].has_failed());
}

TEST_P(LoadingTest, WhatDoesNotFitBesideTheEpochThatServesIsRefused) {
  const std::vector<int32_t> alone = FirstEpochsAnswer();
  Send(2);
  // All but 64 KiB of the device belongs to another user.
  kernels::Buffer rest = *devices_[0].Allocate(devices_[0].memory()->free - (size_t{64} << 10));
  Swap();
  const std::vector<Status> said = Prepare();
  EXPECT_EQ(said[1].code(), StatusCode::kResourceExhausted) << said[1].ToString();
  EXPECT_TRUE(Contains(said[1].message(), "of the emulated device's memory"));
  AbortAll();
  EXPECT_EQ(Answer(2), alone);
  rest = kernels::Buffer();
  EXPECT_EQ(AnswerOverTheNextSwap(3), alone);
}

INSTANTIATE_TEST_SUITE_P(LoadsLand, LoadingTest, testing::Bool(), [](const auto& info) {
  return info.param ? "AtAnyTime" : "AsLateAsTheyMay";
});

}  // namespace
}  // namespace janus::dataplane
