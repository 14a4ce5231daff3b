#include "controllers/timed/replica_shares.h"

#include <algorithm>
#include <cstddef>

namespace janus::controllers {

ReplicaShares::ReplicaShares(const LayerPlacement& placement, int instance)
    : placement_(placement),
      instance_(instance),
      load_(static_cast<size_t>(placement.instances)),
      given_(placement.replicas.size()),
      mine_(static_cast<size_t>(placement.experts)) {
  levels_.reserve(load_.size());
  held_ = static_cast<int>(std::ranges::count(placement.replicas, instance, &Replica::instance));
}

std::span<const double> ReplicaShares::Of(std::span<const double> activated) {
  std::ranges::fill(load_, 0);
  std::ranges::fill(given_, 0);
  // The first pass does not know what the experts after each will add; the second does.
  for (int pass = 0; pass < 2; ++pass) {
    for (const uint16_t expert : placement_.by_replicas) Pour(expert, activated[expert]);
  }
  std::ranges::fill(mine_, 0);
  for (size_t expert = 0; expert < mine_.size(); ++expert) {
    for (int32_t at = placement_.first[expert]; at < placement_.first[expert + 1]; ++at) {
      const auto replica = static_cast<size_t>(at);
      if (placement_.replicas[replica].instance == instance_) mine_[expert] += given_[replica];
    }
  }
  return mine_;
}

void ReplicaShares::Pour(int expert, double amount) {
  const auto first = static_cast<size_t>(placement_.first[static_cast<size_t>(expert)]);
  const auto end = static_cast<size_t>(placement_.first[static_cast<size_t>(expert) + 1]);
  levels_.clear();
  for (size_t at = first; at < end; ++at) {
    double& load = load_[placement_.replicas[at].instance];
    load -= given_[at];
    levels_.push_back(load);
  }
  std::ranges::sort(levels_);
  // The level up to which the lowest instances are filled.
  double below = 0;
  double level = 0;
  for (size_t filled = 1; filled <= levels_.size(); ++filled) {
    below += levels_[filled - 1];
    level = (amount + below) / static_cast<double>(filled);
    if (filled == levels_.size() || level <= levels_[filled]) break;
  }
  for (size_t at = first; at < end; ++at) {
    double& load = load_[placement_.replicas[at].instance];
    given_[at] = std::max(level - load, 0.0);
    load += given_[at];
  }
}

}  // namespace janus::controllers
