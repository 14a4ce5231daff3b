#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

class FieldFilter;

// A field of the outermost object of which only a part is read.
struct JsonPart {
  std::string_view field;
  const FieldFilter* keep = nullptr;  // what of its value; of a list, of each item; null: all
};

// Reads one JSON value (RFC 8259); what follows it but white space is an error. Integers beyond 64
// bits are kFloat: their text is kept as written.
// InvalidArgument, with the place: broken syntax, not UTF-8, a repeated name in an object, more
// than 200 levels or 4,000,000 values. `what` only names the text in messages. What `part` leaves
// out costs no more than to step over it.
Result<Node> ParseJson(std::string_view text, std::string_view what, const JsonPart& part = {});

// Compact, fields in the order of the tree; ParseJson gives the same tree back. What JSON cannot
// say of YAML's numbers (.inf, .nan) is written as null.
std::string WriteJson(const Node& root);
// The same for people: a line for each value, indented by two, and one end of line.
std::string WriteJsonLines(const Node& root);

}  // namespace janus::control
