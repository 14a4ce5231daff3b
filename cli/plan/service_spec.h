#pragma once

#include <string>

#include "cli/place/command.h"
#include "cli/plan/command.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// Reads a MoEService for commands that only compute. The file may ask for what this version does
// not serve.

// InvalidArgument lists what is wrong with the file. NotFound: it cannot be read.
Result<control::MoEServiceSpec> ReadServiceSpec(const std::string& file);

// Takes the model's folder and the hardware profiles of the roles, if the service sets them.
void FillSetting(const control::MoEServiceSpec& spec, SettingOptions& setting);

// Takes the fields of spec.exchange that the service sets, and the sizes of its pods.
void FillExchange(const control::MoEServiceSpec& spec, controllers::PlanPins& pins,
                  ExchangeOptions& options);

// Takes what `janusctl plan` uses: model and hardware, targets, maxBatchSize, the larger
// instancesPerPod, survivable, and the limits on instances and GPUs. The exchange, the
// micro-batches and the tensor parallelism that the service sets are fixed in the plan. The counts
// of instances are not taken: the plan computes them.
void FillPlan(const control::MoEServiceSpec& spec, PlanOptions& options);

// Takes what `janusctl place` uses: model, counts, pods, slots, survivable, and a full batch of the
// attention instances if that is fixed.
void FillPlace(const control::MoEServiceSpec& spec, PlaceOptions& options);

}  // namespace janus::cli
