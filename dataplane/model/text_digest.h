#pragma once

#include <string>

#include "common/status.h"

namespace janus::dataplane {

// A digest of what of a checkpoint makes text tokens and tokens text: tokenizer.json,
// tokenizer_config.json, chat_template.jinja and generation_config.json, every byte of those that
// are there. Hexadecimal; empty: there is no tokenizer.json. The errors of ReadFile, for what
// cannot be read.
Result<std::string> DigestText(const std::string& folder);

}  // namespace janus::dataplane
