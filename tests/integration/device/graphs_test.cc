// Recorded launches serve any batch. The layers of a batch have the same bits as with new launches,
// however its rows are split over sequences and parts.

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "dataplane/attention/layers.h"
#include "dataplane/attention/micro_batch.h"
#include "kernels/device/row_buckets.h"
#include "tests/integration/device/made_device.h"
#include "tests/support/held_model.h"
#include "tests/support/place_attention.h"

namespace janus::dataplane {
namespace {

constexpr int kMostRows = 16;                  // of a batch
constexpr int kRecorded = 8;                   // of a part
constexpr kernels::PinnedRing kRing{4096, 4};  // of the uploader

// The attention side of a model on a separate device.
class Side {
 public:
  // For batches of up to `rows` rows, recorded for parts of up to `recorded` rows; 0: without
  // recording.
  Side(const HeldModel& held, DType cache, int parts, int rows, int recorded)
      : held_(held), parts_(parts) {
    uploader_ = *kernels::Uploader::Make(*device_, kRing);
    weights_ = *PlaceAttention(*uploader_, held.model, held.attention);
    EXPECT_TRUE(weights_.StreamWait(*device_).ok());
    KvPagePoolOptions options;
    options.layers = held.model.layers;
    options.dtype = cache;
    options.page_bytes = CachePageBytes(held.model, options.dtype);
    options.bytes = options.page_bytes * options.layers * 16;
    options.context = device_.get();
    cache_ = *KvPagePool::Create(options);
    layers_.emplace(held.model, weights_.weights, *cache_, device_->place(),
                    AttentionLayers::Room{rows, parts, rows, true});
    EXPECT_TRUE(device_->TakeFailure().ok());
    if (recorded > 0) {
      EXPECT_TRUE(layers_->Record(recorded).ok());
    }
  }

  // Logits of all rows, [rows, V]. The experts return each row unchanged.
  std::vector<float> Compute(const Batch& batch) {
    const ModelDescription& model = held_.model;
    const auto row_bytes = static_cast<size_t>(model.hidden * SizeOf(WireType(model)));
    const auto top_k = static_cast<size_t>(model.moe.top_k);
    EXPECT_TRUE(layers_->Begin(batch).ok());
    for (int layer = 0; layer < model.layers; ++layer) {
      for (int part = 0; part < parts_; ++part) {
        if (model.IsDense(layer)) {
          EXPECT_TRUE(layers_->DenseLayer(layer, part).ok());
          continue;
        }
        const auto rows = static_cast<size_t>(layers_->rows(part));
        std::vector<std::byte> sent(rows * row_bytes);
        EXPECT_TRUE(layers_->Attend(layer, part, sent.data()).ok());
        EXPECT_TRUE(device_->Wait().ok());
        EXPECT_TRUE(layers_->SharedExperts(layer, part, sent.data()).ok());
        std::vector<const void*> contributions(rows * top_k);
        for (size_t i = 0; i < contributions.size(); ++i) {
          contributions[i] = sent.data() + i / top_k * row_bytes;
        }
        EXPECT_TRUE(layers_->TakeExperts(part, contributions).ok());
        EXPECT_TRUE(layers_->AddExperts(part).ok());
      }
    }
    std::vector<int32_t> wanted(batch.rows.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    const std::span<const float> logits = *layers_->OnHost(*layers_->Logits(wanted));
    return {logits.begin(), logits.end()};
  }

  KvPagePool& cache() { return *cache_; }
  kernels::ContextCounts counts() const { return device_->counts(); }

 private:
  const HeldModel& held_;
  const int parts_;
  const std::unique_ptr<kernels::Context> device_ = kernels::MakeDevice();
  std::unique_ptr<kernels::Uploader> uploader_;
  Placed<AttentionWeights> weights_;
  std::unique_ptr<KvPagePool> cache_;
  std::optional<AttentionLayers> layers_;
};

struct Case {
  const char* model;
  DType dtype;
  int parts;
  bool fp8_cache = false;
};
class GraphsTest : public testing::TestWithParam<Case> {
 protected:
  // The next `counts` positions of each sequence.
  struct Step {
    std::vector<int> counts;
    PositionClass of;
  };
  static DType CacheOf(const HeldModel& held) {
    return GetParam().fp8_cache ? DType::kFloat8E4M3 : WireType(held.model);
  }
  // Whether prompts are computed like generated positions.
  static bool HasOneForm(const ModelDescription& model) {
    const auto& latent = model.attention.latent;
    return !latent || (GetParam().fp8_cache && latent->rank == kernels::kAbsorbedRank);
  }
  static Batch BatchOf(const Step& step, std::vector<Sequence>& sequences) {
    Batch batch;
    for (size_t s = 0; s < sequences.size(); ++s) {
      Sequence& sequence = sequences[s];
      for (int i = 0; i < step.counts[s]; ++i) {
        const int position = sequence.computed++;
        batch.rows.push_back(
            {&sequence, position, (37 * position + 11 * static_cast<int>(s)) % 50, true, step.of});
      }
    }
    return batch;
  }
};

std::vector<Sequence> TwoSequences() {
  std::vector<Sequence> out;
  for (int i = 0; i < 2; ++i) out.emplace_back(Request());
  return out;
}

TEST_P(GraphsTest, OneRecordingServesEveryDealingOfRows) {
  const HeldModel held = *HeldByName(GetParam().model, GetParam().dtype, 9);
  Side recorded(held, CacheOf(held), GetParam().parts, kMostRows, kRecorded);
  Side anew(held, CacheOf(held), GetParam().parts, kMostRows, 0);
  std::vector<Sequence> sequences = TwoSequences();
  std::vector<Sequence> again = TwoSequences();
  for (auto [side, of] : {std::pair{&recorded, &sequences}, std::pair{&anew, &again}}) {
    for (Sequence& s : *of) ASSERT_TRUE(side->cache().Grow(s.pages, 2));
  }
  const uint64_t graphs = recorded.counts().graphs;
  EXPECT_GT(graphs, 0u);
  const ModelDescription& model = held.model;
  const int local = model.moe.shared_intermediate > 0 ? model.moe_layers() : 0;
  for (const Step& step :
       {Step{{4, 4}, PositionClass::kGenerated}, Step{{7, 1}, PositionClass::kGenerated},
        Step{{0, 1}, PositionClass::kGenerated}, Step{{2, 3}, PositionClass::kGenerated},
        Step{{3, 2}, PositionClass::kPrompt}, Step{{9, 7}, PositionClass::kGenerated},
        Step{{1, 1}, PositionClass::kGenerated}}) {
    const uint64_t before = recorded.counts().replays;
    const Batch batch = BatchOf(step, sequences);
    const std::vector<float> logits = recorded.Compute(batch);
    ASSERT_EQ(logits, anew.Compute(BatchOf(step, again)))
        << step.counts[0] << " and " << step.counts[1];
    int parts = 0;
    for (int i = 0; i < GetParam().parts; ++i) {
      const int rows = MicroBatch(static_cast<int>(batch.rows.size()), i, GetParam().parts, 0).rows;
      const bool form_is_recorded = step.of == PositionClass::kGenerated || HasOneForm(model);
      parts += rows > 0 && rows <= kRecorded && form_is_recorded ? 1 : 0;
    }
    EXPECT_EQ(recorded.counts().replays - before,
              static_cast<uint64_t>(parts * (model.layers + local)));
  }
  EXPECT_EQ(recorded.counts().graphs, graphs);
  EXPECT_EQ(anew.counts().replays, 0u);
}

// The additional rows reach over pages, over the 64 rows that latent attention takes at once, and
// beyond a window; in each part.
TEST_P(GraphsTest, ManyMoreRowsMayBeComputedThanThereAre) {
  constexpr int kMost = 192;
  HeldModel held = *HeldByName(GetParam().model, GetParam().dtype, 10);
  if (!held.model.attention.latent) held.model.attention.sliding_window = 7;
  const int parts = GetParam().parts;
  Side recorded(held, CacheOf(held), parts, kMost, kMost / parts);
  Side anew(held, CacheOf(held), parts, kMost, 0);
  std::vector<Sequence> sequences = TwoSequences();
  std::vector<Sequence> again = TwoSequences();
  for (auto [side, of] : {std::pair{&recorded, &sequences}, std::pair{&anew, &again}}) {
    for (Sequence& s : *of) ASSERT_TRUE(side->cache().Grow(s.pages, 8));
  }
  // 33 and 65 rows per part are computed as 48 and 96.
  for (const int rows : {33, 65}) {
    const Step step{{parts * rows - 10, 10}, PositionClass::kGenerated};
    if (step.counts[0] + sequences[0].computed > 128) break;
    const uint64_t before = recorded.counts().replays;
    ASSERT_EQ(recorded.Compute(BatchOf(step, sequences)), anew.Compute(BatchOf(step, again)))
        << rows;
    EXPECT_GT(recorded.counts().replays, before);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GraphsTest,
                         testing::Values(Case{"small", DType::kBFloat16, 1},
                                         Case{"small", DType::kFloat32, 2},
                                         Case{"small_latent", DType::kBFloat16, 1},
                                         Case{"small_latent", DType::kBFloat16, 2},
                                         Case{"small_sigmoid", DType::kBFloat16, 2},
                                         Case{"small", DType::kBFloat16, 2, true},
                                         Case{"small_latent", DType::kBFloat16, 2, true},
                                         Case{"grouped_heads", DType::kBFloat16, 2},
                                         Case{"grouped_heads", DType::kBFloat16, 2, true},
                                         Case{"deepseek_heads", DType::kBFloat16, 2, true}),
                         [](const auto& info) {
                           return std::string(info.param.model) + "_" +
                                  std::string(ToString(info.param.dtype)) + "_" +
                                  std::to_string(info.param.parts) +
                                  (info.param.fp8_cache ? "_fp8_cache" : "");
                         });

TEST(RowBuckets, TakeLessThanHalfAsManyAgain) {
  EXPECT_EQ(kernels::RowBuckets(24, 512), (std::vector<int>{1, 2, 3, 4, 6, 8, 12, 16, 24}));
  EXPECT_EQ(kernels::RowBuckets(9, 10), (std::vector<int>{1, 2, 3, 4, 6, 8, 10}));
  EXPECT_EQ(kernels::RowBuckets(10, 10).back(), 10);
  EXPECT_EQ(kernels::RowBuckets(0, 10), std::vector<int>());
  for (int rows = 1; rows < 600; ++rows) {
    EXPECT_GE(kernels::RowBucket(rows), rows);
    EXPECT_LT(2 * kernels::RowBucket(rows), 3 * rows) << rows;
  }
}

}  // namespace
}  // namespace janus::dataplane
