// Rows on their way between instances: permuted by row maps, and in fp8 with scales of 1x128.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/guarded_array.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kB16 = DType::kBFloat16;
constexpr DType kF8 = DType::kFloat8E4M3;

using Bytes = std::vector<uint8_t>;

Bytes BytesOf(const GuardedArray& array) {
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  return {bytes, bytes + array.data_bytes()};
}

// Calls test(stream) for the reference and for every instruction set, with one and three threads.
template <class Test>
void OnEveryDevice(Test test) {
  test(Stream{});
  for (const Isa isa : PresentIsas()) {
    for (const int threads : {1, 3}) {
      CpuStream cpu(isa, threads);
      test(cpu.stream);
    }
  }
}

// ---- PermuteRows

// Rows of bytes that differ, at a chosen misalignment and stride.
struct Rows {
  Rows(int count, int64_t bytes, int extra, int misalignment)
      : bytes(bytes), stride(bytes + extra), array(kF8, count * stride, misalignment) {}
  uint8_t* row(int64_t i) { return static_cast<uint8_t*>(array.data()) + i * stride; }
  int64_t bytes;
  int64_t stride;
  GuardedArray array;
};

struct Layout {
  int64_t bytes;
  int x_extra;
  int y_extra;
  int x_misalignment;
  int y_misalignment;
};
// Vectors with a tail, words with one, bytes; parts of a row that end anywhere.
constexpr Layout kLayouts[] = {{1, 0, 0, 0, 0},    {3, 0, 1, 0, 0},      {4, 0, 0, 0, 0},
                               {16, 0, 0, 0, 0},   {100, 12, 28, 0, 0},  {100, 12, 28, 4, 8},
                               {2046, 2, 2, 0, 0}, {2048, 0, 0, 0, 0},   {2050, 14, 0, 0, 0},
                               {2052, 0, 0, 4, 4}, {4100, 12, 12, 0, 0}, {6000, 0, 0, 2, 0},
                               {6000, 0, 0, 0, 1}, {14336, 0, 16, 0, 0}};

// Checks y against a loop over the maps.
void ExpectMoved(const Stream& stream, const Layout& layout, const std::vector<int32_t>& x_map,
                 const std::vector<int32_t>& y_map, bool by_lists) {
  constexpr int kX = 5;
  constexpr int kY = 9;
  Rows x(kX, layout.bytes, layout.x_extra, layout.x_misalignment);
  Rows y(kY, layout.bytes, layout.y_extra, layout.y_misalignment);
  std::mt19937_64 random(3);
  for (size_t i = 0; i < x.array.data_bytes(); ++i) x.row(0)[i] = static_cast<uint8_t>(random());
  std::fill_n(y.row(0), y.array.data_bytes(), uint8_t{0x77});
  Bytes wanted = BytesOf(y.array);
  const size_t entries = x_map.empty() ? y_map.empty() ? kX : y_map.size() : x_map.size();
  for (size_t i = 0; i < entries; ++i) {
    const int64_t from = x_map.empty() ? static_cast<int64_t>(i) : x_map[i];
    const int64_t to = y_map.empty() ? static_cast<int64_t>(i) : y_map[i];
    if (from >= 0 && to >= 0) std::copy_n(x.row(from), x.bytes, wanted.begin() + to * y.stride);
  }
  // The rows of lists may lie in any order.
  std::vector<const void*> x_list;
  std::vector<void*> y_list;
  for (int i = 0; i < kX; ++i) x_list.push_back(x.row(i));
  for (int i = 0; i < kY; ++i) y_list.push_back(y.row(i));
  const Status status = PermuteRows(stream, {.x = by_lists ? nullptr : x.row(0),
                                             .x_list = by_lists ? x_list.data() : nullptr,
                                             .y = by_lists ? nullptr : y.row(0),
                                             .y_list = by_lists ? y_list.data() : nullptr,
                                             .x_map = x_map.empty() ? nullptr : x_map.data(),
                                             .y_map = y_map.empty() ? nullptr : y_map.data(),
                                             .rows = static_cast<int64_t>(entries),
                                             .x_rows = kX,
                                             .y_rows = kY,
                                             .row_bytes = layout.bytes,
                                             .x_stride_bytes = x.stride,
                                             .y_stride_bytes = y.stride});
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(BytesOf(y.array), wanted) << layout.bytes << " bytes";
  EXPECT_TRUE(y.array.GuardsAreIntact());
}

TEST(PermuteRows, MovesEachRowWhereItsMapsSayAndLeavesTheRest) {
  OnEveryDevice([](const Stream& stream) {
    for (const Layout& layout : kLayouts) {
      for (const bool by_lists : {false, true}) {
        ExpectMoved(stream, layout, {}, {}, by_lists);
        ExpectMoved(stream, layout, {4, 0, 4, -1, 2, 1, -7}, {}, by_lists);
        ExpectMoved(stream, layout, {}, {8, -1, 0, 3}, by_lists);
        ExpectMoved(stream, layout, {4, 0, -1, 3, 2}, {1, 8, 0, -1, 2}, by_lists);
      }
    }
  });
}

TEST(PermuteRows, TakesRowsWithoutStrides) {
  OnEveryDevice([](const Stream& stream) {
    const std::vector<float> x = {1, 2, 3, 4, 5, 6};
    const std::vector<int32_t> map = {2, 0, 1};
    std::vector<float> y(6);
    const PermuteRowsArgs args{.x = x.data(),
                               .y = y.data(),
                               .x_map = map.data(),
                               .rows = 3,
                               .x_rows = 3,
                               .y_rows = 3,
                               .row_bytes = 8};
    ASSERT_TRUE(PermuteRows(stream, args).ok());
    EXPECT_EQ(y, (std::vector<float>{5, 6, 1, 2, 3, 4}));
  });
}

// Contributions of two instances, written to their (row, slot).
TEST(PermuteRows, FillsOneResultFromSeveralSenders) {
  OnEveryDevice([](const Stream& stream) {
    const std::vector<uint32_t> first = {10, 11};
    const std::vector<uint32_t> second = {20, 21, 22};
    const std::vector<int32_t> first_to = {3, 0};
    const std::vector<int32_t> second_to = {1, 4, 2};
    std::vector<uint32_t> y(6, 99);
    PermuteRowsArgs args{.x = first.data(),
                         .y = y.data(),
                         .y_map = first_to.data(),
                         .rows = 2,
                         .x_rows = 2,
                         .y_rows = 6,
                         .row_bytes = 4};
    ASSERT_TRUE(PermuteRows(stream, args).ok());
    args.x = second.data();
    args.y_map = second_to.data();
    args.rows = args.x_rows = 3;
    ASSERT_TRUE(PermuteRows(stream, args).ok());
    EXPECT_EQ(y, (std::vector<uint32_t>{11, 20, 22, 10, 21, 99}));
  });
}

TEST(PermuteRows, RefusesWhatIsNoTwoListsOfRows) {
  std::vector<uint32_t> memory(8);
  std::vector<const void*> list = {memory.data()};
  const PermuteRowsArgs good{.x = memory.data(),
                             .y = memory.data() + 4,
                             .rows = 1,
                             .x_rows = 1,
                             .y_rows = 1,
                             .row_bytes = 16};
  ASSERT_TRUE(PermuteRows(Stream{}, good).ok());
  const auto refusal = [&](auto change) {
    PermuteRowsArgs args = good;
    change(args);
    return PermuteRows(Stream{}, args).message();
  };
  EXPECT_EQ(refusal([&](auto& a) { a.x_list = list.data(); }),
            "PermuteRows: of x and x_list one must be null");
  EXPECT_EQ(refusal([](auto& a) { a.y = nullptr; }),
            "PermuteRows: of y and y_list one must be null");
  EXPECT_EQ(refusal([](auto& a) { a.y_stride_bytes = 15; }),
            "PermuteRows: y_stride_bytes is shorter than a row");
  EXPECT_EQ(refusal([](auto& a) { a.x_stride_bytes = 15; }),
            "PermuteRows: x_stride_bytes is shorter than a row");
  EXPECT_NE(refusal([](auto& a) { a.rows = 2, a.y_rows = 2; }).find("x_rows"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.rows = 2, a.x_rows = 2; }).find("y_rows"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.row_bytes = 0; }).find("row_bytes"), std::string::npos);
}

TEST(PermuteRows, NamesTheFirstRowThatIsNone) {
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    for (const Stream& stream : {Stream{}, cpu.stream}) {
      std::vector<uint32_t> memory(8);
      std::vector<int32_t> map = {0, -3, 5};
      std::vector<const void*> list = {memory.data(), nullptr};
      PermuteRowsArgs args{.x_list = list.data(),
                           .y = memory.data() + 4,
                           .x_map = map.data(),
                           .rows = 3,
                           .x_rows = 2,
                           .y_rows = 4,
                           .row_bytes = 4};
      EXPECT_EQ(PermuteRows(stream, args).message(),
                "PermuteRows: entry 2 is row 5 of x, which has 2");
      map[2] = 1;
      EXPECT_EQ(PermuteRows(stream, args).message(), "PermuteRows: row 1 of x is null");
      map[2] = -1;
      EXPECT_TRUE(PermuteRows(stream, args).ok());
      args.y_map = map.data();
      args.x_map = nullptr;
      args.rows = 1;
      map[0] = 4;
      EXPECT_EQ(PermuteRows(stream, args).message(),
                "PermuteRows: entry 0 is row 4 of y, which has 4");
    }
  }
}

// ---- PackFp8 and UnpackFp8

// Rows of all kinds of numbers: large, small, not finite, zeros, and blocks near the least amax.
class PackProblem final : public RowProblem {
 public:
  PackProblem(DType type, int hidden, int extra = 0, int misalignment = 0)
      : hidden_(hidden),
        extra_(extra),
        misalignment_(misalignment),
        x_(type, int64_t{kRows} * hidden, misalignment) {
    std::mt19937_64 random(8);
    std::normal_distribution<float> normal;
    const float infinity = std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < x_.count(); ++i) {
      const int64_t row = i / hidden;
      const int64_t h = i % hidden;
      const float draw = normal(random);
      float x = draw * std::exp2(static_cast<float>(random() % 24) - 12.0f);
      if (row == 1 && h % 7 == 3) x = h % 2 == 0 ? infinity : -infinity;
      if (row == 1 && h % 7 == 5) x = std::copysign(NAN, draw);
      if (row == 2) x = std::copysign(0.0f, draw);
      if (row == 3) x = std::copysign(std::exp2(h % 3 == 0 ? -99.0f : -130.0f), draw);
      if (row == 4) x = std::copysign(std::exp2(-100.0f) * (h % 5 == 1 ? 0.875f : 0.5f), draw);
      if (row == 5) x = h % 4 == 0 ? std::copysign(NAN, draw) : std::copysign(infinity, draw);
      if (row == 6 && h % 11 == 2) x = std::copysign(3.3e38f, draw);
      if (row == 7) x = std::copysign(std::exp2(-100.0f) * (h % 5 == 1 ? 1.0f : 0.25f), draw);
      x_.set(i, x);
    }
  }
  int rows() const override { return kRows; }
  // The packed row, then its scales.
  int row_elements() const override { return hidden_ + 4 * static_cast<int>(ScaleBlocks(hidden_)); }
  DType output() const override { return kF8; }
  double tolerance() const override { return 0.0; }
  Bytes Run(const Stream& stream, std::span<const int> selection) const override {
    const auto rows = static_cast<int64_t>(selection.size());
    const int64_t blocks = ScaleBlocks(hidden_);
    const int64_t row = hidden_ + extra_;
    GuardedArray x(x_.type(), rows * row, misalignment_);
    x.Fill(NAN);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < hidden_; ++h) {
        x.set(i * row + h, x_.at(selection[static_cast<size_t>(i)] * int64_t{hidden_} + h));
      }
    }
    GuardedArray packed(kF8, rows * row, misalignment_);
    packed.Fill(3.0f);
    GuardedArray scales(kF32, rows * (blocks + extra_));
    scales.Fill(3.0f);
    const Status status = PackFp8(stream, {.x = x.data(),
                                           .x_dtype = x.type(),
                                           .packed = static_cast<uint8_t*>(packed.data()),
                                           .scales = scales.floats(),
                                           .rows = rows,
                                           .hidden = hidden_,
                                           .x_stride = extra_ == 0 ? 0 : row,
                                           .packed_stride = extra_ == 0 ? 0 : row,
                                           .scale_stride = extra_ == 0 ? 0 : blocks + extra_});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(packed.GuardsAreIntact() && scales.GuardsAreIntact());
    Bytes out;
    for (int64_t i = 0; i < rows; ++i) {
      const auto* codes = static_cast<const uint8_t*>(packed.data()) + i * row;
      const auto* row_scales =
          static_cast<const uint8_t*>(scales.data()) + i * (blocks + extra_) * 4;
      out.insert(out.end(), codes, codes + hidden_);
      out.insert(out.end(), row_scales, row_scales + blocks * 4);
      for (int64_t h = hidden_; h < row; ++h) EXPECT_EQ(packed.at(i * row + h), 3.0f);
      for (int64_t b = blocks; b < blocks + extra_; ++b) {
        EXPECT_EQ(scales.at(i * (blocks + extra_) + b), 3.0f);
      }
    }
    return out;
  }

 private:
  static constexpr int kRows = 12;
  int hidden_;
  int extra_;
  int misalignment_;
  GuardedArray x_;
};

void ExpectTheReferencesBits(const RowProblem& problem) {
  std::vector<int> rows;
  for (int i = 0; i < problem.rows(); ++i) rows.push_back(i);
  const Bytes wanted = problem.Run(Stream{}, rows);
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    const Bytes got = problem.Run(cpu.stream, rows);
    ASSERT_EQ(got.size(), wanted.size());
    const auto [at, _] = std::ranges::mismatch(got, wanted);
    EXPECT_TRUE(at == got.end()) << ToString(isa) << ": byte "
                                 << (at - got.begin()) % problem.row_elements() << " of row "
                                 << (at - got.begin()) / problem.row_elements();
  }
}

TEST(PackFp8, GivesTheReferencesBitsEverywhere) {
  for (const DType type : {kF32, kB16}) {
    for (const int hidden : {1, 5, 16, 127, 128, 129, 132, 300, 512, 513, 1100}) {
      ExpectTheReferencesBits(PackProblem(type, hidden));
      ExpectTheReferencesBits(PackProblem(type, hidden, 3));
      ExpectTheReferencesBits(PackProblem(type, hidden, 4, 2));
      ExpectBatchInvariance(PackProblem(type, hidden));
    }
  }
}

// Code and scale of x, one block.
struct Packed {
  Bytes codes;
  float scale = -1.0f;
};
Packed Pack(const Stream& stream, const std::vector<float>& x) {
  Packed packed{Bytes(x.size(), 0xEE)};
  std::vector<float> scale(1, -1.0f);
  EXPECT_TRUE(PackFp8(stream, {.x = x.data(),
                               .packed = packed.codes.data(),
                               .scales = scale.data(),
                               .rows = 1,
                               .hidden = static_cast<int64_t>(x.size())})
                  .ok());
  packed.scale = scale[0];
  return packed;
}

TEST(PackFp8, RoundsToNearestTiesToEvenBesideTheLargest) {
  OnEveryDevice([](const Stream& stream) {
    const float two = 2.0f;
    // 448 is 1.75 * 2^8: code 0x7e. 17 and 19 lie between 16, 18 and 20; 2^-10 is a tie to 0.
    const Packed got =
        Pack(stream, {two * 448.0f, -two * 448.0f, two, two * 17.0f, two * 19.0f, two * -0x1p-9f,
                      two * 0x1p-10f, two * 0x1.8p-10f, two * 0x1p-6f, two * 0x1.fp-7f});
    EXPECT_EQ(got.scale, 2.0f);
    EXPECT_EQ(got.codes, (Bytes{0x7e, 0xfe, 0x38, 0x58, 0x5a, 0x81, 0x00, 0x01, 0x08, 0x08}));
  });
}

TEST(PackFp8, MakesNanOfWhatIsNotFiniteAndLeavesTheOthersTheirScale) {
  OnEveryDevice([](const Stream& stream) {
    const float infinity = std::numeric_limits<float>::infinity();
    const Packed got = Pack(stream, {448.0f, infinity, -infinity, std::copysign(NAN, 1.0f),
                                     std::copysign(NAN, -1.0f), -1.0f});
    EXPECT_EQ(got.scale, 1.0f);
    EXPECT_EQ(got.codes, (Bytes{0x7e, 0x7f, 0xff, 0x7f, 0xff, 0xb8}));
    const Packed none = Pack(stream, {infinity, NAN, -0.0f, 0.0f});
    EXPECT_EQ(none.scale, 0.0f);
    EXPECT_EQ(none.codes, (Bytes{0x7f, 0x7f, 0x80, 0x00}));
  });
}

TEST(PackFp8, TakesABlockBelowTheLeastForZeros) {
  OnEveryDevice([](const Stream& stream) {
    const Packed below = Pack(stream, {0x1.fffffep-101f, -0x1p-101f});
    EXPECT_EQ(below.scale, 0.0f);
    EXPECT_EQ(below.codes, (Bytes{0x00, 0x80}));
    const Packed least = Pack(stream, {0x1p-100f, -0x1p-101f});
    EXPECT_EQ(least.scale, 0x1p-100f / 448.0f);
    EXPECT_EQ(least.codes, (Bytes{0x7e, 0xf6}));
  });
}

class UnpackProblem final : public RowProblem {
 public:
  UnpackProblem(DType type, int hidden, int extra = 0, int misalignment = 0)
      : type_(type), hidden_(hidden), extra_(extra), misalignment_(misalignment) {
    std::mt19937_64 random(9);
    for (int i = 0; i < kRows * hidden; ++i) codes_.push_back(static_cast<uint8_t>(random()));
    for (int64_t i = 0; i < kRows * ScaleBlocks(hidden); ++i) {
      const auto draw = static_cast<float>(random() % 1000 + 1);
      scales_.push_back(i % 5 == 3 ? 0.0f
                                   : draw * std::exp2(static_cast<float>(random() % 40) - 20));
    }
  }
  int rows() const override { return kRows; }
  int row_elements() const override { return hidden_; }
  DType output() const override { return type_; }
  double tolerance() const override { return 0.0; }
  Bytes Run(const Stream& stream, std::span<const int> selection) const override {
    const auto rows = static_cast<int64_t>(selection.size());
    const int64_t blocks = ScaleBlocks(hidden_);
    const int64_t row = hidden_ + extra_;
    GuardedArray packed(kF8, rows * row, misalignment_);
    GuardedArray scales(kF32, rows * (blocks + extra_));
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t from = selection[static_cast<size_t>(i)];
      std::copy_n(codes_.begin() + from * hidden_, hidden_,
                  static_cast<uint8_t*>(packed.data()) + i * row);
      for (int64_t b = 0; b < blocks; ++b) {
        scales.set(i * (blocks + extra_) + b, scales_[static_cast<size_t>(from * blocks + b)]);
      }
    }
    GuardedArray y(type_, rows * row, misalignment_);
    y.Fill(3.0f);
    const Status status = UnpackFp8(stream, {.packed = static_cast<const uint8_t*>(packed.data()),
                                             .scales = scales.floats(),
                                             .y = y.data(),
                                             .y_dtype = type_,
                                             .rows = rows,
                                             .hidden = hidden_,
                                             .packed_stride = extra_ == 0 ? 0 : row,
                                             .scale_stride = extra_ == 0 ? 0 : blocks + extra_,
                                             .y_stride = extra_ == 0 ? 0 : row});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    Bytes out;
    for (int64_t i = 0; i < rows; ++i) {
      const auto* bytes = static_cast<const uint8_t*>(y.data()) + i * row * SizeOf(type_);
      out.insert(out.end(), bytes, bytes + hidden_ * SizeOf(type_));
      for (int64_t h = hidden_; h < row; ++h) EXPECT_EQ(y.at(i * row + h), 3.0f);
    }
    return out;
  }

 private:
  static constexpr int kRows = 9;
  DType type_;
  int hidden_;
  int extra_;
  int misalignment_;
  Bytes codes_;
  std::vector<float> scales_;
};

TEST(UnpackFp8, GivesTheReferencesBitsEverywhere) {
  for (const DType type : {kF32, kB16}) {
    for (const int hidden : {1, 5, 16, 127, 128, 129, 132, 300, 512, 513, 1100}) {
      ExpectTheReferencesBits(UnpackProblem(type, hidden));
      ExpectTheReferencesBits(UnpackProblem(type, hidden, 3));
      ExpectTheReferencesBits(UnpackProblem(type, hidden, 4, 2));
      ExpectBatchInvariance(UnpackProblem(type, hidden));
    }
  }
}

// Rows in another order, each with its scales behind it.
TEST(UnpackFp8, TakesRowsThatLieApart) {
  for (const int hidden : {1, 127, 128, 132, 300, 1100}) {
    const int64_t scales_at = (hidden + 3) / 4 * 4 + 8;
    const int64_t row = scales_at + ScaleBlocks(hidden) * 4;
    constexpr int64_t kRows = 3;
    std::mt19937_64 random(4);
    std::vector<float> memory(static_cast<size_t>(kRows * row / 4));
    auto* const bytes = reinterpret_cast<uint8_t*>(memory.data());
    for (int64_t i = 0; i < kRows * row; ++i) bytes[i] = static_cast<uint8_t>(random());
    std::vector<float> scales;
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t b = 0; b < ScaleBlocks(hidden); ++b) {
        scales.push_back(static_cast<float>(random() % 100 + 1));
        memory[static_cast<size_t>((t * row + scales_at) / 4 + b)] = scales.back();
      }
    }
    const std::vector<const void*> list = {bytes + 2 * row, bytes, bytes + row};
    OnEveryDevice([&](const Stream& stream) {
      std::vector<uint16_t> wanted(static_cast<size_t>(kRows * hidden));
      std::vector<uint16_t> got(wanted.size());
      ASSERT_TRUE(UnpackFp8(stream, {.packed = bytes,
                                     .scales = scales.data(),
                                     .y = wanted.data(),
                                     .y_dtype = kB16,
                                     .rows = kRows,
                                     .hidden = hidden,
                                     .packed_stride = row})
                      .ok());
      ASSERT_TRUE(UnpackFp8(stream, {.packed_list = list.data(),
                                     .list_scales_at = scales_at,
                                     .y = got.data(),
                                     .y_dtype = kB16,
                                     .rows = kRows,
                                     .hidden = hidden})
                      .ok());
      std::rotate(wanted.begin(), wanted.begin() + 2 * hidden, wanted.end());
      EXPECT_EQ(got, wanted) << hidden;
    });
  }
}

TEST(UnpackFp8, GivesTheValueOfEachCodeTimesItsScale) {
  OnEveryDevice([](const Stream& stream) {
    Bytes codes(256);
    for (int i = 0; i < 256; ++i) codes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
    const std::vector<float> scales = {0.5f, -3.0f};
    std::vector<float> y(256);
    ASSERT_TRUE(UnpackFp8(stream, {.packed = codes.data(),
                                   .scales = scales.data(),
                                   .y = y.data(),
                                   .rows = 1,
                                   .hidden = 256})
                    .ok());
    for (size_t i = 0; i < 256; ++i) {
      const float value = FromFloat8E4M3(codes[i]) * scales[i / 128];
      const auto wanted = std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
      EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), wanted) << i;
    }
  });
}

// Half of the last of E4M3's four bits, or of its least number.
TEST(PackFp8, ComesBackWithinHalfAUnit) {
  OnEveryDevice([](const Stream& stream) {
    std::mt19937_64 random(5);
    std::vector<float> x(300);
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(random) * std::exp2(static_cast<float>(random() % 30) - 20.0f);
    x[140] = std::numeric_limits<float>::max();
    Bytes codes(300);
    std::vector<float> scales(3);
    std::vector<float> y(300);
    ASSERT_TRUE(PackFp8(stream, {.x = x.data(),
                                 .packed = codes.data(),
                                 .scales = scales.data(),
                                 .rows = 1,
                                 .hidden = 300})
                    .ok());
    ASSERT_TRUE(UnpackFp8(stream, {.packed = codes.data(),
                                   .scales = scales.data(),
                                   .y = y.data(),
                                   .rows = 1,
                                   .hidden = 300})
                    .ok());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(std::abs(y[i] - x[i]),
                std::max(std::abs(x[i]) * 0x1.001p-4f, scales[i / 128] * 0x1.001p-10f))
          << x[i];
    }
    EXPECT_EQ(y[140], x[140]);
  });
}

TEST(PackFp8, RefusesOtherFormatsAndShortStrides) {
  std::vector<float> memory(16);
  Bytes codes(16);
  PackFp8Args pack{.x = memory.data(),
                   .x_dtype = DType::kFloat16,
                   .packed = codes.data(),
                   .scales = memory.data() + 8,
                   .rows = 1,
                   .hidden = 4};
  EXPECT_EQ(PackFp8(Stream{}, pack).message(), "PackFp8: x_dtype is Float16");
  pack.x_dtype = kF32;
  pack.x_stride = 3;
  EXPECT_EQ(PackFp8(Stream{}, pack).message(), "PackFp8: x_stride is shorter than a row");
  pack.x_stride = 0;
  pack.packed_stride = 3;
  EXPECT_EQ(PackFp8(Stream{}, pack).message(), "PackFp8: packed_stride is shorter than a row");
  UnpackFp8Args unpack{.packed = codes.data(),
                       .scales = memory.data(),
                       .y = memory.data() + 8,
                       .y_dtype = kF8,
                       .rows = 1,
                       .hidden = 4};
  EXPECT_EQ(UnpackFp8(Stream{}, unpack).message(), "UnpackFp8: y_dtype is Float8E4M3");
  unpack.y_dtype = kF32;
  unpack.y_stride = 3;
  EXPECT_EQ(UnpackFp8(Stream{}, unpack).message(), "UnpackFp8: y_stride is shorter than a row");
  unpack.y_stride = 0;
  const void* const list[] = {codes.data()};
  unpack.packed_list = list;
  EXPECT_EQ(UnpackFp8(Stream{}, unpack).message(),
            "UnpackFp8: want either packed and scales, or packed_list");
  unpack.packed = nullptr;
  unpack.scales = nullptr;
  EXPECT_EQ(UnpackFp8(Stream{}, unpack).message(),
            "UnpackFp8: list_scales_at is within the elements");
  unpack.packed = codes.data();
  unpack.scales = memory.data();
  unpack.packed_list = nullptr;
  unpack.y_stride = 0;
  unpack.hidden = 129;
  unpack.scale_stride = 1;
  EXPECT_EQ(UnpackFp8(Stream{}, unpack).message(), "UnpackFp8: scale_stride is shorter than a row");
}

}  // namespace
}  // namespace janus::kernels
