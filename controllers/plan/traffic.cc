#include "controllers/plan/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace janus::controllers {
namespace {

constexpr size_t kCells = 256;

// The exponential distribution in equal shares, each at its mean; the mean of all is 1.
std::vector<double> ExponentialLaw() {
  // The integral of -ln(1 - u) from u to 1.
  const auto beyond = [](double u) { return u < 1 ? (1 - u) * (1 - std::log1p(-u)) : 0; };
  std::vector<double> law;
  for (size_t i = 0; i < kCells; ++i) {
    const double from = static_cast<double>(i) / kCells;
    const double to = static_cast<double>(i + 1) / kCells;
    law.push_back((beyond(from) - beyond(to)) * kCells);
  }
  return law;
}

}  // namespace

std::span<const double> PromptLawOf(const Traffic& traffic) {
  static const std::vector<double> exponential = ExponentialLaw();
  return traffic.prompt_law.empty() ? exponential : traffic.prompt_law;
}

std::vector<double> LawOfLengths(std::vector<double> lengths) {
  std::ranges::sort(lengths);
  const size_t count = lengths.size();
  const double mean =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(count);
  const size_t cells = std::min(count, kCells);
  std::vector<double> law;
  for (size_t i = 0; i < cells; ++i) {
    const auto from = lengths.begin() + static_cast<std::ptrdiff_t>(i * count / cells);
    const auto to = lengths.begin() + static_cast<std::ptrdiff_t>((i + 1) * count / cells);
    law.push_back(std::accumulate(from, to, 0.0) / static_cast<double>(to - from) / mean);
  }
  return law;
}

double SquaredVariation(std::span<const double> law) {
  double sum = 0, squares = 0;
  for (const double length : law) {
    sum += length;
    squares += length * length;
  }
  return squares * static_cast<double>(law.size()) / (sum * sum) - 1;
}

}  // namespace janus::controllers
