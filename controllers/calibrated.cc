#include "controllers/calibrated.h"

#include "controllers/cpu_costs.h"

namespace janus::controllers {
namespace {

// The fits of controllers/fit to data/calibration, rounded to four digits. A test fits again and
// compares.
DeviceCosts FittedOnH100() {
  DeviceCosts costs;
  costs.experts = {2.048e-05, 2.705e+12, 1.332e+15, 5.327e-07, 1.478};
  costs.latent = {2.892e-05, 6.242e-07, 8.006e-08, 3.75e-09, 4.089e-10, 1.565e-12, 1.66e-06, 1.544};
  costs.grouped = {8.724e-06, 3.116e+12, 1.545e+13, 4.06e+07, 2.103e-08,
                   2.223e-10, 1e-15,     9.837e-07, 1.5};
  costs.dispatch = {1.427e-05, 1.532e-05, 1.357e-09, 2.695e+11, 4.87e+10, 1.016e-10, 1.05};
  costs.combine = {2.232e-06, 1.98e-05, 3.835e-08, 2.351e+11, 4.829e+10, 1.468e-09, 1.094};
  costs.all_gather = {{4.185e-06, 8.217e-07, 1.06e+11}, {2.414e-05, 0, 3.06e+11}};
  costs.all_reduce = {{3.701e-06, 1.561e-06, 7.346e+10}, {2.369e-05, 4.378e-07, 1.661e+11}};
  return costs;
}

DeviceCosts FittedOnH200() {
  DeviceCosts costs;
  costs.experts = {1.902e-05, 3.813e+12, 1.335e+15, 7.52e-07, 1.366};
  costs.latent = {2.88e-05,  5.316e-07, 8.792e-08, 3.428e-09,
                  2.784e-10, 2.255e-12, 1.788e-06, 1.799};
  costs.grouped = {8.671e-06, 4.482e+12, 1.686e+13, 4.212e+07, 2.118e-08,
                   1.872e-10, 5.278e-15, 9.616e-07, 1.308};
  costs.dispatch = {1.427e-05, 1.532e-05, 1.357e-09, 2.695e+11, 4.87e+10, 1.016e-10, 1.05};
  costs.combine = {2.232e-06, 1.98e-05, 3.835e-08, 2.351e+11, 4.829e+10, 1.468e-09, 1.094};
  costs.all_gather = {{3.729e-06, 9.965e-07, 1.108e+11}, {2.407e-05, 0, 3.122e+11}};
  costs.all_reduce = {{3.376e-06, 1.721e-06, 7.599e+10}, {2.032e-05, 8.51e-07, 1.673e+11}};
  return costs;
}

// The experts were measured with fp8 weights.
void SetArithmetic(DeviceCosts& costs, const HardwareProfile& measured_on,
                   double bytes_per_weight) {
  costs.experts.operations_per_second *=
      measured_on.OperationsPerSecond(bytes_per_weight) / measured_on.fp8_operations_per_second;
}

}  // namespace

Result<DeviceCosts> CostsOf(const HardwareProfile& hardware, double bytes_per_weight) {
  JANUS_RETURN_IF_ERROR(Validate(hardware));
  if (hardware.is_cpu) return CpuCosts(hardware);
  DeviceCosts costs = hardware.name == "H200" ? FittedOnH200() : FittedOnH100();
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile measured_on,
                         FindHardware(hardware.name == "H200" ? "H200" : "H100"));
  SetArithmetic(costs, measured_on, bytes_per_weight);
  costs.hardware = hardware;
  costs.experts = CarryOver(costs.experts, measured_on, hardware, bytes_per_weight);
  costs.grouped = CarryOver(costs.grouped, measured_on, hardware);
  costs.latent = CarryOver(costs.latent, measured_on, hardware);
  costs.dispatch = CarryOver(costs.dispatch, measured_on, hardware);
  costs.combine = CarryOver(costs.combine, measured_on, hardware);
  costs.all_gather = CarryOver(costs.all_gather, measured_on, hardware);
  costs.all_reduce = CarryOver(costs.all_reduce, measured_on, hardware);
  return costs;
}

}  // namespace janus::controllers
