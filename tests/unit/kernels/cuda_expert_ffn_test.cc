// The fast form of the experts against the plain one, expert by expert, with every number of rows
// at which a tile changes; what the parity cases cannot choose.

#include "kernels/cuda/expert_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/cuda_tensor_order.h"
#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels::cuda {
namespace {

constexpr DType kB16 = DType::kBFloat16;

struct Shape {
  int hidden;
  int intermediate;
};

// An expert for each of `counts`, with as many rows.
class Experts {
 public:
  // `misalignment`: bytes past a 64-byte boundary, of rows and of weights.
  Experts(Shape shape, std::span<const int> counts, DType y_dtype, int row_misalignment = 0,
          int weight_misalignment = 0)
      : shape_(shape),
        counts_(counts.begin(), counts.end()),
        y_dtype_(y_dtype),
        total_(std::accumulate(counts_.begin(), counts_.end(), 0)),
        x_(kB16, int64_t{total_} * shape.hidden + kBehind, row_misalignment) {
    std::mt19937_64 random(7);
    const auto fill = [&](GuardedArray& array, float deviation) {
      array.FillNormal(random, deviation);
      for (int64_t i = array.count() - kBehind; i < array.count(); ++i) array.set(i, NAN);
    };
    fill(x_, 1.0f);
    const int64_t size = int64_t{shape.hidden} * shape.intermediate + kBehind;
    for (size_t e = 0; e < counts_.size(); ++e) {
      for (const int inner : {shape.hidden, shape.hidden, shape.intermediate}) {
        weights_.emplace_back(kB16, size, weight_misalignment);
        fill(weights_.back(), 1.5f / std::sqrt(static_cast<float>(inner)));
      }
    }
  }

  // The bytes of y, contribution after contribution.
  std::vector<uint8_t> Run(ExpertForm form) const {
    NextOrder();
    GuardedArray y(y_dtype_, int64_t{total_} * shape_.hidden);
    y.Fill(NAN);
    std::vector<ActiveExpert> experts;
    std::vector<Contribution> contributions;
    for (size_t e = 0; e < counts_.size(); ++e) {
      experts.push_back({weights_[3 * e].data(), weights_[3 * e + 1].data(),
                         weights_[3 * e + 2].data(), static_cast<int32_t>(contributions.size()),
                         counts_[e]});
      for (int i = 0; i < counts_[e]; ++i) {
        const auto row = static_cast<int64_t>(contributions.size()) * shape_.hidden;
        contributions.push_back({static_cast<const char*>(x_.data()) + row * SizeOf(kB16),
                                 static_cast<char*>(y.data()) + row * SizeOf(y_dtype_),
                                 0.1f + 0.05f * static_cast<float>(row % 17)});
      }
    }
    const auto needs = GroupedExpertFfnWorkspace::For(total_, shape_.intermediate, kB16);
    GuardedArray workspace(DType::kFloat32, needs.bytes / 4);
    workspace.Fill(NAN);
    const Status status = RunGroupedExpertFfn(Stream{.device = Device::kCuda},
                                              {.experts = experts.data(),
                                               .contributions = contributions.data(),
                                               .num_experts = static_cast<int64_t>(experts.size()),
                                               .num_contributions = total_,
                                               .hidden = shape_.hidden,
                                               .intermediate = shape_.intermediate,
                                               .weight_dtype = kB16,
                                               .row_dtype = kB16,
                                               .y_dtype = y_dtype_,
                                               .workspace = workspace.data(),
                                               .workspace_bytes = needs.bytes},
                                              form);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    const auto* bytes = static_cast<const uint8_t*>(y.data());
    return {bytes, bytes + y.data_bytes()};
  }

  // One row becomes NaN.
  void Poison(int row) {
    for (int64_t k = 0; k < shape_.hidden; ++k) x_.set(int64_t{row} * shape_.hidden + k, NAN);
  }
  size_t row_bytes() const { return static_cast<size_t>(shape_.hidden * SizeOf(y_dtype_)); }

 private:
  // Elements behind the last row of each array, all NaN: reading them shows, even where they are
  // multiplied by the zeros of the other operand.
  static constexpr int64_t kBehind = 64;

  Shape shape_;
  std::vector<int> counts_;
  DType y_dtype_;
  int total_;
  GuardedArray x_;
  std::vector<GuardedArray> weights_;
};

// Every number of rows at which the tile becomes another, or the last one of several is not full;
// experts without rows at either end and between.
constexpr int kCounts[] = {0, 1, 7, 8, 9, 16, 17, 32, 0, 33, 63, 64, 65, 200, 0};

struct Case {
  const char* name;
  Shape shape;
  DType y_dtype;
  std::span<const int> counts = kCounts;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class FastExpertsTest : public testing::TestWithParam<Case> {};

TEST_P(FastExpertsTest, GiveThePlainFormsResult) {
  const auto& [name, shape, y_dtype, counts] = GetParam();
  const Experts experts(shape, counts, y_dtype);
  const std::vector<uint8_t> wanted = experts.Run(ExpertForm::kPlain);
  const int64_t conflicts = BankConflicts();
  const std::vector<uint8_t> got = experts.Run(ExpertForm::kFast);
  EXPECT_EQ(BankConflicts(), conflicts);
  ASSERT_EQ(got.size(), wanted.size());
  const auto count = static_cast<int64_t>(got.size()) / SizeOf(y_dtype);
  double range = 0.0;
  double worst = 0.0;
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = ReadElement(got.data(), y_dtype, i);
    const float plain = ReadElement(wanted.data(), y_dtype, i);
    ASSERT_TRUE(std::isfinite(value) && std::isfinite(plain)) << "element " << i;
    range = std::max(range, std::abs(static_cast<double>(plain)));
    worst = std::max(worst, std::abs(static_cast<double>(value) - plain));
    different += value != plain ? 1 : 0;
  }
  ASSERT_GT(range, 0.0);
  EXPECT_LE(worst, 6e-3 * range);
  if (kSameOrder) {
    EXPECT_EQ(different, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FastExpertsTest,
                         testing::Values(Case{"Least", {8, 8}, kB16},
                                         Case{"NoWholeTiles", {136, 88}, kB16},
                                         Case{"InFp32", {136, 88}, DType::kFloat32},
                                         // More steps than stages, of up and of down.
                                         Case{"LongRows", {712, 40}, kB16},
                                         Case{"LongInner", {40, 712}, kB16}),
                         [](const auto& info) { return info.param.name; });

#ifdef JANUS_TEST_ON_GPU
// Too long for the host form.
constexpr int kFewCounts[] = {1, 40};
INSTANTIATE_TEST_SUITE_P(Models, FastExpertsTest,
                         testing::Values(Case{"DeepSeekV3", {7168, 2048}, kB16, kFewCounts},
                                         Case{"DeepSeekV2", {5120, 1536}, kB16, kFewCounts}),
                         [](const auto& info) { return info.param.name; });
#endif

// Where rows and weights lie does not show in the bits: copies of 16 bytes cannot read all of it.
TEST(FastExperts, ReadRowsAndWeightsAtAnyAddress) {
  const Shape shape{136, 88};
  constexpr int counts[] = {3, 20, 40};
  const std::vector<uint8_t> aligned = Experts(shape, counts, kB16).Run(ExpertForm::kFast);
  EXPECT_EQ(Experts(shape, counts, kB16, 2, 0).Run(ExpertForm::kFast), aligned);
  EXPECT_EQ(Experts(shape, counts, kB16, 0, 14).Run(ExpertForm::kFast), aligned);
  EXPECT_EQ(Experts(shape, counts, kB16, 8, 8).Run(ExpertForm::kFast), aligned);
}

TEST(FastExperts, ARowOfNaNsStaysAlone) {
  constexpr int counts[] = {9, 50};
  Experts experts({72, 40}, counts, kB16);
  const std::vector<uint8_t> before = experts.Run(ExpertForm::kFast);
  experts.Poison(20);
  const std::vector<uint8_t> after = experts.Run(ExpertForm::kFast);
  for (size_t row = 0; row < 59; ++row) {
    const auto begin = row * experts.row_bytes();
    const std::vector<uint8_t> was(&before[begin], &before[begin] + experts.row_bytes());
    const std::vector<uint8_t> is(&after[begin], &after[begin] + experts.row_bytes());
    EXPECT_EQ(was == is, row != 20) << "row " << row;
  }
}

// A model's form is a matter of its shape and its formats: nothing else of a call may change bits.
TEST(FastExperts, AreForBfloat16InChunks) {
  GroupedExpertFfnArgs a{
      .hidden = 7168, .intermediate = 2048, .weight_dtype = kB16, .row_dtype = kB16};
  for (const int64_t rows : {1, 64, 65, 100000}) {
    a.num_experts = a.num_contributions = rows;
    EXPECT_EQ(ExpertFormFor(a), ExpertForm::kFast);
  }
  const auto with = [&](auto field, auto value) {
    GroupedExpertFfnArgs other = a;
    other.*field = value;
    return ExpertFormFor(other);
  };
  EXPECT_EQ(with(&GroupedExpertFfnArgs::hidden, 7164), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::intermediate, 2047), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::weight_dtype, DType::kFloat16), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::row_dtype, DType::kFloat32), ExpertForm::kPlain);
  EXPECT_EQ(with(&GroupedExpertFfnArgs::y_dtype, kB16), ExpertForm::kFast);
}

}  // namespace
}  // namespace janus::kernels::cuda
