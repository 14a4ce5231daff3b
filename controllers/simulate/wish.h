#pragma once

#include <string>

#include "controllers/plan/setting.h"
#include "controllers/plan/whole.h"

namespace janus::controllers {

// What a policy wants to run: one separated service of `how.pools` pools, or `units` copies of the
// whole model, configured by `whole`.
struct Wish {
  bool is_separate = true;
  Configuration how;
  int units = 0;
  WholeConfiguration whole;

  static Wish Separate(const Configuration& how) { return {true, how, 0, {}}; }
  static Wish Copies(int units, const WholeConfiguration& whole) {
    return {false, {}, units, whole};
  }

  int Gpus() const { return is_separate ? how.Gpus() : units * whole.gpus; }
  std::string Name() const {  // "4A12E", "2 x 4A12E", "3 x 16 GPUs"
    return is_separate ? NameOf(how)
                       : std::to_string(units) + " x " + std::to_string(whole.gpus) + " GPUs";
  }
  friend bool operator==(const Wish&, const Wish&) = default;
};

}  // namespace janus::controllers
