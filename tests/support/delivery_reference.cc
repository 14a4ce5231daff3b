#include "tests/support/delivery_reference.h"

namespace janus::dataplane {
namespace {

std::vector<std::byte> Pattern(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> pattern(bytes);
  for (std::byte& b : pattern) b = static_cast<std::byte>(random.Next());
  return pattern;
}

uint64_t SeedOf(const RoundKey& key) {
  return MixSeed(key.epoch * 1000 + key.view, key.step, key.layer * 256u + key.micro_batch);
}

}  // namespace

std::vector<std::byte> BytesOfRow(const RoundPlan& plan, int attention, int row) {
  return Pattern(plan.shape.row_bytes(), MixSeed(SeedOf(plan.key), static_cast<uint64_t>(attention),
                                                 static_cast<uint64_t>(row)));
}

std::vector<std::byte> BytesOfContribution(const RoundPlan& plan, int attention, int row,
                                           int slot) {
  const auto cell = static_cast<uint64_t>(row * plan.shape.top_k + slot);
  return Pattern(plan.shape.row_bytes(),
                 MixSeed(~SeedOf(plan.key), static_cast<uint64_t>(attention), cell));
}

std::vector<int32_t> TermsOf(const RoundPlan& plan, int attention, int row, int slot) {
  const auto cell = static_cast<uint64_t>(row * plan.shape.top_k + slot);
  Random random(MixSeed(~SeedOf(plan.key), static_cast<uint64_t>(attention), cell));
  const int32_t limit = FixedLimit(plan.shape.sums.bits, plan.shape.top_k);
  std::vector<int32_t> terms;
  for (int h = 0; h < plan.shape.hidden; ++h) {
    const int32_t term = random.Between(-limit, limit);
    terms.push_back(random.Chance(0.02) ? NotFinite(plan.shape.sums.bits) : term);
  }
  return terms;
}

std::vector<int32_t> SumOfRow(const RoundPlan& plan, int attention, int row) {
  std::vector<int32_t> sum(static_cast<size_t>(plan.shape.hidden));
  for (int slot = 0; slot < plan.shape.top_k; ++slot) {
    const std::vector<int32_t> terms = TermsOf(plan, attention, row, slot);
    for (size_t h = 0; h < sum.size(); ++h) {
      sum[h] = AddFixed(sum[h], terms[h], plan.shape.sums.bits);
    }
  }
  return sum;
}

Delivery Deliver(const RoundPlan& plan) {
  Delivery delivery;
  for (int a = 0; a < plan.shape.m; ++a) {
    std::vector<std::byte>& rows = delivery.rows.emplace_back();
    std::vector<std::vector<std::byte>>& cells = delivery.contributions.emplace_back();
    for (int row = 0; row < plan.rows[static_cast<size_t>(a)]; ++row) {
      const std::vector<std::byte> bytes = BytesOfRow(plan, a, row);
      rows.insert(rows.end(), bytes.begin(), bytes.end());
      for (int slot = 0; slot < plan.shape.top_k; ++slot) {
        cells.push_back(BytesOfContribution(plan, a, row, slot));
      }
    }
  }
  return delivery;
}

RoundPlan RandomRound(Random& random, const ExchangeShape& shape, const RoundKey& key,
                      int most_rows) {
  RoundPlan plan;
  plan.shape = shape;
  plan.key = key;
  for (int a = 0; a < shape.m; ++a) {
    plan.rows.push_back(random.Chance(0.25) ? 0 : random.Between(0, most_rows));
    std::vector<int>& owners = plan.owner_of.emplace_back();
    // Sometimes one instance computes nearly everything.
    const int busiest = random.Between(0, shape.n - 1);
    for (int cell = 0; cell < plan.rows.back() * shape.top_k; ++cell) {
      owners.push_back(random.Chance(0.5) ? busiest : random.Between(0, shape.n - 1));
    }
  }
  return plan;
}

}  // namespace janus::dataplane
