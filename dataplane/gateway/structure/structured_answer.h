#pragma once

#include <cstdint>
#include <string>

namespace janus::gateway {

// What a request asks its answer to look like.
struct StructuredAnswer {
  enum class Kind : uint8_t {
    kNone,
    kJsonSchema,  // `text` is a JSON schema
    kRegex,       // all of the answer matches it
    kChoice,      // one of a JSON list of strings
    kGrammar,     // Lark, or GBNF if it has "::="
  };
  Kind kind = Kind::kNone;
  std::string text{};
  std::string param{};     // the parameter that says so, for errors
  bool is_format = false;  // the API's own format of messages, which does not hold for calls
};

}  // namespace janus::gateway
