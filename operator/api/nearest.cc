#include "operator/api/nearest.h"

#include <algorithm>
#include <vector>

namespace janus::control {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

// Optimal string alignment: Levenshtein's table with one more case, for two swapped neighbors.
int EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replace = cost[i - 1][j - 1] + (Lower(a[i - 1]) == Lower(b[j - 1]) ? 0 : 1);
      cost[i][j] = std::min({replace, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > 64) return {};
  const int limit = std::max<int>(1, static_cast<int>(word.size()) / 3);
  std::string_view best;
  int best_distance = limit + 1;
  for (const std::string_view candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string JoinOr(std::span<const std::string_view> words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace janus::control
