// Sampling: a row at a time, rows dealt over the team. The exponentials are vectorised. The tokens
// that top-k and top-p keep are searched among the few tokens near the largest logit, and among
// more only if those do not suffice. Memory is the limit: a row is read about four times.

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "common/philox.h"
#include "kernels/backends.h"
#include "kernels/cpu/table.h"

namespace janus::kernels {
namespace {

// Descending keys are descending logits, ties by ascending id; -0 equals +0.
uint64_t KeyOf(float logit, int64_t id) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  const uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{order} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
int32_t IdOf(uint64_t key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

// Eight interleaved sums: one chain of additions would wait for each.
double SumOf(std::span<const float> p) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= p.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += p[i + j];
  }
  for (size_t j = 0; i < p.size(); ++i, ++j) sums[j] += p[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

class RowSampler {
 public:
  RowSampler(const CpuTable& table, std::span<const float> logits, void* workspace)
      : table_(table),
        logits_(logits),
        vocab_(static_cast<int64_t>(logits.size())),
        keys_(static_cast<uint64_t*>(workspace), logits.size()),
        p_(reinterpret_cast<float*>(keys_.data() + logits.size()), logits.size()),
        largest_(table.largest(logits.data(), vocab_)) {}

  // No NaN, no +infinity, something finite.
  bool IsSound() const { return std::isfinite(largest_); }

  int32_t Draw(const SamplingParams& params) {
    if (params.temperature < kMinTemperature) return Greedy();
    const float scale = 1.0f / params.temperature;
    table_.exp(logits_.data(), largest_, scale, p_.data(), vocab_);
    const double u = UniformAt(params.seed, static_cast<uint64_t>(params.position));
    const bool keeps_all = (params.top_k == 0 || params.top_k >= vocab_) && params.top_p >= 1.0f;
    return keeps_all ? DrawFromAll(u) : DrawFromKept(params, u);
  }

  void FillLogprobs(int wanted, SampledToken& out) {
    table_.exp(logits_.data(), largest_, 1.0f, p_.data(), vocab_);
    const double log_total = std::log(SumOf(p_));
    const auto logprob = [&](int32_t id) {
      const double shifted = static_cast<double>(logits_[static_cast<size_t>(id)]) - largest_;
      return static_cast<float>(shifted - log_total);
    };
    out.logprob = logprob(out.token);
    out.num_top = static_cast<int32_t>(std::min<int64_t>(wanted, vocab_));
    uint64_t best[kMaxLogprobs];
    int held = 0;
    for (int64_t id = 0; id < vocab_ && out.num_top > 0; ++id) {
      const uint64_t key = KeyOf(logits_[static_cast<size_t>(id)], id);
      if (held == out.num_top && key < best[held - 1]) continue;
      int at = held < out.num_top ? held++ : held - 1;
      for (; at > 0 && best[at - 1] < key; --at) best[at] = best[at - 1];
      best[at] = key;
    }
    for (int i = 0; i < out.num_top; ++i) {
      out.top_tokens[i] = IdOf(best[i]);
      out.top_logprobs[i] = logprob(out.top_tokens[i]);
    }
  }

 private:
  int32_t Greedy() const {
    return static_cast<int32_t>(std::ranges::find(logits_, largest_) - logits_.begin());
  }

  int32_t DrawFromAll(double u) const {
    constexpr int64_t kBlock = 1024;
    const auto block = [&](int64_t first) {
      return p_.subspan(static_cast<size_t>(first),
                        static_cast<size_t>(std::min(kBlock, vocab_ - first)));
    };
    double total = 0.0;
    for (int64_t first = 0; first < vocab_; first += kBlock) total += SumOf(block(first));
    const double target = u * total;
    double running = 0.0;
    int32_t last = Greedy();
    for (int64_t first = 0; first < vocab_; first += kBlock) {
      const double sum = SumOf(block(first));
      if (running + sum <= target) {
        running += sum;
        continue;
      }
      for (int64_t id = first; id < first + static_cast<int64_t>(block(first).size()); ++id) {
        if (p_[static_cast<size_t>(id)] == 0.0f) continue;
        running += p_[static_cast<size_t>(id)];
        last = static_cast<int32_t>(id);
        if (running > target) return last;
      }
    }
    return last;
  }

  // The tokens with a logit within `reach` temperatures of the largest.
  std::span<uint64_t> Near(float reach, float temperature) {
    const float bound = largest_ - reach * temperature;
    size_t count = 0;
    for (int64_t id = 0; id < vocab_; ++id) {
      keys_[count] = KeyOf(logits_[static_cast<size_t>(id)], id);
      count += logits_[static_cast<size_t>(id)] >= bound ? 1 : 0;
      if (count == keys_.size()) break;
    }
    return keys_.first(count);
  }

  double Weight(uint64_t key) const { return p_[static_cast<size_t>(IdOf(key))]; }

  // What top-k keeps, and of it what top-p keeps, by descending logit.
  std::span<uint64_t> Kept(const SamplingParams& params) {
    const auto top_k = static_cast<size_t>(params.top_k == 0 ? vocab_ : params.top_k);
    const bool by_count = params.top_k != 0 && params.top_k < vocab_;
    const double all = by_count ? 0.0 : SumOf(p_);
    std::span<uint64_t> near;
    for (const float reach : {4.0f, 8.0f, 16.0f, INFINITY}) {
      near = Near(reach, params.temperature);
      double sum = 0.0;
      for (const uint64_t key : near) sum += Weight(key);
      if (by_count ? near.size() >= top_k : sum >= params.top_p * all) break;
    }
    std::ranges::sort(near, std::greater<>());
    if (near.size() > top_k) near = near.first(top_k);
    if (params.top_p >= 1.0f) return near;
    double total = all;
    if (by_count) {
      for (const uint64_t key : near) total += Weight(key);
    }
    double reached = 0.0;
    size_t prefix = 0;
    while (prefix < near.size() && reached < params.top_p * total) {
      reached += Weight(near[prefix++]);
    }
    return near.first(std::max<size_t>(prefix, 1));
  }

  int32_t DrawFromKept(const SamplingParams& params, double u) {
    const std::span<uint64_t> kept = Kept(params);
    std::ranges::sort(kept, {}, IdOf);
    double total = 0.0;
    for (const uint64_t key : kept) total += Weight(key);
    const double target = u * total;
    double running = 0.0;
    int32_t last = Greedy();
    for (const uint64_t key : kept) {
      if (Weight(key) == 0.0) continue;
      running += Weight(key);
      last = IdOf(key);
      if (running > target) break;
    }
    return last;
  }

  const CpuTable& table_;
  std::span<const float> logits_;
  int64_t vocab_;
  std::span<uint64_t> keys_;
  std::span<float> p_;
  float largest_;
};

}  // namespace

int64_t SampleCpu(const Stream& stream, const SampleArgs& args) {
  const CpuTable& table = TableOf(stream.isa);
  const int64_t stride = args.logits_stride != 0 ? args.logits_stride : args.vocab;
  stream.team->Run([&](int part, int parts) {
    void* workspace =
        static_cast<char*>(args.workspace) + part * SampleWorkspaceBytes(args.vocab, 1);
    const Range rows = PartOf(args.rows, part, parts);
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      RowSampler row(table, {args.logits + t * stride, static_cast<size_t>(args.vocab)}, workspace);
      SampledToken& out = args.tokens[t] = SampledToken{};
      if (!row.IsSound()) continue;
      const bool is_given = args.given != nullptr && args.given[t] >= 0;
      out.token = is_given ? args.given[t] : row.Draw(args.params[t]);
      if (args.params[t].logprobs >= 0) row.FillLogprobs(args.params[t].logprobs, out);
    }
  });
  for (int64_t t = 0; t < args.rows; ++t) {
    if (args.tokens[t].token < 0) return t;
  }
  return -1;
}

}  // namespace janus::kernels
