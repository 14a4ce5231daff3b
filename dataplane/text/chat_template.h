#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

struct JanusTemplate;

namespace janus::text {

// Limits of one rendering, so that an endless template is an error.
struct ChatTemplateLimits {
  uint64_t instructions = 5'000'000;  // under a second; 50,000 messages of a usual template
  size_t output_bytes = 16u << 20;
};

// A chat template: Jinja as Hugging Face's environment reads it (trim_blocks, lstrip_blocks,
// Python's string methods, raise_exception, strftime_now, tojson as json.dumps). Thread-safe.
class ChatTemplate {
 public:
  // Errors use `name` for the source. `special_tokens` (bos_token, ...) are variables of every
  // rendering. InvalidArgument: a syntax error, with its line.
  static Result<ChatTemplate> Compile(std::string_view source, std::string_view name,
                                      const std::map<std::string, std::string>& special_tokens,
                                      ChatTemplateLimits limits = {});

  // `messages_json`: JSON list of {role, content, ...}, oldest first. `variables_json`: a JSON
  // object of further variables, or empty; it cannot override the variables set here. `now`: for
  // strftime_now, shown in the local time zone. `tools_json`: a JSON list, or empty; templates then
  // see none. InvalidArgument: the text of raise_exception, or what the messages lack.
  // ResourceExhausted: a limit.
  Result<std::string> Render(std::string_view messages_json, bool add_generation_prompt,
                             WallTime now, std::string_view variables_json = {},
                             std::string_view tools_json = {}) const;
  const std::string& source() const { return source_; }

  // Whether templates see the fields of tools, at every depth, in the order of their names. Off at
  // first: in the order of the request.
  void set_sorts_tools(bool sorts) { sorts_tools_ = sorts; }

  // Whether the source contains this word, for example as a variable's name.
  bool Mentions(std::string_view word) const;
  // Whether it loops over a message's content, and so expects a list of text parts.
  bool LoopsOverContent() const { return loops_over_content_; }

 private:
  struct Free {
    void operator()(JanusTemplate* handle) const;
  };
  ChatTemplate(JanusTemplate* handle, std::string_view source, std::string head,
               ChatTemplateLimits limits);

  std::unique_ptr<JanusTemplate, Free> handle_;
  std::string source_;
  std::string head_;  // the constant part of the variables, JSON without its closing brace
  bool loops_over_content_;
  bool sorts_tools_ = false;
  ChatTemplateLimits limits_;
};

}  // namespace janus::text
