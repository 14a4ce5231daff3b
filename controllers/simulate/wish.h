#pragma once

#include <string>

#include "controllers/plan/setting.h"

namespace janus::controllers {

// What a policy wants to run: one separated service, or `units` whole-model instances of
// `gpus_each`.
struct Wish {
  bool is_separate = true;
  Configuration how;
  int units = 0;
  int gpus_each = 0;

  int Gpus() const {
    return is_separate ? how.m * how.tp_attention + how.n * how.tp_experts : units * gpus_each;
  }
  std::string Name() const {  // "4A12E", "3 x 16 GPUs"
    return is_separate ? std::to_string(how.m) + "A" + std::to_string(how.n) + "E"
                       : std::to_string(units) + " x " + std::to_string(gpus_each) + " GPUs";
  }
  friend bool operator==(const Wish&, const Wish&) = default;
};

}  // namespace janus::controllers
