#pragma once

#include <string>

#include "common/status.h"

namespace janus::dataplane {

// A digest of the files of a checkpoint that turn text into tokens and back: the vocabulary
// (common/vocabulary_files.h), tokenizer_config.json, chat_template.jinja and
// generation_config.json, with every byte of those that exist. Hexadecimal; empty: there is no
// vocabulary. Errors: those of ReadFile.
Result<std::string> DigestText(const std::string& folder);

}  // namespace janus::dataplane
