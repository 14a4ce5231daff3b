#include "tests/unit/kernels/row_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/element.h"
#include "tests/support/random.h"

#ifdef JANUS_TEST_ON_CUDA
#include "tests/unit/kernels/cuda_order.h"
#endif

namespace janus::kernels {
namespace {

std::vector<int> AllRows(const RowProblem& problem) {
  std::vector<int> rows(static_cast<size_t>(problem.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

size_t RowBytes(const RowProblem& problem) {
  return static_cast<size_t>(problem.row_elements() * SizeOf(problem.output()));
}

// Runs `selection` and compares each row with that row of `all`.
void ExpectRows(const RowProblem& problem, const Stream& stream, const std::vector<int>& selection,
                const std::vector<uint8_t>& all, const std::string& what) {
  const std::vector<uint8_t> got = problem.Run(stream, selection);
  const size_t bytes = RowBytes(problem);
  ASSERT_EQ(got.size(), selection.size() * bytes);
  for (size_t i = 0; i < selection.size(); ++i) {
    const auto row = static_cast<size_t>(selection[i]);
    ASSERT_EQ(std::memcmp(got.data() + i * bytes, all.data() + row * bytes, bytes), 0)
        << what << ": the bits of row " << row << " changed, " << ToString(stream.isa) << ", "
        << stream.team->size() << " threads";
  }
}

}  // namespace

#ifdef JANUS_TEST_ON_CUDA

constexpr bool kOneTeam = true;

// The same cases on the CUDA kernels: every stream runs threads and blocks in a different order.
// `threads` sizes the workspace.
CpuStream::CpuStream(Isa isa, int threads)
    : team(threads), stream{Device::kCuda, &team, isa, nullptr} {
  NextOrder();
}

std::vector<Isa> PresentIsas() {
  return {Isa::kAvx2};
}

#else

constexpr bool kOneTeam = kSanitized;

CpuStream::CpuStream(Isa isa, int threads)
    : team(threads), stream{Device::kCpu, &team, isa, nullptr} {}

std::vector<Isa> PresentIsas() {
  std::vector<Isa> present;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (SelectIsa(DetectCpu(), isa).ok()) present.push_back(isa);
  }
  return present;
}

#endif

void ExpectParity(const RowProblem& problem) {
  const std::vector<int> rows = AllRows(problem);
  const std::vector<uint8_t> wanted = problem.Run(Stream{}, rows);
  const auto count = static_cast<int64_t>(wanted.size()) / SizeOf(problem.output());
  double range = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = ReadElement(wanted.data(), problem.output(), i);
    ASSERT_TRUE(std::isfinite(value)) << "reference element " << i;
    range = std::max(range, std::abs(static_cast<double>(value)));
  }
  ASSERT_TRUE(count == 0 || range > 0.0) << "the case computes nothing";
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 2);
    const std::vector<uint8_t> got = problem.Run(cpu.stream, rows);
    ASSERT_EQ(got.size(), wanted.size());
    double worst = 0.0;
    int64_t worst_at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float value = ReadElement(got.data(), problem.output(), i);
      ASSERT_TRUE(std::isfinite(value)) << ToString(isa) << " element " << i;
      const double difference =
          std::abs(static_cast<double>(value) - ReadElement(wanted.data(), problem.output(), i));
      if (difference > worst) {
        worst = difference;
        worst_at = i;
      }
    }
    EXPECT_LE(worst, problem.tolerance() * range)
        << ToString(isa) << ": element " << worst_at % problem.row_elements() << " of row "
        << worst_at / problem.row_elements() << " is "
        << ReadElement(got.data(), problem.output(), worst_at) << ", reference "
        << ReadElement(wanted.data(), problem.output(), worst_at);
  }
}

void ExpectBatchInvariance(const RowProblem& problem) {
  std::mt19937_64 random(4711);
  const std::vector<int> rows = AllRows(problem);
  for (const Isa isa : PresentIsas()) {
    CpuStream one(isa, 1);
    const std::vector<uint8_t> all = problem.Run(one.stream, rows);
    for (int threads = kOneTeam ? 3 : 1; threads <= 3; ++threads) {
      CpuStream cpu(isa, threads);
      ExpectRows(problem, cpu.stream, rows, all, "together");
      for (size_t i = 0; i < rows.size(); i += kSanitized ? 11 : 1) {
        ExpectRows(problem, cpu.stream, {rows[i]}, all, "alone");
      }
      for (int i = 0; i < (kSanitized ? 1 : 8); ++i) {
        std::vector<int> some = rows;
        std::ranges::shuffle(some, random);
        some.resize(1 + random() % some.size());
        ExpectRows(problem, cpu.stream, some, all, "shuffled");
      }
      for (size_t chunk = 2; chunk < rows.size(); chunk = chunk * 2 + 1) {
        for (size_t first = 0; first < rows.size(); first += chunk) {
          const size_t end = std::min(rows.size(), first + chunk);
          ExpectRows(problem, cpu.stream,
                     {rows.begin() + static_cast<int64_t>(first),
                      rows.begin() + static_cast<int64_t>(end)},
                     all, "in chunks");
        }
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void ExpectSameBitsOnEveryIsa(const RowProblem& problem) {
  const std::vector<int> rows = AllRows(problem);
  std::vector<uint8_t> first;
  for (const Isa isa : PresentIsas()) {
    CpuStream cpu(isa, 1);
    if (first.empty()) {
      first = problem.Run(cpu.stream, rows);
    } else {
      ExpectRows(problem, cpu.stream, rows, first, "against AVX2");
    }
  }
}

}  // namespace janus::kernels
