#include "dataplane/steps/step_metrics.h"

namespace janus::dataplane {

std::vector<double> StepSecondsBounds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05,
          0.075,  0.1,   0.15,   0.2,   0.3,    0.5,  1,     2.5,  5,    10};
}

std::vector<double> WaitSecondsBounds() {
  return {5e-5,  1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01,
          0.025, 0.05, 0.1,    0.25, 0.5,   1,      2.5,   10};
}

std::vector<double> RoundSecondsBounds() {
  return {1e-5,  2.5e-5, 5e-5,  1e-4, 2.5e-4, 5e-4, 0.001, 0.0025,
          0.005, 0.01,   0.025, 0.05, 0.1,    0.25, 1};
}

std::vector<double> AebsSecondsBounds() {
  return {1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.01};
}

}  // namespace janus::dataplane
