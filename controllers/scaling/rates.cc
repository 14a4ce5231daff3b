#include "controllers/scaling/rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace janus::controllers {
namespace {

// How many pods one direction may change from the current count.
int AllowedPods(const Behavior& behavior, int pods, int instances_per_pod, int sign,
                const std::vector<CountChange>& changes, double now) {
  if (behavior.select == SelectRule::kDisabled) return 0;
  if (behavior.rules.empty()) return std::numeric_limits<int>::max() / 2;
  int allowed = behavior.select == SelectRule::kMax ? 0 : std::numeric_limits<int>::max();
  for (const RateRule& rule : behavior.rules) {
    int changed = 0;  // since the period began, in pods
    for (const CountChange& change : changes) {
      if (change.time_seconds > now - rule.period_seconds) {
        changed +=
            static_cast<int>(std::lround(static_cast<double>(change.added) / instances_per_pod));
      }
    }
    const int start = pods - changed;
    const int step = rule.unit == RateRule::Unit::kPods
                         ? rule.value
                         : static_cast<int>(std::ceil(start * rule.value / 100.0));
    const int left = std::max(step - sign * changed, 0);
    allowed =
        behavior.select == SelectRule::kMax ? std::max(allowed, left) : std::min(allowed, left);
  }
  return allowed;
}

}  // namespace

CountRange AllowedNow(const RolePolicy& role, int current, const std::vector<CountChange>& changes,
                      double now_seconds) {
  const int per_pod = role.instances_per_pod;
  const int pods = (current + per_pod - 1) / per_pod;
  const auto instances = [&](int64_t p) {
    return static_cast<int>(std::clamp<int64_t>(p * per_pod, 0, std::numeric_limits<int>::max()));
  };
  const int up = AllowedPods(role.up, pods, per_pod, 1, changes, now_seconds);
  const int down = AllowedPods(role.down, pods, per_pod, -1, changes, now_seconds);
  return {std::min(current, instances(int64_t{pods} - down)),
          std::max(current, instances(int64_t{pods} + up))};
}

}  // namespace janus::controllers
