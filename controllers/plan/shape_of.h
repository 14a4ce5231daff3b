#pragma once

#include "common/model/description.h"
#include "controllers/plan/model_shape.h"

namespace janus::controllers {

// The sizes of a model by its config.json, as our workers hold it: routed experts in the
// checkpoint's type, everything else and the cache in `description.dtype`. The name is the
// family's. Pure.
ModelShape ShapeOf(const ModelDescription& description);

}  // namespace janus::controllers
