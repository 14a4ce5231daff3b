#include "dataplane/comm/exchange/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

using Packed = std::vector<std::byte>;

RowFormat FormatOf(int hidden, DType type = DType::kFloat32) {
  return {hidden, type, Compression::kFp8};
}

// The reference, and this machine's fastest kernels on one and on three threads.
void OnEveryHost(const std::function<void(const kernels::Stream&)>& test) {
  test(kernels::Stream{});
  const KernelChoice best = BestCpu();
  for (const int threads : {1, 3}) {
    kernels::Team team(threads);
    test({best.device, &team, best.isa, nullptr});
  }
}

Packed Pack(const kernels::Stream& on, const RowFormat& format, const std::vector<float>& rows) {
  const size_t count = rows.size() / static_cast<size_t>(format.hidden);
  Packed packed(count * format.bytes(), std::byte{0xEE});
  const Status status = PackRows(on, format, reinterpret_cast<const std::byte*>(rows.data()),
                                 static_cast<int64_t>(count), packed.data());
  EXPECT_TRUE(status.ok()) << status.ToString();
  return packed;
}

std::vector<float> Unpack(const kernels::Stream& on, const RowFormat& format,
                          const Packed& packed) {
  const size_t count = packed.size() / format.bytes();
  std::vector<float> rows(count * static_cast<size_t>(format.hidden), -7.0f);
  const Status status = UnpackRows(on, format, packed.data(), static_cast<int64_t>(count),
                                   reinterpret_cast<std::byte*>(rows.data()));
  EXPECT_TRUE(status.ok()) << status.ToString();
  return rows;
}

std::vector<float> Normal(Random& random, size_t count) {
  std::vector<float> x(count);
  for (float& v : x) {
    v = 0;
    for (int i = 0; i < 6; ++i) v += random.Signed();
  }
  return x;
}

TEST(RowFormat, HasAScaleForEachBlockBehindTheElements) {
  EXPECT_EQ(FormatOf(7168).bytes(), 7168u + 56 * 4);
  EXPECT_EQ(FormatOf(128).bytes(), 132u);
  EXPECT_EQ(FormatOf(129).bytes(), 132u + 8);
  EXPECT_EQ(FormatOf(1).bytes(), 8u);
  EXPECT_EQ(FormatOf(130, DType::kBFloat16).scales_at(), 132u);
  const RowFormat exact{130, DType::kBFloat16, Compression::kNone};
  EXPECT_FALSE(exact.is_packed());
  EXPECT_EQ(exact.bytes(), 260u);
  // What compression is for: about half of bfloat16.
  EXPECT_LT(static_cast<double>(FormatOf(7168, DType::kBFloat16).bytes()),
            0.516 * static_cast<double>(FormatOf(7168, DType::kBFloat16).exact_bytes()));
}

// With 448 times a power of two in its block, each number of E4M3 comes back as it was, in fp32 and
// in bfloat16.
TEST(RowCodec, KeepsEveryNumberOfE4M3) {
  for (const float power : {1.0f, 0x1p-20f, 0x1p30f}) {
    std::vector<float> row;
    for (int code = 0; code < 256; ++code) {
      const float value = FromFloat8E4M3(static_cast<uint8_t>(code));
      if (!std::isnan(value)) row.push_back(value * power);
    }
    row.insert(row.begin() + 128, 448.0f * power);  // the negative block has one of its own
    ASSERT_EQ(row.size(), 255u);
    const RowFormat format = FormatOf(255);
    OnEveryHost([&](const kernels::Stream& on) {
      const std::vector<float> back = Unpack(on, format, Pack(on, format, row));
      for (size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(row[i])) << row[i];
      }
    });
    std::vector<uint16_t> half;
    for (const float v : row) half.push_back(ToBFloat16(v));
    const RowFormat of_half = FormatOf(255, DType::kBFloat16);
    OnEveryHost([&](const kernels::Stream& on) {
      Packed packed(of_half.bytes());
      std::vector<uint16_t> back(half.size());
      ASSERT_TRUE(
          PackRows(on, of_half, reinterpret_cast<const std::byte*>(half.data()), 1, packed.data())
              .ok());
      ASSERT_TRUE(
          UnpackRows(on, of_half, packed.data(), 1, reinterpret_cast<std::byte*>(back.data()))
              .ok());
      EXPECT_EQ(back, half);
    });
  }
}

// Rows of any length, each beside others and alone, in one run of memory and apart.
TEST(RowCodec, PacksEachRowByItself) {
  Random random(TestSeed());
  for (const int hidden : {1, 3, 4, 127, 128, 129, 131, 256, 300, 1000}) {
    const RowFormat format = FormatOf(hidden);
    constexpr size_t kRows = 5;
    const auto width = static_cast<size_t>(hidden);
    const std::vector<float> rows = Normal(random, kRows * width);
    const Packed wanted = Pack(kernels::Stream{}, format, rows);
    const std::vector<float> unpacked = Unpack(kernels::Stream{}, format, wanted);
    OnEveryHost([&](const kernels::Stream& on) {
      const Packed packed = Pack(on, format, rows);
      EXPECT_EQ(Unpack(on, format, packed), unpacked) << hidden;
      std::vector<const void*> list;
      for (size_t r = 0; r < kRows; ++r) {
        const std::vector<float> row(rows.begin() + static_cast<ptrdiff_t>(r * width),
                                     rows.begin() + static_cast<ptrdiff_t>((r + 1) * width));
        const Packed alone = Pack(on, format, row);
        const std::byte* const among = packed.data() + r * format.bytes();
        // All but the padding.
        EXPECT_EQ(std::memcmp(alone.data(), among, width), 0) << hidden << " row " << r;
        EXPECT_EQ(std::memcmp(alone.data() + format.scales_at(), among + format.scales_at(),
                              format.bytes() - format.scales_at()),
                  0)
            << hidden << " row " << r;
        list.insert(list.begin(), among);
      }
      std::vector<float> listed(rows.size());
      ASSERT_TRUE(UnpackRows(on, format, list, reinterpret_cast<std::byte*>(listed.data())).ok());
      for (size_t i = 0; i < listed.size(); ++i) {
        EXPECT_EQ(listed[i], unpacked[(kRows - 1 - i / width) * width + i % width]) << hidden;
      }
    });
  }
}

// An outlier coarsens the other numbers of its block alone.
TEST(RowCodec, AnOutlierTouchesOnlyItsBlock) {
  Random random(TestSeed());
  constexpr int kHidden = 3 * 128 + 40;
  const RowFormat format = FormatOf(kHidden);
  const std::vector<float> plain = Normal(random, kHidden);
  std::vector<float> outlier = plain;
  outlier[127] = 100 * 6.0f;
  OnEveryHost([&](const kernels::Stream& on) {
    const Packed a = Pack(on, format, plain);
    const Packed b = Pack(on, format, outlier);
    EXPECT_NE(std::memcmp(a.data(), b.data(), 128), 0);
    EXPECT_EQ(std::memcmp(a.data() + 128, b.data() + 128, kHidden - 128), 0);
    const std::vector<float> back = Unpack(on, format, b);
    EXPECT_EQ(back[127], outlier[127]);
    for (size_t i = 0; i < back.size(); ++i) {
      // Half a unit in the last place, or of the least number of the block.
      const float scale = i < 128 ? 600.0f / 448 : 6.0f / 448;
      EXPECT_LE(std::abs(back[i] - outlier[i]),
                std::max(std::abs(outlier[i]) * 0x1.01p-4f, scale * 0x1.01p-10f))
          << i;
    }
  });
}

TEST(RowCodec, ZerosAndTheLeastNumbersAreZeroAndWhatIsNotFiniteIsNan) {
  constexpr int kHidden = 4 * 128;
  const RowFormat format = FormatOf(kHidden);
  std::vector<float> row(kHidden, 0.0f);
  row[1] = -0.0f;
  std::fill(row.begin() + 128, row.begin() + 256, 0x1p-140f);  // subnormal
  row[256] = INFINITY;
  row[257] = -INFINITY;
  row[258] = NAN;
  row[259] = 5.0f;
  row[384] = std::numeric_limits<float>::max();
  row[385] = std::numeric_limits<float>::max() / 448 / 64;  // 2^-6: the least that is not subnormal
  row[386] = std::numeric_limits<float>::max() / 448 / 512;
  row[387] = std::numeric_limits<float>::max() / 448 / 2048;
  OnEveryHost([&](const kernels::Stream& on) {
    const std::vector<float> back = Unpack(on, format, Pack(on, format, row));
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(back[i], 0.0f) << i;
    EXPECT_TRUE(std::signbit(back[1]));
    for (const size_t i : {256u, 257u, 258u}) EXPECT_TRUE(std::isnan(back[i])) << i;
    EXPECT_EQ(back[259], 5.0f);
    EXPECT_EQ(back[260], 0.0f);
    EXPECT_EQ(back[384], row[384]);
    EXPECT_NEAR(back[385] / row[385], 1, 1e-6);
    EXPECT_NEAR(back[386] / row[386], 1, 1e-6);
    EXPECT_EQ(back[387], 0.0f);
  });
}

// What FP8 costs in a layer of DeepSeek-V3's hidden size: eight experts of a token, fixed routing,
// rows and contributions packed, beside the same layer in bfloat16 throughout. Outlier channels are
// a hundred times as large as the others, and the weights of every expert read them.
class LayerError : public testing::Test {
 protected:
  static constexpr int kHidden = 7168, kIntermediate = 128, kExperts = 8, kRows = 4;

  LayerError() {
    Random random(TestSeed());
    for (std::vector<uint16_t>* of : {&gate_, &up_, &down_}) {
      of->resize(size_t{kExperts} * kHidden * kIntermediate);
      const float size = of == &down_ ? std::sqrt(3.0f / kIntermediate) : std::sqrt(3.0f / kHidden);
      for (uint16_t& w : *of) w = ToBFloat16(random.Signed() * size);
    }
  }

  // The sum of the contributions of each row.
  std::vector<float> Run(std::vector<uint16_t> rows, bool packs) const {
    const KernelChoice best = BestCpu();
    kernels::Team team(1);
    const kernels::Stream on{best.device, &team, best.isa, nullptr};
    const RowFormat format = FormatOf(kHidden, DType::kBFloat16);
    const auto through_the_wire = [&](std::vector<uint16_t>& x) {
      const auto count = static_cast<int64_t>(x.size() / kHidden);
      Packed packed(static_cast<size_t>(count) * format.bytes());
      auto* const bytes = reinterpret_cast<std::byte*>(x.data());
      EXPECT_TRUE(PackRows(on, format, bytes, count, packed.data()).ok());
      EXPECT_TRUE(UnpackRows(on, format, packed.data(), count, bytes).ok());
    };
    if (packs) through_the_wire(rows);
    std::vector<uint16_t> answers(size_t{kRows} * kExperts * kHidden);
    std::vector<kernels::ActiveExpert> experts(kExperts);
    std::vector<kernels::Contribution> contributions;
    for (int e = 0; e < kExperts; ++e) {
      const size_t at = static_cast<size_t>(e) * kHidden * kIntermediate;
      kernels::ActiveExpert& expert = experts[static_cast<size_t>(e)];
      expert.gate = gate_.data() + at;
      expert.up = up_.data() + at;
      expert.down = down_.data() + at;
      expert.first = e * kRows;
      expert.count = kRows;
      for (int r = 0; r < kRows; ++r) {
        contributions.push_back({rows.data() + static_cast<size_t>(r) * kHidden,
                                 answers.data() + static_cast<size_t>(r * kExperts + e) * kHidden,
                                 0.125f});
      }
    }
    kernels::GroupedExpertFfnArgs ffn;
    ffn.experts = experts.data();
    ffn.contributions = contributions.data();
    ffn.num_experts = kExperts;
    ffn.num_contributions = kExperts * kRows;
    ffn.hidden = kHidden;
    ffn.intermediate = kIntermediate;
    ffn.weight_dtype = ffn.row_dtype = ffn.y_dtype = DType::kBFloat16;
    const auto room =
        kernels::GroupedExpertFfnWorkspace::For(kExperts * kRows, kIntermediate, DType::kBFloat16);
    kernels::Buffer workspace = *kernels::HostContext().Allocate(static_cast<size_t>(room.bytes));
    ffn.workspace = workspace.data();
    ffn.workspace_bytes = room.bytes;
    EXPECT_TRUE(kernels::GroupedExpertFfn(on, ffn).ok());
    if (packs) through_the_wire(answers);
    std::vector<float> sums(size_t{kRows} * kHidden);
    std::vector<const void*> table;
    for (size_t i = 0; i < size_t{kRows} * kExperts; ++i) table.push_back(&answers[i * kHidden]);
    EXPECT_TRUE(kernels::CombineSlots(on, {.contributions = table.data(),
                                           .dtype = DType::kBFloat16,
                                           .residual = sums.data(),
                                           .y = sums.data(),
                                           .rows = kRows,
                                           .hidden = kHidden,
                                           .top_k = kExperts})
                    .ok());
    return sums;
  }

  // The length of the difference, relative to the exact layer's.
  double Error(float outliers) const {
    Random random(MixSeed(TestSeed(), 2));
    std::vector<uint16_t> rows;
    for (size_t i = 0; i < size_t{kRows} * kHidden; ++i) {
      // One channel in 512, in the middle of a block.
      rows.push_back(ToBFloat16(random.Signed() * (i % 512 == 77 ? outliers : 1.0f)));
    }
    const std::vector<float> exact = Run(rows, false);
    const std::vector<float> packed = Run(rows, true);
    double difference = 0, length = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      difference += std::pow(static_cast<double>(packed[i]) - exact[i], 2);
      length += std::pow(static_cast<double>(exact[i]), 2);
    }
    return std::sqrt(difference / length);
  }

  std::vector<uint16_t> gate_, up_, down_;
};

TEST_F(LayerError, IsAFewPerCentAlsoWithOutlierChannels) {
  const double plain = Error(1.0f);
  const double outliers = Error(100.0f);
  std::cout << "error of a layer in fp8, relative: " << plain << ", with outlier channels "
            << outliers << '\n';
  RecordProperty("plain", std::to_string(plain));
  RecordProperty("outliers", std::to_string(outliers));
  EXPECT_GT(plain, 0.005) << "nothing was packed";
  EXPECT_LT(plain, 0.06);
  EXPECT_LT(outliers, 0.06);
}

}  // namespace
}  // namespace janus::dataplane
