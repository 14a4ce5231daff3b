#pragma once

#include <memory>

#include "common/model/description.h"
#include "common/status.h"
#include "common/timed_device.h"
#include "controllers/timed/timed_model.h"

namespace janus::dataplane {

using controllers::TimedModel;

// The device for the model that this worker computes. The errors of TimedModel::Make.
inline Result<std::unique_ptr<const TimedModel>> MakeTimedModel(const TimedDevice& device,
                                                                const ModelDescription& served) {
  JANUS_ASSIGN_OR_RETURN(
      TimedModel model,
      TimedModel::Make(device, {served.moe_layers(), served.moe.experts, served.moe.top_k}));
  return std::make_unique<const TimedModel>(std::move(model));
}

}  // namespace janus::dataplane
