#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

class FieldFilter;

// A field of the outermost object that is read only in part.
struct JsonPart {
  std::string_view field;
  const FieldFilter* keep = nullptr;  // what to keep of its value, or of each item of a list; null:
                                      // all
};

// Reads one JSON value (RFC 8259); only white space may follow it. Integers beyond 64 bits become
// kFloat with their original text. InvalidArgument, with the position: broken syntax, not UTF-8, a
// repeated name in an object, more than 200 levels or 4,000,000 values. `what` names the text in
// messages. Fields that `part` excludes are only skipped, not built.
Result<Node> ParseJson(std::string_view text, std::string_view what, const JsonPart& part = {});

// Compact, with fields in tree order; ParseJson returns the same tree. YAML numbers that JSON
// cannot express (.inf, .nan) become null.
std::string WriteJson(const Node& root);
// The same for people: one value per line, indented by two, with a final line feed.
std::string WriteJsonLines(const Node& root);

}  // namespace janus::control
