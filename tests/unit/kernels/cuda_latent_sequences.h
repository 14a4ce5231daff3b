#pragma once

// What tests of the forms of attention in the latent space share: sequences in a cache, how rows of
// them attend, and the rules of a row as scalar loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/absorbed_attention.h"
#include "kernels/reference/cached.h"
#include "tests/unit/kernels/cuda_attention_rules.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels::cuda {

inline constexpr int kLatentEntry = kAbsorbedRank + kAbsorbedRope;
inline const float kLatentScale = 1.0f / std::sqrt(static_cast<float>(kLatentEntry));

// Sequences in a cache with pages in random order. What no row may read is NaN: pages that no
// sequence owns, positions behind a sequence's last, what lies between rope queries.
class LatentSequences {
 public:
  LatentSequences(int heads, std::vector<int> lengths, std::vector<AttentionRow> rows,
                  AttentionLayout layout = {}, AbsorbedForm form = AbsorbedForm::kFast)
      : heads_(heads),
        form_(form),
        lengths_(lengths),
        rows_(std::move(rows)),
        dense_(layout.dense),
        first_page_(layout.first_page),
        type_(layout.cache),
        page_bytes_(LatentPageBytes(type_, kAbsorbedRank, kAbsorbedRope) + (dense_ ? 0 : 32) +
                    layout.further),
        pages_(5),
        queries_(DType::kFloat32, static_cast<int64_t>(rows_.size()) * heads * kLatentEntry) {
    for (const int length : lengths) pages_ += (length + kPageTokens - 1) / kPageTokens;
    storage_ = std::make_unique<GuardedArray>(type_, pages_ * page_bytes_ / SizeOf(type_),
                                              layout.misalignment);
    storage_->FillWithNaN();
    std::mt19937_64 random(17);
    std::vector<int32_t> free(static_cast<size_t>(pages_));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, random);
    for (size_t s = 0; s < lengths.size(); ++s) {
      auto& table = tables_.emplace_back();
      for (int p = 0; p < lengths[s]; ++p) {
        if (p % kPageTokens == 0) {
          table.push_back(first_page_ + free.back());
          free.pop_back();
        }
        GuardedArray entry(DType::kFloat32, kLatentEntry);
        Write(static_cast<int>(s), p, entry.FillNormal(random));
      }
    }
    queries_.FillNormal(random, 1.5f);
  }

  const std::vector<AttentionRow>& rows() const { return rows_; }
  // Of a row's results.
  int64_t Width() const { return int64_t{heads_} * kAbsorbedRank; }

  std::vector<float> Alone(size_t row) const { return Run({row}, 0); }
  std::vector<float> All(int64_t states) const { return Run(Every(), states); }
  std::vector<size_t> Every() const {
    std::vector<size_t> all(rows_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // The rows of `selection` in one call, with a workspace for `states` rows and splits and a little
  // more.
  std::vector<float> Run(const std::vector<size_t>& selection, int64_t states) const {
    return RunAs(form_, selection, states);
  }
  std::vector<float> RunAs(AbsorbedForm form, const std::vector<size_t>& selection,
                           int64_t states) const {
    return RunBy(selection, states, [&](const AbsorbedAttentionArgs& args) {
      return RunAbsorbedAttention(Stream{.device = Device::kCuda}, args, form);
    });
  }
  // By attend(args).
  template <class Attend>
  std::vector<float> RunBy(const std::vector<size_t>& selection, int64_t states,
                           Attend attend) const {
    NextOrder();
    const auto count = static_cast<int64_t>(selection.size());
    const int64_t head_stride = dense_ ? kAbsorbedRope : kAbsorbedRope + 3;
    const int64_t row_stride = heads_ * head_stride + (dense_ ? 0 : 5);
    GuardedArray latent(DType::kFloat32, count * Width());
    GuardedArray rope(DType::kFloat32, count * row_stride);
    GuardedArray y(DType::kFloat32, count * Width());
    rope.Fill(NAN);
    y.Fill(NAN);
    std::vector<KvRow> rows;
    for (int64_t i = 0; i < count; ++i) {
      const size_t row = selection[static_cast<size_t>(i)];
      rows.push_back(
          {tables_[static_cast<size_t>(rows_[row].sequence)].data(), rows_[row].position});
      for (int h = 0; h < heads_; ++h) {
        for (int d = 0; d < kAbsorbedRank; ++d) {
          latent.set((i * heads_ + h) * kAbsorbedRank + d, Query(row, h, d));
        }
        for (int d = 0; d < kAbsorbedRope; ++d) {
          rope.set(i * row_stride + h * head_stride + d, Query(row, h, kAbsorbedRank + d));
        }
      }
    }
    const int64_t floats = states * heads_ * (kAbsorbedRank + 2);
    GuardedArray workspace(DType::kFloat32, floats > 0 ? floats + 5 : 0);
    workspace.Fill(NAN);
    const Status status = attend(
        AbsorbedAttentionArgs{.cache = Cache(),
                              .rows = rows.data(),
                              .latent_queries = latent.floats(),
                              .rope_queries = rope.floats(),
                              .rope_query_row_stride = dense_ ? 0 : row_stride,
                              .rope_query_head_stride = dense_ ? 0 : head_stride,
                              .y = y.floats(),
                              .num_rows = count,
                              .heads = heads_,
                              .scale = scale_,
                              .workspace = workspace.data(),
                              .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(y.GuardsAreIntact());
    EXPECT_TRUE(workspace.GuardsAreIntact());
    EXPECT_TRUE(storage_->GuardsAreIntact());
    std::vector<float> out;
    for (int64_t i = 0; i < y.count(); ++i) out.push_back(y.at(i));
    return out;
  }

  // The rules of absorbed_fast.h for one row, as loops; or those of absorbed_wgmma.h, where scores
  // begin with the rope part.
  std::vector<float> Rules(size_t row) const {
    const auto [sequence, last] = rows_[row];
    std::vector<float> keys;
    for (int p = 0; p <= last; ++p) {
      const int32_t page =
          tables_[static_cast<size_t>(sequence)][static_cast<size_t>(p / kPageTokens)];
      for (int d = 0; d < kLatentEntry; ++d) {
        keys.push_back(static_cast<float>(CachedLatent(Cache(), page, p % kPageTokens, d)));
      }
    }
    std::vector<float> out(static_cast<size_t>(Width()));
    for (int h = 0; h < heads_; ++h) {
      std::vector<float> query;
      for (int d = 0; d < kLatentEntry; ++d) {
        query.push_back(FromBFloat16(ToBFloat16(Query(row, h, d))));
      }
      const auto key = [&](int p) { return keys.data() + int64_t{p} * kLatentEntry; };
      const auto score = [&](int p) {
        float dot = 0.0f;
        const int first = form_ == AbsorbedForm::kWgmma ? kAbsorbedRank : 0;
        for (int i = 0; i < kLatentEntry; ++i) {
          const int d = (first + i) % kLatentEntry;
          dot = std::fma(key(p)[d], query[static_cast<size_t>(d)], dot);
        }
        return form_ == AbsorbedForm::kWgmma ? dot : dot * scale_;
      };
      const auto value = [&](int p, int d) { return key(p)[d]; };
      AttentionRules(0, last, kAbsorbedRank, score, value, kKeySplit, FirstPairs::kEightApart,
                     form_ == AbsorbedForm::kWgmma ? Exponential::kOf2 : Exponential::kNatural,
                     form_ == AbsorbedForm::kWgmma ? scale_ : 1.0f)
          .Run(out.data() + int64_t{h} * kAbsorbedRank);
    }
    return out;
  }

  void ScaleQueries(float by) {
    for (int64_t i = 0; i < queries_.count(); ++i) queries_.set(i, queries_.at(i) * by);
  }
  void RoundQueries() {
    for (int64_t i = 0; i < queries_.count(); ++i) {
      queries_.set(i, FromBFloat16(ToBFloat16(queries_.at(i))));
    }
  }

  // The block table has no page of positions from `from` on, a multiple of kPageTokens. A look-up
  // there ends the process.
  void Forget(int sequence, int from) {
    auto& table = tables_[static_cast<size_t>(sequence)];
    std::fill(table.begin() + from / kPageTokens, table.end(), 1 << 30);
  }

  // From here on key p of each sequence scores score(p), or as near as bfloat16 is, whatever the
  // head.
  template <class Score>
  void GiveScores(Score score) {
    scale_ = 1.0f;
    for (int64_t i = 0; i < queries_.count(); ++i) {
      queries_.set(i, i % kLatentEntry == kAbsorbedRank ? kQuery : 0.0f);
    }
    for (size_t s = 0; s < tables_.size(); ++s) {
      for (int p = 0; p < lengths_[s]; ++p) {
        GuardedArray entry(DType::kFloat32, kLatentEntry);
        for (int d = 0; d < kLatentEntry; ++d) entry.set(d, Key(s, p, d));
        entry.set(kAbsorbedRank, score(p) / kQuery);
        Write(static_cast<int>(s), p, entry);
      }
    }
  }
  // What a row's heads have of these, in double.
  std::vector<double> OfGivenScores(size_t row) const {
    const auto [sequence, last] = rows_[row];
    const auto s = static_cast<size_t>(sequence);
    const auto score = [&](int p) { return double{Key(s, p, kAbsorbedRank)} * double{kQuery}; };
    double largest = score(0);
    for (int p = 1; p <= last; ++p) largest = std::max(largest, score(p));
    double total = 0.0;
    std::vector<double> y(kAbsorbedRank);
    for (int p = 0; p <= last; ++p) {
      const double weight = std::exp(score(p) - largest);
      total += weight;
      if (weight == 0.0) continue;
      for (int d = 0; d < kAbsorbedRank; ++d) y[static_cast<size_t>(d)] += weight * Key(s, p, d);
    }
    for (double& of : y) of /= total;
    return y;
  }

  // A latent vector and its rope key become NaN.
  void Poison(int sequence, int position) {
    GuardedArray nothing(DType::kFloat32, kLatentEntry);
    nothing.Fill(NAN);
    Write(sequence, position, nothing);
  }

 private:
  static constexpr float kQuery = 0x1p64f;  // of GiveScores
  float Key(size_t sequence, int p, int d) const {
    const int32_t page = tables_[sequence][static_cast<size_t>(p / kPageTokens)];
    return static_cast<float>(CachedLatent(Cache(), page, p % kPageTokens, d));
  }
  float Query(size_t row, int h, int d) const {
    return queries_.at((static_cast<int64_t>(row) * heads_ + h) * kLatentEntry + d);
  }
  LatentCache Cache() const {
    return {.pages = FirstOfAllPages(),
            .num_pages = first_page_ + pages_,
            .page_stride_bytes = dense_ ? 0 : page_bytes_,
            .dtype = type_,
            .rank = kAbsorbedRank,
            .rope = kAbsorbedRope};
  }
  // With the reference, because all devices write the same bytes.
  void Write(int sequence, int position, GuardedArray& entry) {
    const KvRow row{tables_[static_cast<size_t>(sequence)].data(), position};
    const Status status = LatentWrite(
        Stream{}, {.cache = Cache(), .rows = &row, .entries = entry.floats(), .num_rows = 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // The address of page 0, which has no memory unless it is the first page.
  void* FirstOfAllPages() const {
    return static_cast<char*>(storage_->data()) - first_page_ * page_bytes_;
  }

  int heads_;
  AbsorbedForm form_;
  std::vector<int> lengths_;
  float scale_ = kLatentScale;
  std::vector<AttentionRow> rows_;
  bool dense_;
  int32_t first_page_;
  DType type_;
  int64_t page_bytes_;
  int64_t pages_;
  GuardedArray queries_;
  std::unique_ptr<GuardedArray> storage_;
  std::vector<std::vector<int32_t>> tables_;
};

// A form differs from the plain one only by rounding queries and weights to bfloat16. These move
// results as cuda_paged_attention_test.cc derives, for the same queries and keys of deviation 1.5
// and 1: the 576 products of a score are scaled by 1/sqrt(576), as D products are by 1/sqrt(D). A
// value is a part of its key, so element d moves by another sum_j p_j c_jd^2 times the rounding of
// q_d and the scale. That is a 24th of the rounding of this element of the query, which the factor
// of 2 covers too.
inline void ExpectNearThePlainForm(LatentSequences& sequences) {
  const std::vector<size_t> all = sequences.Every();
  const std::vector<float> plain = sequences.RunAs(AbsorbedForm::kPlain, all, 0);
  const std::vector<float> fast = sequences.Run(all, 100);
  const Difference both(plain, fast);
  ASSERT_GT(both.range, 0.0);
  EXPECT_LE(both.worst, 2 * 0.73 / 256 * both.range);
  sequences.RoundQueries();
  const Difference weights(sequences.RunAs(AbsorbedForm::kPlain, all, 0), fast);
  EXPECT_LE(weights.worst, 2 * 0.43 / 256 * weights.range);
}

}  // namespace janus::kernels::cuda
