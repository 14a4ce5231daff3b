#pragma once

#include <string>

#include "cli/place/command.h"
#include "cli/plan/command.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// What a MoEService asks, for commands that reckon and serve nothing: a file may ask for what this
// version does not serve.

// InvalidArgument lists what is wrong with the file; NotFound: it cannot be read.
Result<control::MoEServiceSpec> ReadServiceSpec(const std::string& file);

// The model's folder and the hardware profiles of the roles, where they are said.
void FillSetting(const control::MoEServiceSpec& spec, SettingOptions& setting);

// What `janusctl plan` takes of it: model and hardware, targets, maxBatchSize, the larger
// instancesPerPod, survivable, the most instances of the roles and GPUs of all; the exchange, the
// micro-batches and the tensor parallelism that it asks for are not searched for. Its counts are
// what a plan is asked for.
void FillPlan(const control::MoEServiceSpec& spec, PlanOptions& options);

// What `janusctl place` takes of it: model, counts, pods, slots, survivable and a full batch of its
// attention instances, where these are fixed.
void FillPlace(const control::MoEServiceSpec& spec, PlaceOptions& options);

}  // namespace janus::cli
