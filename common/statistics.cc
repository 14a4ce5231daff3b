#include "common/statistics.h"

#include <algorithm>

namespace janus {

bool JoinRouting(const RoutingStatistics& more, RoutingStatistics& to) {
  bool fits = true;
  for (const LayerPopularity& one : more.popularity) {
    const auto at = std::ranges::lower_bound(to.popularity, one.layer, {}, &LayerPopularity::layer);
    if (at == to.popularity.end() || at->layer != one.layer) {
      to.popularity.insert(at, one);
    } else if (at->tokens.size() != one.tokens.size()) {
      fits = false;
    } else {
      at->rows += one.rows;
      std::ranges::transform(at->tokens, one.tokens, at->tokens.begin(), std::plus<>());
    }
  }
  to.rounds.insert(to.rounds.end(), more.rounds.begin(), more.rounds.end());
  to.rounds_too_large += more.rounds_too_large;
  return fits;
}

}  // namespace janus
