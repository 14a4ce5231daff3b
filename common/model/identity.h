#pragma once

#include "common/fingerprint.h"
#include "common/model/description.h"

namespace janus {

// Mixes every field of the description: descriptions that differ in any field give different
// fingerprints. The source does not compile if a struct has a field that it does not mix.
void Mix(const ModelDescription& model, Fingerprint& fingerprint);

}  // namespace janus
