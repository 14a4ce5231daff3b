#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/status.h"
#include "dataplane/text/chat_template.h"
#include "dataplane/text/tokenizer.h"
#include "dataplane/text/tokenizer_config.h"

namespace janus::text {

// The text side of a checkpoint folder.
struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenizerConfig config;
  std::optional<ChatTemplate> chat_template;  // absent: the model has no template
};

// Reads the vocabulary (Tokenizer::LoadOf), tokenizer_config.json (may be absent) and the chat
// template. That is `chat_template_file` if not empty, otherwise chat_template.jinja, otherwise the
// template "default" in tokenizer_config.json. NotFound or InvalidArgument name the file and the
// problem.
Result<ModelText> LoadModelText(const std::string& model_dir,
                                const std::string& chat_template_file);

}  // namespace janus::text
