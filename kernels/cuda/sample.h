#pragma once

// Sampling, plain: block per row. Probabilities are whole multiples of 2^-shift, so their sums do
// not depend on the order of the atomics that add them. The kept tokens are found without sorting:
// radix selection narrows the logits, as integers of the same order, byte by byte, by count for
// top-k and by weight for top-p. Specification: ../reference/sample.cc

#include <cmath>

#include "common/philox.h"
#include "kernels/cuda/block.h"
#include "kernels/cuda/plan.h"
#include "kernels/kernels.h"

namespace janus::kernels::cuda {

// The token is -1 if the row cannot be drawn or its parameters are absurd. Only the device can see
// either.
struct SampleKernel {
  static constexpr int kThreads = 256;
  static constexpr int kBytes = 256;  // values of a byte
  using Weight = unsigned long long;
  SampleArgs a;

  struct Best {
    float logit;
    int32_t id;  // -1: none
  };
  struct Shared {
    Weight bin[kBytes];       // of a byte's values: weight
    uint32_t count[kBytes];   // and number of tokens
    Weight weight[kThreads];  // of a thread's tokens
    double partial[kThreads];
    Best best[kThreads];
    uint8_t bad[kThreads];
    // The choice so far: tokens with a key above `key`, and of those with an equal key the first
    // `ties` by id.
    uint32_t key;
    uint32_t ties;
    Weight reached;  // weight above the values that are still open
    Weight wanted;
    uint32_t passed;  // tokens above the values that are still open
    Weight total;
    uint32_t drawable;
    int32_t drawn;
  };

  // Ascending as the numbers are; -0 and +0 are equal.
  JANUS_DEVICE static uint32_t KeyOf(float logit) {
    const uint32_t bits = std::bit_cast<uint32_t>(logit == 0.0f ? 0.0f : logit);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  }
  JANUS_DEVICE static bool Beats(const Best& x, const Best& y) {
    if (x.id < 0 || y.id < 0) return x.id >= 0;
    return x.logit != y.logit ? x.logit > y.logit : x.id < y.id;
  }
  // So many bits behind the point that the sum over a vocabulary stays below 2^63.
  JANUS_DEVICE static int Shift(int64_t vocab) {
    int bits = 0;
    while ((int64_t{1} << bits) < vocab) ++bits;
    return 62 - bits;
  }
  JANUS_DEVICE static Weight WeightOf(float logit, float largest, float temperature, int shift) {
    const double p = exp((static_cast<double>(logit) - largest) / temperature);
    return static_cast<Weight>(ldexp(p, shift));
  }

  // The best token below `limit` in the order of Beats, to best[0].
  template <class Block>
  JANUS_DEVICE void FindBest(Block& block, Shared& s, const float* logits,
                             const Best& limit) const {
    block.Phase([&](int thread) {
      Best best{0.0f, -1};
      for (int64_t id = thread; id < a.vocab; id += kThreads) {
        const Best next{logits[id], static_cast<int32_t>(id)};
        if ((limit.id < 0 || Beats(limit, next)) && Beats(next, best)) best = next;
      }
      s.best[thread] = best;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Phase([&](int thread) {
        if (thread < half && Beats(s.best[thread + half], s.best[thread])) {
          s.best[thread] = s.best[thread + half];
        }
      });
    }
  }

  template <class Block>
  JANUS_DEVICE void operator()(Block& block) const {
    auto& s = *reinterpret_cast<Shared*>(block.shared());
    const int64_t t = block.index();
    const float* const logits = a.logits + t * (a.logits_stride != 0 ? a.logits_stride : a.vocab);
    const SamplingParams params = a.params[t];
    SampledToken& out = a.tokens[t];
    const bool sound_params = params.temperature >= 0.0f && params.temperature < INFINITY &&
                              params.top_k >= 0 && params.top_p > 0.0f && params.top_p <= 1.0f &&
                              params.position >= 0 && params.logprobs >= -1 &&
                              params.logprobs <= kMaxLogprobs;
    block.Phase([&](int thread) {
      if (thread == 0) out = SampledToken{};
      uint8_t bad = 0;
      for (int64_t id = thread; id < a.vocab; id += kThreads) {
        bad |= logits[id] != logits[id] || logits[id] == INFINITY ? 1 : 0;
      }
      s.bad[thread] = bad;
    });
    FindBest(block, s, logits, Best{0.0f, -1});
    block.Phase([&](int thread) {
      if (thread != 0) return;
      uint8_t bad = 0;
      for (int i = 0; i < kThreads; ++i) bad |= s.bad[i];
      s.drawable = sound_params && bad == 0 && s.best[0].logit > -INFINITY ? 1 : 0;
    });
    if (block.Uniform(s.drawable) == 0) return;
    const Best first = block.Uniform(s.best[0]);
    if (params.temperature < kMinTemperature) {
      block.Phase([&](int thread) {
        if (thread == 0) out.token = first.id;
      });
    } else {
      Draw(block, s, logits, params, first.logit, out);
    }
    if (params.logprobs >= 0) Logprobs(block, s, logits, params, first, out);
  }

  template <class Block>
  JANUS_DEVICE void Draw(Block& block, Shared& s, const float* logits, const SamplingParams& params,
                         float largest, SampledToken& out) const {
    const int shift = Shift(a.vocab);
    block.Phase([&](int thread) {
      if (thread != 0) return;
      s.key = 0;
      s.ties = UINT32_MAX;  // every token
    });
    if (params.top_k != 0 && params.top_k < a.vocab) {
      Narrow(block, s, logits, params, largest, shift, false);
    }
    SumKept(block, s, logits, params, largest, shift);
    if (params.top_p < 1.0f) {
      Narrow(block, s, logits, params, largest, shift, true);
      SumKept(block, s, logits, params, largest, shift);
    }
    // Thread i's tokens are one stretch of ids. The running sum first exceeds the target within the
    // stretch of one thread, which then searches that stretch.
    block.Phase([&](int thread) {
      if (thread != 0) return;
      const double u = UniformAt(params.seed, static_cast<uint64_t>(params.position));
      s.wanted = static_cast<Weight>(u * static_cast<double>(s.total));
      if (s.wanted >= s.total) s.wanted = s.total - 1;  // the product may have been rounded up
      Weight running = 0;
      int i = 0;
      while (running + s.weight[i] <= s.wanted) running += s.weight[i++];
      s.reached = running;
      s.drawn = i;
    });
    block.Phase([&](int thread) {
      if (thread != s.drawn) return;
      Weight running = s.reached;
      uint32_t ties = TiesBefore(s, thread);
      for (int64_t id = FirstOf(thread); id < FirstOf(thread + 1); ++id) {
        const uint32_t key = KeyOf(logits[id]);
        if (key < s.key || (key == s.key && ties++ >= s.ties)) continue;
        running += WeightOf(logits[id], largest, params.temperature, shift);
        if (running > s.wanted) {
          out.token = static_cast<int32_t>(id);
          return;
        }
      }
    });
  }

  JANUS_DEVICE int64_t FirstOf(int thread) const { return a.vocab * thread / kThreads; }

  // Tokens before a thread's stretch with the choice's key.
  JANUS_DEVICE static uint32_t TiesBefore(const Shared& s, int thread) {
    uint32_t ties = 0;
    for (int i = 0; i < thread; ++i) ties += s.count[i];
    return ties;
  }

  // weight[thread]: of the kept tokens of its stretch; total: of all. count[thread]: tokens of the
  // stretch with the choice's key.
  template <class Block>
  JANUS_DEVICE void SumKept(Block& block, Shared& s, const float* logits,
                            const SamplingParams& params, float largest, int shift) const {
    block.Phase([&](int thread) {
      uint32_t equal = 0;
      for (int64_t id = FirstOf(thread); id < FirstOf(thread + 1); ++id) {
        equal += KeyOf(logits[id]) == s.key ? 1 : 0;
      }
      s.count[thread] = equal;
    });
    block.Phase([&](int thread) {
      uint32_t ties = TiesBefore(s, thread);
      Weight sum = 0;
      for (int64_t id = FirstOf(thread); id < FirstOf(thread + 1); ++id) {
        const uint32_t key = KeyOf(logits[id]);
        if (key < s.key || (key == s.key && ties++ >= s.ties)) continue;
        sum += WeightOf(logits[id], largest, params.temperature, shift);
      }
      s.weight[thread] = sum;
    });
    block.Phase([&](int thread) {
      if (thread != 0) return;
      Weight total = 0;
      for (int i = 0; i < kThreads; ++i) total += s.weight[i];
      s.total = total;
    });
  }

  // The shortest prefix of the kept tokens, by descending logit, then id, that holds top_k tokens,
  // or the share top_p of their weight. Four passes, a byte of the key each: what lies above the
  // byte where the prefix ends is in it, what lies below is not.
  template <class Block>
  JANUS_DEVICE void Narrow(Block& block, Shared& s, const float* logits,
                           const SamplingParams& params, float largest, int shift,
                           bool by_weight) const {
    // Of those equal to the choice's key the first are kept; that is its last value, so for the
    // passes they count as all or, in the end, as the smaller of both numbers.
    const uint32_t old_key = block.Uniform(s.key);
    const uint32_t old_ties = block.Uniform(s.ties);
    block.Phase([&](int thread) {
      if (thread != 0) return;
      s.reached = 0;
      s.passed = 0;
      const double wanted = static_cast<double>(params.top_p) * static_cast<double>(s.total);
      s.wanted = by_weight ? static_cast<Weight>(ceil(wanted)) : 0;
      s.key = 0;
    });
    for (int byte = 3; byte >= 0; --byte) {
      const int low = 8 * byte;
      block.Phase([&](int thread) {
        s.bin[thread] = 0;
        s.count[thread] = 0;
      });
      block.Phase([&](int thread) {
        for (int64_t id = thread; id < a.vocab; id += kThreads) {
          const uint32_t key = KeyOf(logits[id]);
          if (key < old_key || !SamePrefix(key, s.key, low + 8)) continue;
          const uint32_t value = key >> low & 0xFFu;
          Block::Add(s.count[value], 1u);
          if (!by_weight) continue;
          Block::Add(s.bin[value], WeightOf(logits[id], largest, params.temperature, shift));
        }
      });
      block.Phase([&](int thread) {
        if (thread != 0) return;
        // The lowest value that holds a token ends the search at the latest.
        int lowest = 0;
        while (lowest < kBytes - 1 && s.count[lowest] == 0) ++lowest;
        int value = kBytes - 1;
        for (; value > lowest; --value) {
          const bool enough =
              by_weight ? s.reached + s.bin[value] >= s.wanted && s.count[value] != 0
                        : s.passed + s.count[value] >= static_cast<uint32_t>(params.top_k);
          if (enough) break;
          s.reached += s.bin[value];
          s.passed += s.count[value];
        }
        s.key |= static_cast<uint32_t>(value) << low;
      });
    }
    // All tokens of the last value weigh the same.
    block.Phase([&](int thread) {
      if (thread != 0) return;
      const uint32_t equal = s.count[s.key & 0xFFu];
      uint32_t ties = 0;
      if (by_weight) {
        const Weight each = s.bin[s.key & 0xFFu] / equal;
        const Weight missing = s.wanted > s.reached ? s.wanted - s.reached : 0;
        const Weight needed = each == 0 ? equal : (missing + each - 1) / each;
        ties = needed < equal ? static_cast<uint32_t>(needed) : equal;
        if (ties == 0) ties = 1;
      } else {
        ties = static_cast<uint32_t>(params.top_k) - s.passed;
      }
      s.ties = s.key == old_key && old_ties < ties ? old_ties : ties;
    });
  }
  // Whether two keys agree from bit `from` on.
  JANUS_DEVICE static bool SamePrefix(uint32_t x, uint32_t y, int from) {
    return from >= 32 || x >> from == y >> from;
  }

  // Log softmax of the logits as they are, of the drawn token and of the best.
  template <class Block>
  JANUS_DEVICE void Logprobs(Block& block, Shared& s, const float* logits,
                             const SamplingParams& params, const Best& first,
                             SampledToken& out) const {
    block.Phase([&](int thread) {
      double sum = 0.0;
      for (int64_t id = thread; id < a.vocab; id += kThreads) {
        sum += exp(static_cast<double>(logits[id]) - first.logit);
      }
      s.partial[thread] = sum;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Phase([&](int thread) {
        if (thread < half) s.partial[thread] += s.partial[thread + half];
      });
    }
    const double log_total = log(block.Uniform(s.partial[0]));
    const auto logprob = [&](float logit) {
      return static_cast<float>(static_cast<double>(logit) - first.logit - log_total);
    };
    const int top = params.logprobs < a.vocab ? params.logprobs : static_cast<int>(a.vocab);
    block.Phase([&](int thread) {
      if (thread != 0) return;
      out.logprob = logprob(logits[out.token]);
      out.num_top = top;
    });
    Best limit{0.0f, -1};
    for (int i = 0; i < top; ++i) {
      FindBest(block, s, logits, limit);
      limit = block.Uniform(s.best[0]);
      block.Phase([&](int thread) {
        if (thread != 0) return;
        out.top_tokens[i] = limit.id;
        out.top_logprobs[i] = logprob(limit.logit);
      });
    }
  }
};
inline Plan PlanSample(const SampleArgs& a) {
  constexpr int64_t kBeside = sizeof(SamplingParams) + sizeof(SampledToken);
  return {a.rows, SampleKernel::kThreads, sizeof(SampleKernel::Shared),
          a.rows * (a.vocab * 4 + kBeside), 0};
}

}  // namespace janus::kernels::cuda
