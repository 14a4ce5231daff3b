// Members read each other's devices in place, or over a network, and devices lag behind their hosts
// and wait for each other. A message or a flag is lost or falsified. Every request still has the
// tokens and logits of an undisturbed run. Results of a device for a step that was given up are not
// used.

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "common/aligned_buffer.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/integration/faults/served.h"
#include "tests/support/contains.h"
#include "tests/support/passing_transport.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr int kAll = 1'000'000;

// Releases a member's stream if it waits for ever, and tells the test by `is_late`.
class LetGoLate final : public PassingTransport {
 public:
  LetGoLate(std::unique_ptr<Transport> inner, std::atomic<bool>& is_late)
      : PassingTransport(std::move(inner)) {
    waiting_ = std::jthread([this, &is_late](const std::stop_token& stop) {
      const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(40));
      while (MonotonicClock::now() < end) {
        if (stop.stop_requested()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      is_late = true;
      for (const PeerId peer : PeersOf(layout())) {
        const std::span<std::byte> flags = FlagsOf(peer);
        for (size_t at = 0; at < flags.size(); at += kFlagStride) {
          reinterpret_cast<kernels::Flag*>(flags.data() + at)->store(uint64_t{1} << 62);
        }
      }
    });
  }

 private:
  std::jthread waiting_;
};

// Stands between the flags that a member's device raises and its readers, and loses some of them.
class LosingFlags final : public PassingTransport {
 public:
  // Loses `times` flags from number `lost` on, counted over all of the member's.
  LosingFlags(std::unique_ptr<Transport> inner, int lost, int times, std::atomic<int>& count)
      : PassingTransport(std::move(inner)),
        flags_(PassingTransport::FlagsOf(layout().self)),
        raised_(flags_.size()) {
    std::fill_n(raised_.data(), raised_.size(), std::byte{0});
    passing_ = std::jthread([this, lost, times, &count](const std::stop_token& stop) {
      Pass(lost, times, count, stop);
    });
  }

  std::span<std::byte> FlagsOf(PeerId owner) override {
    if (owner != layout().self) return PassingTransport::FlagsOf(owner);
    return {raised_.data(), raised_.size()};
  }

 private:
  using Word = std::atomic<uint64_t>;

  void Pass(int lost, int times, std::atomic<int>& count, const std::stop_token& stop) {
    std::vector<uint64_t> passed(flags_.size() / kFlagStride);
    for (count = 0; !stop.stop_requested(); std::this_thread::yield()) {
      for (size_t i = 0; i < passed.size(); ++i) {
        const uint64_t now = At(raised_.data(), i).load(std::memory_order_acquire);
        if (now == passed[i]) continue;
        passed[i] = now;
        const bool is_lost = count >= lost && count < lost + times;
        ++count;
        if (!is_lost) At(flags_.data(), i).store(now, std::memory_order_release);
      }
    }
  }
  static Word& At(std::byte* flags, size_t i) {
    return *reinterpret_cast<Word*>(flags + i * kFlagStride);
  }

  const std::span<std::byte> flags_;  // seen by readers
  AlignedBuffer raised_;              // raised by the device
  std::jthread passing_;
};

class InPlaceFaults : public testing::Test {
 protected:
  InPlaceFaults() {
    service_.topology = MakeTopology(2, {4, 5}, held_.model.layers, held_.model.moe.experts, 2);
    service_.make_context = BehindHosts(TestSeed());
    service_.device_join = JoinMemory;
    service_.requests = 3;
    // A round missed because the machine is slow does no harm.
    service_.deadlines = {Seconds(1.0), Scaled(Seconds(20.0))};
    whole_ = Serve(held_, service_);
    EXPECT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  }

  LoopbackCluster::WrapTransport Losing(PeerId member, int lost, int times = 1) {
    return [=, this](PeerId self, std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
      inner = std::make_unique<LetGoLate>(std::move(inner), is_late_);
      if (self != member) return inner;
      return std::make_unique<LosingFlags>(std::move(inner), lost, times, flags_);
    };
  }

  // Loses or falsifies one message of any member, at `tried` different places.
  void LoseMessages(size_t tried);

  const HeldModel held_ = SmallRandomModel(DType::kBFloat16, 3);
  Service service_;
  Served whole_;
  std::atomic<int> flags_{0};  // raised by the losing member in the previous run
  std::atomic<bool> is_late_{false};
};

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kAttention1{Role::kAttention, Rank{1}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};

TEST_F(InPlaceFaults, AMessageOfAnyKindAnywhereChangesNoAnswer) {
  LoseMessages(20);
}

// Then rows and contributions arrive after the messages that announce them.
TEST_F(InPlaceFaults, NorWhereSomeAreReadOverANetwork) {
  service_.device_join = JoinDomains(2);
  LoseMessages(12);
}

// Two attention nodes and two expert nodes, of two instances and of one.
TEST_F(InPlaceFaults, NorWhereRowsLandOnceForANode) {
  service_.topology = MakeTopology(3, {4, 3, 5}, held_.model.layers, held_.model.moe.experts, 2);
  GroupIntoNodes(service_.topology, 2, 2);
  service_.device_join = JoinDomainsOf({0, 0, 1, 10, 10, 11});
  for (const ExchangeMode mode : {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
    service_.topology.mode = mode;
    whole_ = Serve(held_, service_);
    ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
    LoseMessages(10);
  }
}

// The end of the only lane has no requests, and passes on those of its mate.
TEST_F(InPlaceFaults, NorWhereAnIdleInstancePassesRowsOn) {
  service_.topology.mode = ExchangeMode::kTwoPhaseSingle;
  GroupIntoNodes(service_.topology, 2, 2);
  service_.device_join = JoinDomainsOf({0, 0, 10, 10});
  service_.at = 1;
  whole_ = Serve(held_, service_);
  ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  LoseMessages(8);
}

// Experts 0 reads the rows for experts 1.
TEST_F(InPlaceFaults, NorDoAMatesFlagsThatNeverCome) {
  service_.topology.mode = ExchangeMode::kTwoPhaseSingle;
  GroupIntoNodes(service_.topology, 2, 2);
  service_.device_join = JoinDomainsOf({0, 0, 10, 10});
  const Served counted = Serve(held_, service_, {}, Losing(kExperts0, -1));
  ASSERT_EQ(Differences(counted, whole_), "");
  ASSERT_TRUE(Complete(counted)) << counted.failure.ToString();
  const int flags = flags_;
  ASSERT_GE(flags, 12);
  uint64_t aborted = 0;
  const int stride = Soak() ? 1 : flags / 6;
  for (int flag = static_cast<int>(MixSeed(TestSeed(), 19) % static_cast<uint64_t>(stride));
       flag < flags; flag += stride) {
    SCOPED_TRACE("flag " + std::to_string(flag));
    // Those of contributions have no reader here, so several are lost.
    const Served run = Serve(held_, service_, {}, Losing(kExperts0, flag, 3));
    ASSERT_EQ(Differences(run, whole_), "");
    ASSERT_TRUE(Complete(run)) << run.failure.ToString();
    ASSERT_FALSE(is_late_) << "a host waits for it without a deadline";
    aborted += run.statistics.front().steps_aborted;
  }
  EXPECT_GT(aborted, 0u);
}

void InPlaceFaults::LoseMessages(size_t tried) {
  std::vector<std::pair<PeerId, PlannedFault>> positions;
  const Served counted = Serve(held_, service_);
  ASSERT_EQ(Differences(counted, whole_), "");
  for (const auto& [member, messages] : counted.messages) {
    for (int message = 0; message < messages; ++message) {
      for (const Fault fault : kAllFaults) positions.push_back({member, {fault, message}});
    }
  }
  size_t stride = Soak() ? 1 : positions.size() / tried;
  while (std::gcd(stride, std::size(kAllFaults)) != 1) ++stride;  // or kinds are left out
  uint64_t aborted = 0;
  for (size_t p = MixSeed(TestSeed(), 17) % stride; p < positions.size(); p += stride) {
    const auto& [member, fault] = positions[p];
    SCOPED_TRACE(ToString(member) + ", message " + std::to_string(fault.message) + ": " +
                 std::string(ToString(fault.fault)));
    const Served run = Serve(held_, service_, {{member, {fault}}});
    ASSERT_EQ(Differences(run, whole_), "");
    ASSERT_TRUE(Complete(run)) << run.failure.ToString();
    aborted += run.statistics.front().steps_aborted;
  }
  EXPECT_GT(aborted, 0u);
}

// The streams that wait for it are released and read whatever lies there.
TEST_F(InPlaceFaults, NorDoesAFlagThatNeverComes) {
  uint64_t aborted = 0;
  for (const PeerId member : {kAttention1, kExperts0}) {
    const Served counted = Serve(held_, service_, {}, Losing(member, -1));
    ASSERT_TRUE(Complete(counted)) << counted.failure.ToString();
    const int flags = flags_;
    ASSERT_GE(flags, 12);  // if the next flag overtakes one, both count once
    const int stride = Soak() ? 1 : flags / 6;
    for (int flag = static_cast<int>(MixSeed(TestSeed(), 18) % static_cast<uint64_t>(stride));
         flag < flags; flag += stride) {
      SCOPED_TRACE(ToString(member) + ", flag " + std::to_string(flag));
      const Served run = Serve(held_, service_, {}, Losing(member, flag));
      ASSERT_EQ(Differences(run, whole_), "");
      ASSERT_TRUE(Complete(run)) << run.failure.ToString();
      ASSERT_FALSE(is_late_) << "a host waits for it without a deadline";
      aborted += run.statistics.front().steps_aborted;
    }
  }
  // Some flags belong to rounds without rows, and nothing waits for those.
  EXPECT_GT(aborted, 3u);
}

// The coordinator, where the requests are, receives all reports.
TEST_F(InPlaceFaults, ADeviceWhoseFlagsNeverComeIsTheEndAndIsSaid) {
  service_.deadlines = {Scaled(Seconds(0.3)), Scaled(Seconds(20.0))};
  service_.at = 0;
  for (const auto& [member, who] :
       {std::pair{kAttention0, "waiting for the GPU of attention 0"},
        std::pair{kExperts0, "waiting for the GPU, which waits for that of experts 0"}}) {
    const Served run = Serve(held_, service_, {}, Losing(member, 9, kAll));
    EXPECT_FALSE(Complete(run));
    EXPECT_TRUE(Contains(run.failure.message(), "given up 4 times in a row"))
        << run.failure.ToString();
    EXPECT_TRUE(Contains(run.failure.message(), who)) << run.failure.ToString();
  }
}

// No member has given up yet.
TEST_F(InPlaceFaults, AServiceStopsThoughADeviceWaitsForAnother) {
  const std::vector<ExpertWeights> shares = held_.Shares(service_.topology.placement);
  for (const PeerId member : {kAttention1, kExperts0}) {
    SCOPED_TRACE(ToString(member));
    {
      LoopbackCluster::Options options;
      options.topology = service_.topology;
      options.attention.kv_bytes = 1 << 18;
      options.attention.max_batch = 4;
      options.pace.deadlines = {Seconds(60.0), Seconds(60.0), Seconds(60.0)};
      options.device = kernels::Device::kCuda;
      options.make_context = BehindHosts(TestSeed());
      options.device_join = JoinMemory;
      options.wrap_transport = Losing(member, 9, kAll);
      LoopbackCluster cluster(options, held_.model, held_.attention, PointersTo(shares));
      for (int a = 0; a < 2; ++a) {
        Request request;
        request.key = {1, static_cast<uint64_t>(a), 1};
        request.prompt = {5, 6, 7};
        request.max_tokens = 8;
        ASSERT_TRUE(cluster.attention(a).Submit(std::move(request)).ok());
      }
      // Until all members wait for the lost flags.
      for (int before = -1; flags_ < 10 || flags_ != before;) {
        before = flags_;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      EXPECT_TRUE(cluster.Stop().ok());
    }
    EXPECT_FALSE(is_late_);
  }
}

}  // namespace
}  // namespace janus::dataplane
