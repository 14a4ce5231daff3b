// Micro-batches of an attention instance with a device that waits for peers. The host does not wait
// for a micro-batch when it takes contributions, however many others the device must still compute.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/attention/layers.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/held_model.h"
#include "tests/support/place_attention.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

// A flag that stays lowered. If the host waits for it nevertheless, it is raised in the end, and
// IsNotAwaitedBy returns false.
class UnraisedFlag {
 public:
  explicit UnraisedFlag(kernels::Context& device)
      : shown_(*device.RegisterFlags(reinterpret_cast<std::byte*>(&flag_), sizeof flag_)) {}
  ~UnraisedFlag() { Signal(); }

  kernels::FlagCount awaited() { return {&flag_, 1}; }
  void Signal() { flag_.store(1); }
  // Whether `act` returned before the flag was raised.
  template <class Act>
  bool IsNotAwaitedBy(Act act) {
    bool is_late = false;
    {
      const std::jthread late([&](const std::stop_token& stop) {
        const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(5));
        while (!stop.stop_requested() && MonotonicClock::now() < end) std::this_thread::yield();
        if (stop.stop_requested()) return;
        is_late = true;
        Signal();
      });
      act();
    }
    return !is_late;
  }

 private:
  kernels::Flag flag_{0};
  const kernels::Buffer shown_;  // freed first, after the device has used it
};

class PartsTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kParts = kMaxMicroBatches;

  PartsTest() {
    device_.RunBehind(TestSeed());
    uploader_ = *kernels::Uploader::Make(device_, {4096, 4});
    weights_ = *PlaceAttention(*uploader_, held_.model, held_.attention);
    EXPECT_TRUE(weights_.StreamWait(device_).ok());
    KvPagePoolOptions options;
    options.layers = held_.model.layers;
    options.dtype = WireType(held_.model);
    options.page_bytes = CachePageBytes(held_.model, options.dtype);
    options.bytes = options.page_bytes * options.layers * (kParts + 1);
    options.context = &device_;
    cache_ = *KvPagePool::Create(options);
    layers_ = std::make_unique<AttentionLayers>(
        held_.model, weights_.weights, *cache_, device_.place(),
        AttentionLayers::Room{.max_rows = kParts, .micro_batches = kParts, .most_logits = kParts});
    EXPECT_TRUE(device_.TakeFailure().ok());
  }
  // One row from each of several sequences.
  Batch BatchOfParts() {
    Batch batch;
    for (int i = 0; i < kParts; ++i) {
      sequences_.push_back(std::make_unique<Sequence>(Request()));
      EXPECT_TRUE(cache_->Grow(sequences_.back()->pages, 1));
      batch.rows.push_back({sequences_.back().get(), 0, 7 + i, true, PositionClass::kGenerated});
    }
    return batch;
  }

  const HeldModel held_ = SmallRandomModel(DType::kBFloat16, 4);
  kernels::EmulatedDevice device_;
  std::unique_ptr<kernels::Uploader> uploader_;
  Placed<AttentionWeights> weights_;
  std::unique_ptr<KvPagePool> cache_;
  std::unique_ptr<AttentionLayers> layers_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};
INSTANTIATE_TEST_SUITE_P(InPlace, PartsTest, testing::Bool());

TEST_P(PartsTest, AreTakenUpThoughTheDeviceWaitsForAnothersContributions) {
  const bool in_place = GetParam();
  const auto k = static_cast<size_t>(held_.model.moe.top_k);
  const size_t row_bytes = static_cast<size_t>(held_.model.hidden) * 2;
  const Batch batch = BatchOfParts();
  ASSERT_TRUE(layers_->Begin(batch).ok());
  std::vector<std::byte> sent(row_bytes * kParts);
  for (int i = 0; i < kParts; ++i) {
    ASSERT_TRUE(layers_->Attend(0, i, &sent[static_cast<size_t>(i) * row_bytes]).ok());
    ASSERT_TRUE(layers_->SharedExperts(0, i, nullptr).ok());
  }
  const std::vector<std::byte> zeros(row_bytes);
  const kernels::Buffer there = device_.AllocateCopyOrNote(zeros.data(), zeros.size());
  const std::vector<const void*> contributions(k, in_place ? there.data() : zeros.data());
  const std::vector<uint8_t> on_device(k, in_place ? 1 : 0);
  UnraisedFlag flag(device_);
  EXPECT_TRUE(flag.IsNotAwaitedBy([&] {
    for (int i = 0; i < kParts; ++i) {
      ASSERT_TRUE(layers_->TakeExperts(i, contributions, on_device).ok());
      ASSERT_TRUE(device_.StreamWaitFlags(std::array{flag.awaited()}).ok());
      ASSERT_TRUE(layers_->AddExperts(i).ok());
    }
  }));
  flag.Signal();
  EXPECT_TRUE(device_.Wait().ok());
}

}  // namespace
}  // namespace janus::dataplane
