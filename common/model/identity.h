#pragma once

#include "common/fingerprint.h"
#include "common/model/description.h"

namespace janus {

// Mixes every field of the description: two that differ in any give different fingerprints. The
// source does not compile when a struct has got a field that it does not know.
void Mix(const ModelDescription& model, Fingerprint& fingerprint);

}  // namespace janus
