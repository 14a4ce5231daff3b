#include "controllers/fit/power_law.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace janus::controllers {
namespace {

// One random draw of rows per expert, [experts]. Their sum is tokens * top_k.
std::vector<int> Draw(const PowerLawRouting& routing, std::mt19937_64& random) {
  const auto experts = static_cast<size_t>(routing.experts);
  const int total = routing.tokens * routing.top_k;
  const bool has_many = total > routing.experts;
  const double low = has_many ? 1.0 : 0.01;
  const double high = has_many ? routing.tokens * 0.8 : 2.0;
  const double power = 1 - routing.alpha;
  const double at_low = std::pow(low, power);
  const double at_high = std::pow(high, power);
  std::vector<double> weight(experts);
  for (double& w : weight) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    w = std::pow((at_high - at_low) * uniform + at_low, 1 / power);
  }
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  std::vector<int> rows(experts);
  for (size_t e = 0; e < experts; ++e) {
    rows[e] = static_cast<int>(std::nearbyint(weight[e] / sum * total));
  }
  // Corrects rounding: missing rows go to the largest, extra rows are taken from the smallest.
  std::vector<size_t> order(experts);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return rows[a] > rows[b]; });
  const int missing = total - std::accumulate(rows.begin(), rows.end(), 0);
  for (int i = 0; i < missing; ++i) ++rows[order[static_cast<size_t>(i) % experts]];
  for (int i = 0; i < -missing; ++i) {
    const size_t smallest = order[experts - 1 - static_cast<size_t>(i) % experts];
    if (rows[smallest] > 0) {
      --rows[smallest];
    } else {
      --*std::ranges::max_element(rows);
    }
  }
  return rows;
}

}  // namespace

std::vector<std::pair<double, double>> RowsOfBusiestInstance(const PowerLawRouting& routing,
                                                             int draws, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto local = static_cast<std::ptrdiff_t>(routing.experts / routing.instances);
  struct Bin {
    double rows = 0;
    double count = 0;
  };
  std::map<int, Bin> bins;  // by logarithm of rows; -1: no rows
  for (int draw = 0; draw < draws;) {
    const std::vector<int> rows = Draw(routing, random);
    auto busiest = rows.begin();
    int most = -1;
    for (auto begin = rows.begin(); begin != rows.end(); begin += local) {
      const int sum = std::accumulate(begin, begin + local, 0);
      if (sum > most) {
        most = sum;
        busiest = begin;
      }
    }
    // A token chooses an expert at most once: draws that need more are repeated.
    if (*std::max_element(busiest, busiest + local) > routing.tokens) continue;
    ++draw;
    for (auto r = busiest; r != busiest + local; ++r) {
      Bin& bin = bins[*r > 0 ? static_cast<int>(std::log(*r) / 0.02) : -1];
      bin.rows += *r;
      ++bin.count;
    }
  }
  std::vector<std::pair<double, double>> result;
  for (const auto& [key, bin] : bins) result.emplace_back(bin.rows / bin.count, bin.count / draws);
  return result;
}

std::vector<std::pair<double, double>> BalancedRows(int tokens, int experts, int top_k,
                                                    int instances) {
  const double local = static_cast<double>(experts) / instances;
  const int rows = tokens * top_k / experts;
  if (rows > 0) return {{rows, local}};
  const double activated = static_cast<double>(tokens) * top_k / instances;
  return {{1, activated}, {0, local - activated}};
}

}  // namespace janus::controllers
