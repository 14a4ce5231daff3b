// One message of one member is dropped, delayed, sent twice or falsified, at every position in
// turn. Its step is given up and repeated, and every request ends with the tokens and logits of an
// undisturbed run. The same holds if a second fault hits the messages that give the step up.
//
// The usual run takes every k-th position, with a different start each time; JANUS_SOAK=1 takes
// all.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "tests/integration/faults/served.h"
#include "tests/support/random.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

std::string Name(const PeerId& member, const PlannedFault& fault) {
  return ToString(member) + ", message " + std::to_string(fault.message) + ": " +
         std::string(ToString(fault.fault));
}

class FaultSweep : public testing::Test {
 protected:
  FaultSweep() {
    service_.topology = MakeTopology(2, {4, 5}, held_.model.layers, held_.model.moe.experts);
    // Each position costs this time. A round missed because the machine is slow does no harm.
    service_.deadlines.detection = std::min(Scaled(Seconds(0.2)), Seconds(0.8));
  }

  // Serves once per entry, or per k-th entry in the usual run, and compares each run with the
  // undisturbed one.
  struct Position {
    std::string name;
    Faults faults;
  };
  // Every message of the undisturbed run with each fault.
  std::vector<Position> EveryFault() const {
    std::vector<Position> positions;
    for (const auto& [member, messages] : whole_.messages) {
      for (int message = 0; message < messages; ++message) {
        for (const Fault fault : kAllFaults) {
          const PlannedFault planned{fault, message};
          positions.push_back({Name(member, planned), {{member, {planned}}}});
        }
      }
    }
    return positions;
  }
  void Sweep(const std::vector<Position>& positions, int usual) {
    const auto wanted = static_cast<size_t>(HowMany({.sanitized = usual / 3,
                                                     .gate = usual,
                                                     .nightly = 2 * usual,
                                                     .soak = static_cast<int>(positions.size())}));
    size_t stride = std::max<size_t>(1, positions.size() / wanted);
    while (std::gcd(stride, std::size(kAllFaults)) != 1) ++stride;  // or kinds are left out
    const size_t begin = MixSeed(TestSeed(), 17) % stride;
    int completed = 0, failed = 0;
    uint64_t missed = 0, aborted = 0;
    for (size_t p = begin; p < positions.size(); p += stride) {
      SCOPED_TRACE(positions[p].name);
      const Served run = Serve(held_, service_, positions[p].faults);
      ASSERT_EQ(Differences(run, whole_), "");
      EXPECT_TRUE(Complete(run)) << run.failure.ToString();
      ++(Complete(run) ? completed : failed);
      missed += run.rounds_missed();
      aborted += run.statistics.front().steps_aborted;
    }
    std::printf(
        "%zu positions x kinds, every %zu-th from %zu: %d completed, %d failed; %llu steps given "
        "up, %llu rounds missed\n",
        positions.size(), stride, begin, completed, failed,
        static_cast<unsigned long long>(aborted), static_cast<unsigned long long>(missed));
    EXPECT_GT(aborted, 0u);
  }

  const HeldModel held_ = SmallRandomModel(DType::kFloat32, 3);
  Service service_;
  Served whole_;
};

TEST_F(FaultSweep, OneFaultAnywhereChangesNoAnswer) {
  whole_ = Serve(held_, service_);
  ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  Sweep(EveryFault(), 60);
}

// Micro-batches in flight together, prompts in chunks, more experts than attention instances.
TEST_F(FaultSweep, NorWithMicroBatchesAndChunks) {
  service_.topology = MakeTopology(2, {4, 3, 5}, held_.model.layers, held_.model.moe.experts, 2);
  service_.requests = 3;
  service_.prompt = 11;
  service_.prefill_rows = 4;
  whole_ = Serve(held_, service_);
  ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  std::vector<Position> positions;
  for (const auto& [member, messages] : whole_.messages) {
    for (int message = 0; message < messages; ++message) {
      const PlannedFault planned{Fault::kDrop, message};
      positions.push_back({Name(member, planned), {{member, {planned}}}});
    }
  }
  Sweep(positions, 20);
}

// Instances share nodes; in the two-phase modes their messages travel in bundles.
struct Bundled {
  ExchangeMode mode;
  Compression compression = Compression::kNone;
  int sum_bits = 0;
  GateSide gate = GateSide::kExperts;
};
class NodesFaultSweep : public FaultSweep, public testing::WithParamInterface<Bundled> {};

TEST_P(NodesFaultSweep, OneFaultAnywhereChangesNoAnswer) {
  service_.topology = MakeTopology(3, {4, 3, 5}, held_.model.layers, held_.model.moe.experts, 2);
  service_.topology.mode = GetParam().mode;
  service_.topology.gate = GetParam().gate;
  service_.compression = GetParam().compression;
  service_.sum_bits = GetParam().sum_bits;
  GroupIntoNodes(service_.topology, 2, 2);
  service_.requests = 3;
  whole_ = Serve(held_, service_);
  ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  Sweep(EveryFault(), 30);
}

INSTANTIATE_TEST_SUITE_P(
    All, NodesFaultSweep,
    testing::Values(Bundled{ExchangeMode::kTwoPhaseSingle},
                    Bundled{ExchangeMode::kTwoPhaseParallel},
                    Bundled{ExchangeMode::kTwoPhaseParallel, Compression::kFp8},
                    Bundled{ExchangeMode::kTwoPhaseParallel, Compression::kNone, 24},
                    Bundled{ExchangeMode::kTwoPhaseParallel, Compression::kFp8, 0,
                            GateSide::kAttention},
                    Bundled{ExchangeMode::kDirect, Compression::kNone, 0, GateSide::kAttention}),
    [](const auto& info) {
      return std::string(ToString(info.param.mode)) +
             std::string(ToString(info.param.compression)) +
             (info.param.sum_bits > 0 ? "Sums" : "") +
             (info.param.gate == GateSide::kAttention ? "GateOnAttention" : "");
    });

TEST_F(FaultSweep, NorDoesASecondOneWhileTheStepIsGivenUp) {
  whole_ = Serve(held_, service_);
  ASSERT_TRUE(Complete(whole_)) << whole_.failure.ToString();
  // A reply of the second step is lost, so that members miss a round in the middle.
  const PeerId expert{Role::kExperts, Rank{1}};
  const PlannedFault first{
      Fault::kDrop, 0, {}, [](const Header& h) { return h.step == 2 && h.layer == 1; }};
  std::vector<Position> positions;
  for (const auto& [member, messages] : whole_.messages) {
    const bool coordinates = member == PeerId{Role::kAttention, Rank{0}};
    const std::vector<MessageKind> kinds =
        coordinates ? std::vector{MessageKind::kAbort}
                    : std::vector{MessageKind::kMiss, MessageKind::kLeft};
    for (const MessageKind kind : kinds) {
      for (int message = 0; message < (coordinates ? 3 : 1); ++message) {
        for (const Fault fault : kAllFaults) {
          PlannedFault second{fault, message};
          second.among = [kind](const Header& h) { return h.kind == kind; };
          Faults faults = {{expert, {first}}};
          faults[member].push_back(second);
          positions.push_back(
              {Name(member, second) + " of kind " + std::to_string(static_cast<int>(kind)),
               std::move(faults)});
        }
      }
    }
  }
  Sweep(positions, 18);
}

}  // namespace
}  // namespace janus::dataplane
