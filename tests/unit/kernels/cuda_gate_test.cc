// The fast form of the gate against its rules, written as scalar loops, and against the plain
// form; the gate and AEBS as one operation against one after the other.

#include "kernels/cuda/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "tests/support/random.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/random_placement.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr GateScore kSigmoid = GateScore::kSigmoid;
constexpr Stream kStream{.device = Device::kCuda};

struct Shape {
  const char* name;
  int rows;
  int hidden;
  int experts;
  int top_k;
  bool renormalize = false;
  int groups = 1;
  int top_groups = 1;
  float scale = 1.0f;
  GateScore score = GateScore::kSoftmax;
  friend void PrintTo(const Shape& s, std::ostream* out) { *out << s.name; }
};

struct Routed {
  std::vector<float> logits;
  std::vector<uint16_t> ids;
  std::vector<float> weights;
};
std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}
void ExpectSameBits(const Routed& got, const Routed& wanted) {
  EXPECT_EQ(got.ids, wanted.ids);
  EXPECT_EQ(BitsOf(got.logits), BitsOf(wanted.logits));
  EXPECT_EQ(BitsOf(got.weights), BitsOf(wanted.weights));
}

// Random rows and weights, with NaN behind both.
class GateUnderTest {
 public:
  explicit GateUnderTest(const Shape& shape, int row_misalignment = 0, int weight_misalignment = 0)
      : shape_(shape),
        x_(kB16, int64_t{shape.rows} * shape.hidden + kBehind, row_misalignment),
        weight_(kB16, int64_t{shape.experts} * shape.hidden + kBehind, weight_misalignment),
        bias_(kF32, shape.experts) {
    std::mt19937_64 random(21);
    x_.FillNormal(random);
    weight_.FillNormal(random, 2.0f / std::sqrt(static_cast<float>(shape.hidden)));
    bias_.FillNormal(random, 0.3f);
    for (GuardedArray* array : {&x_, &weight_}) {
      for (int64_t i = array->count() - kBehind; i < array->count(); ++i) array->set(i, NAN);
    }
    selection_.resize(static_cast<size_t>(shape.rows));
    std::iota(selection_.begin(), selection_.end(), 0);
  }

  // Which rows, in which order.
  void Select(std::vector<int> selection) { selection_ = std::move(selection); }
  // The weights of an expert become those of another, times `factor`.
  void SetExpert(int expert, int like, float factor = 1.0f) {
    for (int64_t k = 0; k < shape_.hidden; ++k) {
      weight_.set(int64_t{expert} * shape_.hidden + k,
                  factor * weight_.at(int64_t{like} * shape_.hidden + k));
    }
  }
  void PoisonExpert(int expert, float nan) { weight_.set(int64_t{expert} * shape_.hidden, nan); }

  // With a workspace for `rows_at_once` rows and `more` bytes.
  Routed Run(GateForm form, int64_t rows_at_once = 0, int64_t more = 0) {
    return Call(rows_at_once, more, [&](const GateTopKArgs& args) {
      EXPECT_TRUE(RunGateTopK(kStream, args, form).ok());
    });
  }

  // call(args) on newly allocated arrays.
  template <class Fn>
  Routed Call(int64_t rows_at_once, int64_t more, Fn call) {
    NextOrder();
    const auto rows = static_cast<int64_t>(selection_.size());
    std::vector<const void*> x_rows;
    for (const int t : selection_) {
      x_rows.push_back(static_cast<const char*>(x_.data()) + int64_t{t} * shape_.hidden * 2);
    }
    GuardedArray logits(kF32, rows * shape_.experts);
    GuardedArray ids(kB16, rows * shape_.top_k);
    GuardedArray weights(kF32, rows * shape_.top_k);
    logits.Fill(NAN);
    weights.Fill(NAN);
    // Every expert, so that a kernel that reads ids too early activates too many experts.
    for (int64_t i = 0; i < ids.count(); ++i) {
      static_cast<uint16_t*>(ids.data())[i] = static_cast<uint16_t>(i % shape_.experts);
    }
    const int64_t bytes =
        GateTopKWorkspaceBytes(rows_at_once, shape_.hidden, shape_.experts) + more;
    GuardedArray workspace(kF32, bytes / 4);
    workspace.Fill(NAN);
    call(GateTopKArgs{.x_rows = x_rows.data(),
                      .x_dtype = kB16,
                      .weight = weight_.data(),
                      .weight_dtype = kB16,
                      .logits = logits.floats(),
                      .ids = static_cast<uint16_t*>(ids.data()),
                      .weights = weights.floats(),
                      .rows = rows,
                      .hidden = shape_.hidden,
                      .experts = shape_.experts,
                      .top_k = shape_.top_k,
                      .score = shape_.score,
                      .bias = is_sigmoid() ? bias_.floats() : nullptr,
                      .renormalize = shape_.renormalize,
                      .weight_scale = shape_.scale,
                      .groups = shape_.groups,
                      .top_groups = shape_.top_groups,
                      .workspace = bytes > 0 ? workspace.data() : nullptr,
                      .workspace_bytes = bytes});
    EXPECT_TRUE(logits.GuardsAreIntact() && ids.GuardsAreIntact() && weights.GuardsAreIntact() &&
                workspace.GuardsAreIntact());
    const auto* const chosen = static_cast<const uint16_t*>(ids.data());
    return {{logits.floats(), logits.floats() + logits.count()},
            {chosen, chosen + ids.count()},
            {weights.floats(), weights.floats() + weights.count()}};
  }

  // A logit by its rules; in double, with `in_double`.
  double Logit(int row, int expert, bool in_double) const {
    double exact = 0.0;
    float logit = 0.0f;
    for (int64_t first = 0; first < shape_.hidden; first += kGateSplit) {
      float sum = 0.0f;
      for (int64_t k = first; k < std::min<int64_t>(shape_.hidden, first + kGateSplit); ++k) {
        const float x = x_.at(int64_t{row} * shape_.hidden + k);
        const float w = weight_.at(int64_t{expert} * shape_.hidden + k);
        exact += static_cast<double>(x) * w;
        sum = std::fma(x, w, sum);
      }
      logit += sum;
    }
    return in_double ? exact : static_cast<double>(logit);
  }

  bool is_sigmoid() const { return shape_.score == kSigmoid; }
  // The gate's output for an expert, its logit or score, from its logit.
  double ScoreOf(double logit) const {
    return is_sigmoid() ? 1.0 / (1.0 + std::exp(-logit)) : logit;
  }
  // What is added to that for the choice.
  float Bias(int expert) const { return is_sigmoid() ? bias_.at(expert) : 0.0f; }
  void SetBias(int expert, float bias) { bias_.set(expert, bias); }

  const Shape& shape() const { return shape_; }

 private:
  static constexpr int64_t kBehind = 64;
  Shape shape_;
  GuardedArray x_;
  GuardedArray weight_;
  GuardedArray bias_;
  std::vector<int> selection_;
};

class FastGateTest : public testing::TestWithParam<Shape> {};

// A GPU's tensor cores cut the 17 terms of each step to the width of the largest. The host form
// does not. Logits are a few units.
constexpr double kLogitTolerance = 3e-5;

TEST_P(FastGateTest, LogitsAreTheSumsOfTheirPieces) {
  GateUnderTest gate(GetParam());
  const int64_t conflicts = BankConflicts();
  const Routed routed = gate.Run(GateForm::kFast, GetParam().rows);
  EXPECT_EQ(BankConflicts(), conflicts);
  for (int t = 0; t < GetParam().rows; ++t) {
    for (int e = 0; e < GetParam().experts; ++e) {
      const float got = routed.logits[static_cast<size_t>(t * GetParam().experts + e)];
      if (kSameOrder && !gate.is_sigmoid()) {
        ASSERT_EQ(got, gate.Logit(t, e, false)) << "row " << t << ", expert " << e;
      }
      ASSERT_NEAR(got, gate.ScoreOf(gate.Logit(t, e, true)), kLogitTolerance)
          << "row " << t << ", expert " << e;
    }
  }
}

#ifndef JANUS_TEST_ON_GPU
// Reads weights once for each tile of rows, a row once for each tile of experts, and no more.
TEST_P(FastGateTest, ReadsWeightsAndRowsOnceATile) {
  const Shape& s = GetParam();
  GateUnderTest gate(s);
  for (const int rows_at_once : {0, s.rows}) {
    const int64_t before = host_copies;
    gate.Run(GateForm::kFast, rows_at_once);
    EXPECT_EQ(host_copies - before, int64_t{s.hidden} / kChunk *
                                        (int64_t{(s.rows + 63) / 64} * s.experts +
                                         int64_t{(s.experts + 63) / 64} * s.rows));
  }
}
#endif

// The plain form's choice from the fast form's logits.
TEST_P(FastGateTest, ChoosesAndWeighsAsThePlainFormWould) {
  GateUnderTest gate(GetParam());
  const Routed plain = gate.Run(GateForm::kPlain);
  const Routed fast = gate.Run(GateForm::kFast, GetParam().rows);
  const auto k = static_cast<size_t>(GetParam().top_k);
  for (size_t i = 0; i < plain.ids.size(); ++i) {
    const size_t row = i / k * static_cast<size_t>(GetParam().experts);
    // Two scores that are so near may change places.
    const float difference = plain.logits[row + plain.ids[i]] + gate.Bias(plain.ids[i]) -
                             plain.logits[row + fast.ids[i]] - gate.Bias(fast.ids[i]);
    ASSERT_LE(std::abs(difference), kLogitTolerance) << "choice " << i;
    ASSERT_NEAR(fast.weights[i], plain.weights[i], kLogitTolerance * GetParam().scale);
  }
  if (kSameOrder && GetParam().hidden <= kGateSplit) ExpectSameBits(fast, plain);
}

TEST_P(FastGateTest, BitsAreTheSameForEveryWorkspace) {
  GateUnderTest gate(GetParam());
  const int rows = GetParam().rows;
  const Routed whole = gate.Run(GateForm::kFast, rows);
  ExpectSameBits(gate.Run(GateForm::kFast, rows, 64), whole);
  ExpectSameBits(gate.Run(GateForm::kFast), whole);
  ExpectSameBits(gate.Run(GateForm::kFast, 1, -4), whole);  // of no row's size
  for (const int at_once : {1, 3, rows - 1}) {
    if (at_once < rows) ExpectSameBits(gate.Run(GateForm::kFast, at_once), whole);
  }
}

TEST_P(FastGateTest, RowsKnowNothingOfTheRowsBesideThem) {
  GateUnderTest gate(GetParam());
  const Routed all = gate.Run(GateForm::kFast, GetParam().rows);
  const auto k = static_cast<size_t>(GetParam().top_k);
  const auto experts = static_cast<size_t>(GetParam().experts);
  std::vector<int> order(static_cast<size_t>(GetParam().rows));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(22);
  for (int round = 0; round < 4; ++round) {
    std::ranges::shuffle(order, random);
    const std::vector<int> some(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(random() % order.size()) + 1);
    gate.Select(some);
    const Routed got = gate.Run(GateForm::kFast, static_cast<int64_t>(random() % 2) * 1000);
    for (size_t i = 0; i < some.size(); ++i) {
      const auto t = static_cast<size_t>(some[i]);
      for (size_t j = 0; j < k; ++j) {
        ASSERT_EQ(got.ids[i * k + j], all.ids[t * k + j]);
        ASSERT_EQ(got.weights[i * k + j], all.weights[t * k + j]);
      }
      for (size_t e = 0; e < experts; ++e) {
        ASSERT_EQ(got.logits[i * experts + e], all.logits[t * experts + e]);
      }
    }
  }
}

TEST_P(FastGateTest, ReadsRowsAndWeightsAtAnyAddress) {
  const Routed aligned = GateUnderTest(GetParam()).Run(GateForm::kFast, GetParam().rows);
  ExpectSameBits(GateUnderTest(GetParam(), 2, 0).Run(GateForm::kFast, GetParam().rows), aligned);
  ExpectSameBits(GateUnderTest(GetParam(), 0, 14).Run(GateForm::kFast, GetParam().rows), aligned);
  ExpectSameBits(GateUnderTest(GetParam(), 8, 8).Run(GateForm::kFast), aligned);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FastGateTest,
    testing::Values(Shape{"Least", 1, 8, 1, 1}, Shape{"OnePiece", 9, 256, 60, 4},
                    Shape{"OnePieceInGroups", 20, 128, 160, 6, false, 8, 3, 16.0f},
                    Shape{"PastAPiece", 17, 264, 65, 8, true},
                    Shape{"PastAPart", 16, 328, 64, 2, true}, Shape{"BelowAPart", 15, 504, 63, 3},
                    Shape{"PastATile", 65, 520, 129, 8, true, 3, 2},
                    Shape{"Tiles", 130, 272, 128, 32, false, 64, 20, 2.5f},
                    Shape{"Experts", 3, 40, 700, 32, true, 7, 2},
                    Shape{"Sigmoid", 20, 128, 61, 6, false, 1, 1, 1.7f, kSigmoid},
                    Shape{"SigmoidInGroups", 33, 256, 256, 8, true, 8, 4, 2.5f, kSigmoid},
                    Shape{"SigmoidInPairs", 17, 264, 64, 5, true, 32, 9, 2.5f, kSigmoid},
                    Shape{"SigmoidOne", 3, 520, 1, 1, true, 1, 1, 2.5f, kSigmoid}),
    [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
INSTANTIATE_TEST_SUITE_P(Models, FastGateTest,
                         testing::Values(Shape{"DeepSeekV3", 64, 7168, 256, 8, true, 8, 4, 2.5f,
                                               kSigmoid},
                                         Shape{"DeepSeekV2", 64, 5120, 160, 6, false, 8, 3, 16.0f}),
                         [](const auto& info) { return info.param.name; });
#endif

// Equal weights give equal logits, in one piece and in several.
TEST(FastGate, TiesGoToTheLowerExpertAndTheLowerGroup) {
  for (const int hidden : {16, 600}) {
    GateUnderTest gate({"", 33, hidden, 96, 6, true, 4, 2});
    for (int e = 1; e < 96; ++e) gate.SetExpert(e, 0);
    const Routed routed = gate.Run(GateForm::kFast, 33);
    for (size_t i = 0; i < routed.ids.size(); ++i) EXPECT_EQ(routed.ids[i], i % 6);
    // Of 0 all logits are +0 and -0.
    for (int e = 0; e < 96; ++e) gate.SetExpert(e, 0, e % 2 == 0 ? 0.0f : -0.0f);
    const Routed zeros = gate.Run(GateForm::kFast, 33);
    for (size_t i = 0; i < zeros.ids.size(); ++i) EXPECT_EQ(zeros.ids[i], i % 6);
  }
  // Among two groups that tie behind a better one, the lower is kept.
  GateUnderTest gate({"", 33, 600, 64, 4, true, 4, 2});
  for (int e = 0; e < 64; ++e) gate.SetExpert(e, 0);
  const int better = 50;  // of group 3, in the rows where it is better
  gate.SetExpert(better, 0, 2.0f);
  const Routed routed = gate.Run(GateForm::kFast, 33);
  int first = 0;
  for (size_t t = 0; t < 33; ++t) {
    const std::vector<uint16_t> ids(&routed.ids[t * 4], &routed.ids[t * 4] + 4);
    const bool is_better = routed.logits[t * 64] > 0.0f;
    first += is_better ? 1 : 0;
    EXPECT_EQ(ids, is_better ? (std::vector<uint16_t>{50, 0, 1, 2})
                             : (std::vector<uint16_t>{0, 1, 2, 3}));
  }
  EXPECT_TRUE(first > 0 && first < 33);
}

// Two groups have the same best logit; the higher has the better second.
TEST(FastGate, AGroupThatTiesWithALowerOneIsClosed) {
  GateUnderTest gate({"", 33, 264, 4, 2, true, 2, 1});
  gate.SetExpert(1, 0, 0.25f);
  gate.SetExpert(2, 0);
  gate.SetExpert(3, 0, 0.5f);
  const Routed routed = gate.Run(GateForm::kFast, 33);
  for (size_t t = 0; t < 33; ++t) {
    const std::vector<uint16_t> ids(&routed.ids[t * 2], &routed.ids[t * 2] + 2);
    EXPECT_EQ(ids, routed.logits[t * 4] > 0.0f ? (std::vector<uint16_t>{0, 1})
                                               : (std::vector<uint16_t>{1, 0}));
  }
}

TEST(FastGate, NanLogitsGiveDistinctIdsAndNanWeights) {
  GateUnderTest gate({"", 20, 264, 40, 5, true});
  gate.PoisonExpert(3, NAN);
  gate.PoisonExpert(17, std::copysign(NAN, -1.0f));
  gate.PoisonExpert(39, NAN);
  const Routed routed = gate.Run(GateForm::kFast, 20);
  const Routed plain = gate.Run(GateForm::kPlain);
  EXPECT_EQ(routed.ids, plain.ids);
  for (size_t t = 0; t < 20; ++t) {
    EXPECT_EQ(std::vector<uint16_t>(&routed.ids[t * 5], &routed.ids[t * 5] + 3),
              (std::vector<uint16_t>{3, 17, 39}));
  }
  for (const float weight : routed.weights) EXPECT_TRUE(std::isnan(weight));
}

// With a bias too, and with groups of tied sums, in any order of their experts.
TEST(FastGate, TiedSumsAndNanScoresAreAsInThePlainForm) {
  GateUnderTest gate({"", 20, 264, 32, 7, true, 8, 3, 2.5f, kSigmoid});
  for (int e = 1; e < 32; ++e) gate.SetExpert(e, 0);
  for (int e = 0; e < 32; ++e) gate.SetBias(e, 0.25f * static_cast<float>(e * 5 % 4));
  ExpectSameBits(gate.Run(GateForm::kFast, 20), gate.Run(GateForm::kFast));
  const Routed tied = gate.Run(GateForm::kFast, 20);
  EXPECT_EQ(tied.ids, gate.Run(GateForm::kPlain).ids);
  for (size_t i = 0; i < tied.ids.size(); ++i) EXPECT_LT(tied.ids[i], 12) << "not the lower groups";
  for (const int e : {3, 17, 30}) gate.PoisonExpert(e, NAN);
  const Routed poisoned = gate.Run(GateForm::kFast, 20);
  EXPECT_EQ(poisoned.ids, gate.Run(GateForm::kPlain).ids);
  for (size_t t = 0; t < 20; ++t) {
    EXPECT_EQ(std::vector<uint16_t>(&poisoned.ids[t * 7], &poisoned.ids[t * 7] + 3),
              (std::vector<uint16_t>{3, 17, 30}));
  }
  for (const float weight : poisoned.weights) EXPECT_TRUE(std::isnan(weight));
}

// Logits of all magnitudes, infinite ones too: one hidden element is not 0.
TEST(FastGate, OrdersLogitsOfAllSizesAsThePlainFormDoes) {
  constexpr int kExperts = 64;
  std::vector<uint16_t> weight(kExperts * 8);
  std::vector<uint16_t> x(8);
  x[0] = ToBFloat16(1.0f);
  std::mt19937_64 random(23);
  for (int round = 0; round < 50; ++round) {
    for (size_t e = 0; e < kExperts; ++e) {
      // Finite, but for an infinity now and then.
      auto bits = static_cast<uint16_t>(random());
      if ((bits & 0x7F80u) == 0x7F80u) bits &= 0xFF80u;
      if (bits == 0x7F80u) bits = 0x4000u;  // +inf makes every weight NaN
      weight[8 * e] = bits;
    }
    std::vector<uint16_t> ids[2];
    for (const GateForm form : {GateForm::kPlain, GateForm::kFast}) {
      std::vector<float> logits(kExperts);
      std::vector<float> weights(kMaxTopK);
      const std::vector<const void*> rows = {x.data()};
      auto& chosen = ids[form == GateForm::kFast ? 1 : 0];
      chosen.resize(kMaxTopK);
      NextOrder();
      ASSERT_TRUE(RunGateTopK(kStream,
                              {.x_rows = rows.data(),
                               .x_dtype = kB16,
                               .weight = weight.data(),
                               .weight_dtype = kB16,
                               .logits = logits.data(),
                               .ids = chosen.data(),
                               .weights = weights.data(),
                               .rows = 1,
                               .hidden = 8,
                               .experts = kExperts,
                               .top_k = kMaxTopK},
                              form)
                      .ok());
    }
    EXPECT_EQ(ids[1], ids[0]) << "round " << round;
  }
}

// A model's form depends on its shape and its formats only.
TEST(FastGate, IsForBfloat16InChunks) {
  GateTopKArgs a{.x_dtype = kB16, .weight_dtype = kB16, .hidden = 7168};
  EXPECT_EQ(GateFormFor(a), GateForm::kFast);
  a.rows = 100000;
  EXPECT_EQ(GateFormFor(a), GateForm::kFast);
  a.hidden = 7172;
  EXPECT_EQ(GateFormFor(a), GateForm::kPlain);
  a.hidden = 7168;
  a.x_dtype = kF32;
  EXPECT_EQ(GateFormFor(a), GateForm::kPlain);
  a.x_dtype = kB16;
  a.weight_dtype = kF32;
  EXPECT_EQ(GateFormFor(a), GateForm::kPlain);
  a.weight_dtype = kB16;
  const float bias[1] = {};
  a.bias = bias;
  EXPECT_EQ(GateFormFor(a), GateForm::kPlain);
  a.score = GateScore::kSigmoid;
  EXPECT_EQ(GateFormFor(a), GateForm::kFast);
  a.bias = nullptr;
  a.score = GateScore::kSigmoidOfChosen;
  EXPECT_EQ(GateFormFor(a), GateForm::kPlain);
}

// ---- With AEBS

LayerPlacement DrawPlacement(int experts, int instances, int extra, std::mt19937_64& random) {
  return LayerPlacement::Of(RandomPlacement(experts, instances, extra, random), 0, experts);
}

// On the heap, which every device reads.
struct Scheduled {
  std::vector<Replica> replicas;
  std::vector<Replica> replica_of;
  std::vector<int32_t> load;
  std::vector<uint16_t> activated;
  std::vector<int32_t> num_activated = {-1};
  std::vector<uint32_t> arrived = {0xA5A5A5A5};  // as no launch left it
  ScheduleExpertsArgs Args(SchedulingPolicy policy, const LayerPlacement& placement, size_t count) {
    replicas.assign(count, Replica{7, 7});
    replica_of.assign(static_cast<size_t>(placement.experts), Replica{7, 7});
    load.assign(static_cast<size_t>(placement.instances), -1);
    activated.assign(static_cast<size_t>(placement.experts), 0xFFFF);
    return {.policy = policy,
            .placement = PlacementView::Of(placement),
            .replicas = replicas.data(),
            .replica_of = replica_of.data(),
            .load = load.data(),
            .activated = activated.data(),
            .num_activated = num_activated.data()};
  }
};

void ExpectTheSpecifications(const Scheduled& got, SchedulingPolicy policy,
                             const LayerPlacement& placement, const std::vector<uint16_t>& ids) {
  AebsWorkspace work(placement.experts, placement.instances);
  std::vector<Replica> replicas(ids.size());
  ScheduleActivatedExperts(policy, placement, ids, work, replicas);
  EXPECT_EQ(got.replicas, replicas);
  EXPECT_TRUE(std::ranges::equal(got.replica_of, work.replica_of()));
  EXPECT_TRUE(std::ranges::equal(got.load, work.load()));
  ASSERT_EQ(static_cast<size_t>(got.num_activated[0]), work.activated().size());
  EXPECT_TRUE(std::ranges::equal(std::span(got.activated).first(work.activated().size()),
                                 work.activated()));
  for (size_t i = work.activated().size(); i < got.activated.size(); ++i) {
    EXPECT_EQ(got.activated[i], 0xFFFF) << "was written by another block than the last";
  }
}

// The parts of a call that decide its launches.
struct Way {
  const char* name;
  Shape shape;
  int instances;
  int rows_at_once;
  friend void PrintTo(const Way& w, std::ostream* out) { *out << w.name; }
};
class GateAndScheduleTest : public testing::TestWithParam<Way> {};

TEST_P(GateAndScheduleTest, GivesWhatOneAfterTheOtherGives) {
  const auto& [name, shape, instances, rows_at_once] = GetParam();
  std::mt19937_64 random(24);
  for (int round = 0; round < 6; ++round) {
    const LayerPlacement placement =
        DrawPlacement(shape.experts, instances, shape.experts / 2, random);
    const auto policy = round % 2 == 0 ? SchedulingPolicy::kAebs : SchedulingPolicy::kAebsGreedy;
    GateUnderTest gate(shape);
    const Routed wanted = gate.Run(GateForm::kFast, rows_at_once);
    Scheduled got;
    const Routed routed = gate.Call(rows_at_once, 0, [&](const GateTopKArgs& args) {
      const Status status = GateAndSchedule(
          kStream, {args, got.Args(policy, placement, wanted.ids.size()), got.arrived.data()});
      EXPECT_TRUE(status.ok()) << status.ToString();
    });
    ExpectSameBits(routed, wanted);
    ExpectTheSpecifications(got, policy, placement, routed.ids);
    // One launch counts the blocks of choices; without it nothing is counted.
    const bool is_fused = rows_at_once >= shape.rows && instances <= 128 &&
                          routed.ids.size() <= static_cast<size_t>(kOneBlockIds);
    EXPECT_EQ(got.arrived[0], is_fused ? static_cast<uint32_t>(shape.rows) : 0xA5A5A5A5u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GateAndScheduleTest,
    testing::Values(Way{"OneRow", {"", 1, 8, 5, 2}, 3, 1},
                    Way{"SigmoidRows", {"", 64, 264, 256, 8, true, 8, 4, 2.5f, kSigmoid}, 16, 64},
                    Way{"Rows", {"", 64, 264, 256, 8, true, 8, 4}, 16, 64},
                    Way{"ManyInstances", {"", 40, 40, 160, 6}, 100, 40},
                    Way{"LittleWorkspace", {"", 70, 264, 64, 4}, 9, 64},
                    Way{"NoWorkspace", {"", 20, 264, 64, 4}, 9, 0},
                    Way{"TooManyInstances", {"", 9, 40, 64, 4}, 129, 9},
                    Way{"TooManyIds", {"", 1025, 8, 40, 32}, 5, 1025}),
    [](const auto& info) { return info.param.name; });

TEST(GateAndSchedule, OfNoRowsIsAebsOfNoIds) {
  std::mt19937_64 random(25);
  const LayerPlacement placement = DrawPlacement(12, 3, 4, random);
  GateUnderTest gate({"", 1, 8, 12, 2});
  gate.Select({});
  Scheduled got;
  gate.Call(0, 0, [&](const GateTopKArgs& args) {
    EXPECT_TRUE(GateAndSchedule(kStream, {args, got.Args(SchedulingPolicy::kAebs, placement, 0),
                                          got.arrived.data()})
                    .ok());
  });
  ExpectTheSpecifications(got, SchedulingPolicy::kAebs, placement, {});
}

TEST(GateAndSchedule, RefusesWhatEitherRefusesAndPlacementsOfOtherExperts) {
  std::mt19937_64 random(26);
  const LayerPlacement placement = DrawPlacement(12, 3, 4, random);
  const LayerPlacement other = DrawPlacement(13, 3, 4, random);
  GateUnderTest gate({"", 1, 8, 12, 2});
  gate.Call(1, 0, [&](const GateTopKArgs& args) {
    Scheduled got;
    GateAndScheduleArgs a{args, got.Args(SchedulingPolicy::kAebs, other, 2), got.arrived.data()};
    EXPECT_EQ(GateAndSchedule(kStream, a).message(),
              "GateAndSchedule: the gate has not as many experts as the placement");
    a.schedule = got.Args(SchedulingPolicy::kAebs, placement, 2);
    a.arrived = nullptr;
    EXPECT_EQ(GateAndSchedule(kStream, a).message(), "GateAndSchedule: arrived is null");
    a.arrived = got.arrived.data();
    a.schedule.load = nullptr;
    EXPECT_EQ(GateAndSchedule(kStream, a).message(), "ScheduleExperts: load is null");
    a.schedule.load = got.load.data();
    a.gate.top_k = 13;
    EXPECT_EQ(GateAndSchedule(kStream, a).message(), "GateTopK: top_k is 13, wanted 1..12");
    EXPECT_EQ(got.num_activated[0], -1);
  });
}

TEST(FastGate, RefusesAWorkspaceThatIsNoneOrNotAligned) {
  GateUnderTest gate({"", 1, 8, 12, 2});
  gate.Call(1, 0, [&](const GateTopKArgs& args) {
    GateTopKArgs a = args;
    a.workspace = static_cast<char*>(args.workspace) + 4;
    EXPECT_EQ(GateTopK(kStream, a).message(), "GateTopK: workspace is not 64-byte aligned");
    a.workspace = nullptr;
    EXPECT_EQ(GateTopK(kStream, a).message(),
              "GateTopK: workspace is null but workspace_bytes is not 0");
  });
}

}  // namespace
}  // namespace janus::kernels::cuda
