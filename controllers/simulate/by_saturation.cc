// Policies that measure how full instances are.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "controllers/simulate/copies.h"
#include "controllers/simulate/stabilizer.h"

namespace janus::controllers {
namespace {

class Hpa final : public Copies {
 public:
  explicit Hpa(const WholeInputs& inputs) : Copies(inputs, "hpa", 15), down_(300) {}

  Answer Decide(const Observation& seen) override {
    const double kv_target = 0.8 * inputs_.strictness;
    const double queue_target = 5 * inputs_.strictness;  // requests per instance
    constexpr double kTolerance = 0.1;
    if (seen.instances.empty()) return {};
    double kv = 0, queue = 0;
    for (const Observation::Instance& instance : seen.instances) {
      kv += instance.kv_share;
      queue += instance.queued;
    }
    const auto count = static_cast<double>(seen.instances.size());
    const double ratio = std::max(kv / count / kv_target, queue / count / queue_target);
    double wanted = seen.wished.units;
    if (std::abs(ratio - 1) > kTolerance) wanted = std::ceil(count * ratio);
    // The default scale-up rule: double, or four more, within 15 s.
    wanted = std::min(wanted, std::max(2.0 * seen.wished.units, seen.wished.units + 4.0));
    wanted = std::max(wanted, 1.0);
    const auto copies = static_cast<int>(down_.Largest(seen.world.time_seconds, wanted));
    return {Of(copies), Say("mean KV use %.2f, %.1f waiting", kv / count, queue / count)};
  }

 private:
  Stabilizer down_;
};

class Saturation final : public Copies {
 public:
  explicit Saturation(const WholeInputs& inputs)
      : Copies(inputs, "wva", 30), up_(kWindow_s), down_(kWindow_s) {}

  Answer Decide(const Observation& seen) override {
    const double most_kv = 0.8 * inputs_.strictness;
    const double most_queue = 5 * inputs_.strictness;
    const double least_spare_kv = 0.1 * inputs_.strictness;
    const double least_spare_queue = 3 * inputs_.strictness;
    const double now = seen.world.time_seconds;
    double wanted = seen.wished.units;
    double kv = 0, queue = 0, unsaturated = 0;
    for (const Observation::Instance& instance : seen.instances) {
      if (instance.kv_share >= most_kv || instance.queued >= most_queue) continue;
      unsaturated += 1;
      kv += instance.kv_share;
      queue += instance.queued;
    }
    if (seen.starting == 0 && !seen.instances.empty()) {
      const double spare_kv = unsaturated > 0 ? most_kv - kv / unsaturated : 0;
      const double spare_queue = unsaturated > 0 ? most_queue - queue / unsaturated : 0;
      if (spare_kv < least_spare_kv || spare_queue < least_spare_queue) {
        wanted += 1;
      } else if (unsaturated >= 2) {
        const double more = unsaturated / (unsaturated - 1);  // load of each of the others then
        if (most_kv - more * kv / unsaturated >= least_spare_kv &&
            most_queue - more * queue / unsaturated >= least_spare_queue) {
          wanted -= 1;
        }
      }
    }
    wanted = std::max(wanted, 1.0);
    const double lowest = -up_.Largest(now, -wanted);
    const double highest = down_.Largest(now, wanted);
    double copies = seen.wished.units;
    copies = std::max(copies, now >= kWindow_s ? lowest : wanted);
    copies = std::min(copies, highest);
    return {Of(static_cast<int>(copies)),
            Say("%.0f instances not saturated, their mean KV use %.2f", unsaturated,
                unsaturated > 0 ? kv / unsaturated : 0)};
  }

 private:
  static constexpr double kWindow_s = 240;

  Stabilizer up_;
  Stabilizer down_;
};

}  // namespace

std::string Say(const char* format, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof(text), format, a, b);
  return text;
}

std::unique_ptr<SimulatedPolicy> MakeHpa(const WholeInputs& inputs) {
  return std::make_unique<Hpa>(inputs);
}

std::unique_ptr<SimulatedPolicy> MakeSaturation(const WholeInputs& inputs) {
  return std::make_unique<Saturation>(inputs);
}

}  // namespace janus::controllers
