#include "dataplane/text/model_text.h"

#include "common/read_file.h"

namespace janus::text {

namespace {

// `found` stays empty when an optional file does not exist.
Status ReadOptional(const std::string& path, std::optional<std::string>* found) {
  Result<std::string> text = ReadFile(path);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!text.ok()) return text.status();
  *found = *std::move(text);
  return OkStatus();
}

struct Source {
  std::string text;
  std::string name;
};

Status FindChatTemplate(const std::string& model_dir, const std::string& file,
                        const TokenizerConfig& config, std::optional<Source>* found) {
  if (!file.empty()) {
    JANUS_ASSIGN_OR_RETURN(std::string text, ReadFile(file));
    *found = Source{std::move(text), file};
    return OkStatus();
  }
  const std::string own = model_dir + "/chat_template.jinja";
  std::optional<std::string> text;
  JANUS_RETURN_IF_ERROR(ReadOptional(own, &text));
  if (text) {
    *found = Source{*std::move(text), own};
    return OkStatus();
  }
  if (config.chat_templates.empty()) return OkStatus();
  const std::string path = model_dir + "/tokenizer_config.json";
  const auto chosen = config.chat_templates.find("default");
  if (chosen == config.chat_templates.end()) {
    std::string names;
    for (const auto& [name, unused] : config.chat_templates) names += " '" + name + "'";
    return InvalidArgument(path + ": chat_template has no entry named 'default', only" + names +
                           "; choose one with --chat-template FILE");
  }
  *found = Source{chosen->second, path + ": chat_template"};
  return OkStatus();
}

}  // namespace

Result<ModelText> LoadModelText(const std::string& model_dir,
                                const std::string& chat_template_file) {
  ModelText text;
  JANUS_ASSIGN_OR_RETURN(text.tokenizer, Tokenizer::LoadOf(model_dir));
  const std::string config_path = model_dir + "/tokenizer_config.json";
  std::optional<std::string> config_json;
  JANUS_RETURN_IF_ERROR(ReadOptional(config_path, &config_json));
  if (config_json) {
    JANUS_ASSIGN_OR_RETURN(text.config, ParseTokenizerConfig(*config_json, config_path));
  }
  std::optional<Source> source;
  JANUS_RETURN_IF_ERROR(FindChatTemplate(model_dir, chat_template_file, text.config, &source));
  if (source) {
    JANUS_ASSIGN_OR_RETURN(text.chat_template, ChatTemplate::Compile(source->text, source->name,
                                                                     text.config.special_tokens));
    // Kimi's program, which is beside such a vocabulary, sorts them.
    text.chat_template->set_sorts_tools(text.tokenizer->is_tiktoken());
  }
  return text;
}

}  // namespace janus::text
