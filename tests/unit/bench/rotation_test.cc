#include "bench/gpu/rotation.h"

#include <gtest/gtest.h>

#include <vector>

namespace janus::bench {
namespace {

constexpr int64_t kArena = int64_t{4} << 30;

// When each part of the arena was read, counted in bytes read.
class Reads {
 public:
  void Read(int64_t at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += kPart) {
      int64_t& last = last_[static_cast<size_t>((at + i) % kArena / kPart)];
      if (last >= 0) shortest_ = std::min(shortest_, total_ + i - last);
      last = total_ + i;
    }
    total_ += bytes;
  }
  int64_t shortest() const { return shortest_; }

 private:
  static constexpr int64_t kPart = int64_t{1} << 18;
  std::vector<int64_t> last_ = std::vector<int64_t>(kArena / kPart, -1);
  int64_t total_ = 0;
  int64_t shortest_ = INT64_MAX;
};

// Runs a case with `runs` calls from its list.
void RunCase(Rotation& rotation, Reads& reads, int64_t unit, int64_t units_of_call, int64_t runs) {
  const int64_t units = kArena / unit;
  const int64_t calls = CallsOfATurn(unit * units_of_call, 33);
  const int64_t first = rotation.NextUnit(unit, calls * units_of_call);
  for (int64_t i = 0; i < runs; ++i) {
    for (int64_t u = 0; u < units_of_call; ++u) {
      reads.Read((first + i % calls * units_of_call + u) % units * unit, unit);
    }
  }
}

TEST(CallsOfATurn, ComeTo512MiB) {
  EXPECT_EQ(CallsOfATurn(int64_t{1} << 20, 33), 512);
  EXPECT_EQ(CallsOfATurn((int64_t{1} << 20) + 1, 33), 512);
  EXPECT_EQ(CallsOfATurn((int64_t{1} << 20) - 1, 33), 513);
  EXPECT_EQ(CallsOfATurn(int64_t{1} << 30, 33), 33);
}

TEST(Rotation, ReadsMuchBetweenTwoReadsOfTheSameBytes) {
  Rotation rotation(kArena);
  Reads reads;
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (int turn = 0; turn < 4; ++turn) {
    RunCase(rotation, reads, 12 * kMiB, 1, 33);   // an expert in mxfp4
    RunCase(rotation, reads, 12 * kMiB, 1, 153);  // all samples repeated four times
    RunCase(rotation, reads, 12 * kMiB, 4, 33);
    for (int i = 0; i < 33; ++i) reads.Read(rotation.Next(4 * kMiB), 4 * kMiB);  // a matrix
    RunCase(rotation, reads, 42 * kMiB, 1, 33);
    for (int i = 0; i < 33; ++i) reads.Read(rotation.Next(168 * kMiB), 168 * kMiB);
  }
  EXPECT_GE(reads.shortest(), kRotatedBytes - 8 * kMiB) << "of parts that two calls may share";
}

TEST(Rotation, StaysWithinItsBytes) {
  Rotation rotation(kArena);
  for (int i = 0; i < 2000; ++i) {
    const int64_t bytes = 1 + i * 104729 % 300'000'000;
    const int64_t at = rotation.Next(bytes);
    ASSERT_GE(at, 0);
    ASSERT_LE(at + bytes, kArena);
    ASSERT_EQ(at % 256, 0);
    const int64_t unit = 1000 * (i % 7 + 1);
    const int64_t units = (kRotatedBytes + unit - 1) / unit;
    const int64_t first = rotation.NextUnit(unit, units);
    ASSERT_GE(first, 0);
    ASSERT_LE((first + 1) * unit, kArena);
  }
}

TEST(Rotation, BeginsACaseBehindTheCallsBefore) {
  Rotation rotation(kArena);
  EXPECT_EQ(rotation.Next(1000), 0);
  EXPECT_EQ(rotation.Next(1000), 1024);
  EXPECT_EQ(rotation.NextUnit(1 << 20, 600), 1);
  EXPECT_EQ(rotation.Next(1000), int64_t{601} << 20);
}

TEST(RotationDeathTest, RefusesCasesThatReadTheSameTooSoon) {
  Rotation rotation(kArena);
  EXPECT_DEATH(rotation.NextUnit(1 << 20, 511), "");
  EXPECT_DEATH(rotation.Next(kArena / 2), "");
}

}  // namespace
}  // namespace janus::bench
