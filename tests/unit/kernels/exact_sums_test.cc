// The sum rule FixedPoint: terms into sums of integers, and sums into rows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/fixed_point.h"
#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kF8 = DType::kFloat8E4M3;  // for bytes
constexpr int kExponent = -12;

using Bytes = std::vector<uint8_t>;

Bytes BytesOf(const GuardedArray& array) {
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  return {bytes, bytes + array.data_bytes()};
}

// All devices give the specification's bytes. ExpectParity would read them as numbers.
void ExpectTheReferencesBits(const RowProblem& problem) {
  std::vector<int> rows;
  for (int i = 0; i < problem.rows(); ++i) rows.push_back(i);
  const Bytes wanted = problem.Run(Stream{}, rows);
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    const Bytes got = problem.Run(cpu.stream, rows);
    ASSERT_EQ(got.size(), wanted.size());
    const auto [at, _] = std::ranges::mismatch(got, wanted);
    EXPECT_TRUE(at == got.end()) << ToString(isa) << ": byte " << (at - got.begin());
  }
}

// Row t has 1 to 8 terms: some of them too large, near the limit, not finite, zero.
class AddProblem final : public RowProblem {
 public:
  AddProblem(int bits, int hidden, int misalignment = 0)
      : bits_(bits), hidden_(hidden), misalignment_(misalignment) {
    std::mt19937_64 random(21);
    std::normal_distribution<float> normal;
    const auto limit = static_cast<float>(FixedLimit(bits, kMostTerms)) * std::exp2(kExponent);
    for (int t = 0; t < kRows; ++t) {
      std::vector<float>& terms = terms_.emplace_back();
      for (int i = 0; i < (1 + t % kMostTerms) * hidden; ++i) {
        float x = normal(random) * std::exp2(static_cast<float>(random() % 16) - 8.0f);
        if (t == 2) x = std::copysign(limit * (0.75f + 0.03125f * static_cast<float>(i % 16)), x);
        if (t == 5 && i % 9 == 4) x = std::copysign(3e38f, x);
        if (t == 6 && i % 7 == 3) x = i % 2 == 0 ? std::numeric_limits<float>::infinity() : NAN;
        if (t == 7) x = std::copysign(0.5f * std::exp2(kExponent) * static_cast<float>(i % 6), x);
        if (t == 8) x = std::copysign(0.0f, x);
        terms.push_back(x);
      }
    }
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return hidden_ * bits_ / 8; }
  DType output() const override { return kF8; }
  double tolerance() const override { return 0.0; }
  Bytes Run(const Stream& stream, std::span<const int> selection) const override {
    std::vector<int32_t> ends;
    int count = 0;
    for (const int t : selection) ends.push_back(count += 1 + t % kMostTerms);
    GuardedArray terms(kF32, int64_t{count} * hidden_, misalignment_);
    float* to = terms.floats();
    for (const int t : selection) to = std::ranges::copy(terms_[static_cast<size_t>(t)], to).out;
    GuardedArray sums(kF8, int64_t{row_elements()} * static_cast<int64_t>(selection.size()),
                      misalignment_);
    sums.Fill(3.0f);
    std::vector<uint32_t> clamped(1, 7);
    EXPECT_TRUE(AddTerms(stream, {.terms = terms.floats(),
                                  .ends = ends.data(),
                                  .sums = sums.data(),
                                  .clamped = clamped.data(),
                                  .bits = bits_,
                                  .exponent = kExponent,
                                  .limit = FixedLimit(bits_, kMostTerms),
                                  .rows = static_cast<int64_t>(selection.size()),
                                  .hidden = hidden_})
                    .ok());
    EXPECT_TRUE(sums.GuardsAreIntact());
    EXPECT_EQ(clamped[0], 7 + Clamped(selection));
    return BytesOf(sums);
  }

 private:
  static constexpr int kRows = 19;
  static constexpr int kMostTerms = 8;

  uint32_t Clamped(std::span<const int> selection) const {
    uint32_t count = 0;
    for (const int t : selection) {
      for (const float term : terms_[static_cast<size_t>(t)]) {
        const double units = std::nearbyint(std::abs(static_cast<double>(term)) /
                                            std::exp2(static_cast<double>(kExponent)));
        count += std::isfinite(term) && units > FixedLimit(bits_, kMostTerms) ? 1 : 0;
      }
    }
    return count;
  }

  int bits_;
  int hidden_;
  int misalignment_;
  std::vector<std::vector<float>> terms_;
};

TEST(AddTerms, GivesTheReferencesBitsEverywhere) {
  for (const int bits : {32, 24}) {
    for (const int hidden : {1, 5, 16, 127, 260, 512, 1037}) {
      for (const int misalignment : {0, 4}) {
        ExpectTheReferencesBits(AddProblem(bits, hidden, misalignment));
      }
      ExpectBatchInvariance(AddProblem(bits, hidden));
    }
  }
}

// Rows whose parts come from up to k places; the other pointers are null.
class CombineProblem final : public RowProblem {
 public:
  CombineProblem(int bits, int hidden, int top_k, bool local, int misalignment = 0)
      : bits_(bits),
        hidden_(hidden),
        top_k_(top_k),
        local_(local),
        parts_(kF8, int64_t{kRows} * top_k * hidden * (bits / 8), misalignment),
        residual_(kF32, int64_t{kRows} * hidden),
        beside_(kF32, int64_t{kRows} * hidden) {
    std::mt19937_64 random(22);
    residual_.FillNormal(random);
    beside_.FillNormal(random);
    const int32_t limit = FixedLimit(bits, top_k);
    for (int i = 0; i < kRows * top_k * hidden; ++i) {
      const auto draw = static_cast<int32_t>(random() % (2 * static_cast<uint64_t>(limit) + 1));
      const bool none = i / hidden / top_k == 3 && i % 13 == 5;
      StoreFixed(static_cast<unsigned char*>(parts_.data()) + int64_t{i} * (bits / 8),
                 none ? NotFinite(bits) : draw - limit, bits);
    }
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return hidden_; }
  DType output() const override { return kF32; }
  double tolerance() const override { return 0.0; }
  Bytes Run(const Stream& stream, std::span<const int> selection) const override {
    std::vector<const void*> sums;
    GuardedArray y(kF32, static_cast<int64_t>(selection.size()) * hidden_);
    GuardedArray beside(kF32, y.count());
    for (size_t i = 0; i < selection.size(); ++i) {
      const int t = selection[i];
      for (int j = 0; j < top_k_; ++j) {
        const auto* const part = static_cast<const unsigned char*>(parts_.data()) +
                                 (int64_t{t} * top_k_ + j) * hidden_ * (bits_ / 8);
        sums.push_back(j > 0 && (t + j) % 3 == 0 ? nullptr : part);
      }
      for (int h = 0; h < hidden_; ++h) {
        const auto to = static_cast<int64_t>(i) * hidden_ + h;
        y.set(to, residual_.at(int64_t{t} * hidden_ + h));
        beside.set(to, beside_.at(int64_t{t} * hidden_ + h));
      }
    }
    EXPECT_TRUE(CombineSums(stream, {.sums = sums.data(),
                                     .bits = bits_,
                                     .exponent = kExponent,
                                     .local = local_ ? beside.floats() : nullptr,
                                     .residual = y.floats(),
                                     .y = y.floats(),
                                     .rows = static_cast<int64_t>(selection.size()),
                                     .hidden = hidden_,
                                     .top_k = top_k_})
                    .ok());
    EXPECT_TRUE(y.GuardsAreIntact());
    return BytesOf(y);
  }

 private:
  static constexpr int kRows = 13;
  int bits_;
  int hidden_;
  int top_k_;
  bool local_;
  GuardedArray parts_;
  GuardedArray residual_;
  GuardedArray beside_;
};

TEST(CombineSums, GivesTheReferencesBitsEverywhere) {
  for (const int bits : {32, 24}) {
    for (const auto& [hidden, top_k] : {std::pair{1, 1}, std::pair{64, 2}, std::pair{1037, 8}}) {
      for (const int misalignment : {0, 4}) {
        ExpectTheReferencesBits(CombineProblem(bits, hidden, top_k, false, misalignment));
        ExpectTheReferencesBits(CombineProblem(bits, hidden, top_k, true, misalignment));
      }
      ExpectBatchInvariance(CombineProblem(bits, hidden, top_k, true));
    }
  }
}

TEST(CombineSums, AddsIntegersThenTheSharedExpertsThenTheResidual) {
  // The integers 2^26 + 1 and 1 - 2^26 are 2 in any order; as floats the ones would be lost.
  const std::vector<int32_t> first = {(1 << 26) + 1}, second = {1 - (1 << 26)};
  const std::vector<const void*> sums = {first.data(), nullptr, second.data()};
  const std::vector<float> residual = {1e8f}, local = {-1e8f};
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 1);
    for (const Stream& stream : {Stream{}, cpu.stream}) {
      std::vector<float> y(1);
      ASSERT_TRUE(CombineSums(stream, {.sums = sums.data(),
                                       .exponent = 2,
                                       .local = local.data(),
                                       .residual = residual.data(),
                                       .y = y.data(),
                                       .rows = 1,
                                       .hidden = 1,
                                       .top_k = 3})
                      .ok());
      EXPECT_EQ(y[0], 1e8f + (8.0f + -1e8f));
    }
  }
}

TEST(ExactSums, RefuseOtherBitsExponentsAndLimits) {
  std::vector<float> memory(64);
  std::vector<int32_t> ends = {1};
  AddTermsArgs add{.terms = memory.data(),
                   .ends = ends.data(),
                   .sums = memory.data(),
                   .limit = 1,
                   .rows = 1,
                   .hidden = 4};
  const auto refused = [&] { return AddTerms(Stream{}, add).message(); };
  EXPECT_EQ(refused(), "");
  add.bits = 16;
  EXPECT_EQ(refused(), "AddTerms: bits is neither 32 nor 24");
  add.bits = 24;
  add.limit = 1 << 23;
  EXPECT_EQ(refused(), "AddTerms: limit is 8388608, wanted 1..8388607");
  add.limit = 1;
  add.exponent = 101;
  EXPECT_EQ(refused(), "AddTerms: exponent is 101, wanted -100..100");
  const void* sum = memory.data();
  const CombineSumsArgs combine{.sums = &sum,
                                .residual = memory.data(),
                                .y = memory.data(),
                                .rows = 1,
                                .hidden = 4,
                                .top_k = 17};
  EXPECT_EQ(CombineSums(Stream{}, combine).message(), "CombineSums: top_k is 17, wanted 1..16");
}

}  // namespace
}  // namespace janus::kernels
