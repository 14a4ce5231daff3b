#pragma once

// What tests of the fast forms of attention share: rows of sequences, and the rules of
// attention_fast.h for one row and head as scalar loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <span>
#include <vector>

#include "common/dtype.h"
#include "kernels/kernels.h"
#include "tests/unit/kernels/cuda_tensor_order.h"

namespace janus::kernels::cuda {

struct AttentionRow {
  int sequence;
  int position;
};

// The last `each` positions of sequences of `lengths` keys, sequence after sequence.
inline std::vector<AttentionRow> LastRows(const std::vector<int>& lengths, int each = 1) {
  std::vector<AttentionRow> rows;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int p = std::max(0, lengths[s] - each); p < lengths[s]; ++p) {
      rows.push_back({static_cast<int>(s), p});
    }
  }
  return rows;
}

// How pages, queries and results lie. The first page is so many bytes past a 64-byte boundary, and
// between two pages are 32 bytes and so many more; or there is no room behind pages and rows. Then
// the number of the first page, and the format if no shape gives it.
struct AttentionLayout {
  int misalignment = 0;
  int further = 0;
  bool dense = false;
  int32_t first_page = 0;
  DType cache = DType::kBFloat16;
};

// Contexts at which a page, a block or a split ends.
inline const std::vector<int> kEnds = {1, 15, 16, 17, 63, 64, 65, 127, 129};
inline const std::vector<int> kSplitEnds = {1023, 1024, 1025, 2049, 65};

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The largest difference of two runs, and the largest element of the first run.
struct Difference {
  double worst = 0.0;
  double range = 0.0;
  Difference(std::span<const float> wanted, std::span<const float> got) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      range = std::max(range, std::abs(static_cast<double>(wanted[i])));
      worst = std::max(worst, std::abs(static_cast<double>(wanted[i]) - got[i]));
    }
  }
};

// Which of a page's weights are added first: those of keys that lie 8 apart, or those of neighbours
// if the cache is fp8.
enum class FirstPairs { kEightApart, kNeighbours };

// How a score becomes a weight under the largest score: exp(score - largest) for scaled scores, or
// a power of 2 for unscaled scores (absorbed_wgmma.h).
enum class Exponential { kNatural, kOf2 };

// score(key) and value(key, d), both of keys first..last alone; to out[width]. States are merged
// every `split` keys. `scale`: what scores are yet to be multiplied by.
template <class Score, class Value>
class AttentionRules {
 public:
  AttentionRules(int first, int last, int width, Score score, Value value, int split = kKeySplit,
                 FirstPairs pairs = FirstPairs::kEightApart,
                 Exponential exponential = Exponential::kNatural, float scale = 1.0f)
      : first_(first),
        last_(last),
        width_(static_cast<size_t>(width)),
        score_(score),
        value_(value),
        split_(split),
        pairs_(pairs),
        exponential_(exponential),
        scale_(scale) {}

  void Run(float* out) const {
    State merged{.y = std::vector<float>(width_)};
    State split = merged;
    for (int j0 = first_ / kKeyBlock * kKeyBlock; j0 <= last_; j0 += kKeyBlock) {
      AddBlock(j0, split);
      if ((j0 + kKeyBlock) % split_ != 0 && j0 + kKeyBlock <= last_) continue;
      const float of_split = split.largest * scale_;
      const float largest = std::max(merged.largest, of_split);
      const float ours = std::exp(merged.largest - largest);
      const float theirs = std::exp(of_split - largest);
      merged.largest = largest;
      merged.total = merged.total * ours + split.total * theirs;
      for (size_t d = 0; d < width_; ++d) merged.y[d] = merged.y[d] * ours + split.y[d] * theirs;
      split = State{.y = std::vector<float>(width_)};
    }
    for (size_t d = 0; d < width_; ++d) out[d] = merged.y[d] / merged.total;
  }

 private:
  struct State {
    float largest = -INFINITY;
    float total = 0.0f;
    std::vector<float> y;
  };

  float Weight(float score, float largest) const {
    if (exponential_ == Exponential::kNatural) return std::exp(score - largest);
    constexpr float kLog2E = 1.44269504f;
    return std::exp2((score - largest) * (scale_ * kLog2E));
  }

  void AddBlock(int j0, State& state) const {
    const auto sees = [&](int key) { return j0 + key >= first_ && j0 + key <= last_; };
    float weight[kKeyBlock] = {};
    float largest = state.largest;
    for (int key = 0; key < kKeyBlock; ++key) {
      if (!sees(key)) continue;
      weight[key] = score_(j0 + key);
      largest = std::max(largest, weight[key]);
    }
    const float fade = Weight(state.largest, largest);
    state.largest = largest;
    for (int key = 0; key < kKeyBlock; ++key) {
      weight[key] = sees(key) ? FromBFloat16(ToBFloat16(Weight(weight[key], largest))) : 0.0f;
    }
    float sum = 0.0f;
    for (int page = 0; page < kKeyBlock; page += kPageTokens) {
      float pairs[8];
      for (int i = 0; i < 8; ++i) {
        pairs[i] = pairs_ == FirstPairs::kNeighbours
                       ? weight[page + 2 * i] + weight[page + 2 * i + 1]
                       : weight[page + i] + weight[page + i + 8];
      }
      const float of_page = ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3])) +
                            ((pairs[4] + pairs[5]) + (pairs[6] + pairs[7]));
      sum = page == 0 ? of_page : sum + of_page;
    }
    state.total = state.total * fade + sum;
    for (size_t d = 0; d < width_; ++d) {
      float& y = state.y[d];
      y *= fade;
      for (int key = 0; key < kKeyBlock; ++key) {
        y = std::fma(weight[key], sees(key) ? value_(j0 + key, static_cast<int>(d)) : 0.0f, y);
      }
    }
  }

  int first_;
  int last_;
  size_t width_;
  Score score_;
  Value value_;
  int split_;
  FirstPairs pairs_;
  Exponential exponential_;
  float scale_;
};

// Checks that all forms share. `sequences` has rows(), Width(), Rules(row), Alone(row),
// All(workspace) and Run(selection, workspace); each form has its own unit of workspace.

template <class Sequences>
void ExpectWhatRulesSay(const Sequences& sequences) {
  const int64_t conflicts = BankConflicts();
  const std::vector<float> got = sequences.All(0);
  EXPECT_EQ(BankConflicts(), conflicts);
  const auto width = static_cast<size_t>(sequences.Width());
  for (size_t row = 0; row < sequences.rows().size(); ++row) {
    const std::vector<float> wanted = sequences.Rules(row);
    const std::span<const float> is(&got[row * width], width);
    for (const float value : is) ASSERT_TRUE(std::isfinite(value)) << "row " << row;
    const Difference difference(wanted, is);
    ASSERT_GT(difference.range, 0.0);
    // On a GPU a weight near the middle between two numbers may be rounded to the other.
    EXPECT_LE(difference.worst, kSameOrder ? 0.0 : difference.range / 256)
        << "row " << row << ", position " << sequences.rows()[row].position;
  }
}

// Neither the tasks nor the size of the workspace changes bits. Every `each`-th row is computed
// alone.
template <class Sequences>
void ExpectSameBitsAloneAndFor(const Sequences& sequences,
                               std::initializer_list<int64_t> workspaces, size_t each = 1) {
  const std::vector<float> wanted = sequences.All(0);
  for (const int64_t workspace : workspaces) {
    EXPECT_TRUE(SameBits(sequences.All(workspace), wanted)) << "workspace " << workspace;
  }
  const auto width = static_cast<size_t>(sequences.Width());
  for (size_t row = 0; row < sequences.rows().size(); row += each) {
    EXPECT_TRUE(SameBits(sequences.Alone(row), {&wanted[row * width], width})) << "row " << row;
  }
  std::vector<size_t> backwards(sequences.rows().size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  const std::vector<float> turned = sequences.Run(backwards, 7);
  for (size_t i = 0; i < backwards.size(); ++i) {
    EXPECT_TRUE(SameBits({&turned[i * width], width}, {&wanted[backwards[i] * width], width}))
        << "row " << backwards[i] << ", backwards";
  }
}

}  // namespace janus::kernels::cuda
