// Not all members reach each other's devices. Rows and contributions go in place or through host
// memory, in different ways for different members. The bits are those of the request alone, however
// far the devices lag behind their hosts.

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/golden.h"
#include "tests/support/passing_exchange.h"

namespace janus::dataplane {
namespace {

constexpr int kAttention = 2, kExperts = 2;

// How often data went which way.
struct Seen {
  std::atomic<int> in_place{0}, through_host{0};

  void Note(bool is_in_place) { ++(is_in_place ? in_place : through_host); }
  std::string ways() const {
    return std::string(in_place > 0 ? "in place " : "") + (through_host > 0 ? "through host" : "");
  }
};

class NotingExchange final : public PassingExchange {
 public:
  NotingExchange(std::unique_ptr<AttentionExchange> inner, Seen& rows, Seen& contributions)
      : PassingExchange(std::move(inner)), rows_(rows), contributions_(contributions) {}

  Status Post(const RoundKey& key, int rows, MonotonicTime ready) override {
    if (rows > 0) rows_.Note(DeviceRows(key.micro_batch) != nullptr);
    return PassingExchange::Post(key, rows, ready);
  }
  Status StreamWait(const RoundKey& key) override {
    const auto on_device = OnDevice(key.micro_batch);
    for (size_t i = 0; i < Contributions(key.micro_batch).size(); ++i) {
      contributions_.Note(!on_device.empty() && on_device[i] != 0);
    }
    return PassingExchange::StreamWait(key);
  }

 private:
  Seen& rows_;
  Seen& contributions_;
};

struct Ways {
  const char* name;
  // Restricts what a member's device can do.
  void (*limit)(kernels::EmulatedDevice& device, PeerId member);
  const char* rows;
  const char* contributions;
};

class WaysTest : public testing::TestWithParam<Ways> {
 protected:
  // So that every instance has rows.
  static void Submit(Schedule& schedule, int attention) {
    const auto sequence = static_cast<int>(schedule.sequences.size());
    Schedule::SequenceOf of;
    of.request = attention;
    of.attention = attention;
    of.key = {3, static_cast<uint64_t>(sequence), 1};
    schedule.sequences.push_back(of);
    schedule.actions.push_back({Schedule::Action::kSubmit, sequence, 0});
  }
};

TEST_P(WaysTest, GiveTheBitsOfTheRequestAlone) {
  const HeldModel held = HoldByName("small", DType::kBFloat16, MixSeed(TestSeed(), 1));
  const RequestPool pool = MakeRequestPool(held, OnDevice(), 6, MixSeed(TestSeed(), 2));
  Seen rows, contributions;
  const int schedules = HowMany({.sanitized = 2, .gate = 2, .nightly = 4, .soak = 40});
  for (int i = 0; i < schedules; ++i) {
    Random random(MixSeed(TestSeed(), 30, static_cast<uint64_t>(i)));
    Schedule schedule = RandomSchedule(random, kAttention, kExperts, held.model, pool);
    schedule.topology.micro_batches = 1 + i % kMaxMicroBatches;
    for (int a = 0; a < kAttention; ++a) Submit(schedule, a);
    KernelChoice kernels = OnDevice();
    kernels.device_join = JoinMemory;
    kernels.make_context = [&, made = 0]() mutable {
      const PeerId member = made < kAttention ? PeerId{Role::kAttention, Rank{made}}
                                              : PeerId{Role::kExperts, Rank{made - kAttention}};
      ++made;
      auto device = std::make_unique<kernels::EmulatedDevice>();
      device->RunBehind(random.Next());
      GetParam().limit(*device, member);
      return device;
    };
    const ScheduleRun run =
        RunSchedule(schedule, held, pool, kernels, [&](std::unique_ptr<AttentionExchange> inner) {
          return std::make_unique<NotingExchange>(std::move(inner), rows, contributions);
        });
    ASSERT_EQ(Differences(schedule, run, pool), "")
        << schedule << "\nagain with JANUS_SEED=" << TestSeed();
  }
  EXPECT_EQ(rows.ways(), GetParam().rows);
  EXPECT_EQ(contributions.ways(), GetParam().contributions);
}

INSTANTIATE_TEST_SUITE_P(All, WaysTest,
                         testing::Values(Ways{"RowsThroughTheHost",
                                              [](kernels::EmulatedDevice& device, PeerId member) {
                                                if (member.role == Role::kExperts) device.Isolate();
                                              },
                                              "through host", "in place "},
                                         Ways{"ContributionsThroughTheHost",
                                              [](kernels::EmulatedDevice& device, PeerId member) {
                                                if (member.role == Role::kAttention)
                                                  device.Isolate();
                                              },
                                              "in place ", "through host"},
                                         Ways{"OneExpertInstanceWithoutFlags",
                                              [](kernels::EmulatedDevice& device, PeerId member) {
                                                if (member == PeerId{Role::kExperts, Rank{1}})
                                                  device.RefuseFlags();
                                              },
                                              "through host", "in place through host"},
                                         Ways{"OneAttentionInstanceWithoutFlags",
                                              [](kernels::EmulatedDevice& device, PeerId member) {
                                                if (member == PeerId{Role::kAttention, Rank{1}})
                                                  device.RefuseFlags();
                                              },
                                              "in place through host", "through host"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
