#pragma once

#include <algorithm>
#include <string>

#include "controllers/simulate/whole_policies.h"

namespace janus::controllers {

// Shared by policies over copies of one whole-model instance: the first copies carry the first
// minutes.
class Copies : public SimulatedPolicy {
 public:
  Copies(const WholeInputs& inputs, std::string_view name, double interval_s)
      : inputs_(inputs), name_(name), interval_s_(interval_s) {}

  std::string_view name() const final { return name_; }
  double interval_s() const final { return interval_s_; }
  Beginning Begin(const Demand& first) final { return {Of(CopiesFor(inputs_, first))}; }

 protected:
  Wish Of(int count) const {
    return Wish::Copies(std::clamp(count, 1, inputs_.MostCopies()), inputs_.how);
  }

  const WholeInputs inputs_;

 private:
  const std::string_view name_;
  const double interval_s_;
};

// Formats two numbers into a sentence.
std::string Say(const char* format, double a, double b);

}  // namespace janus::controllers
