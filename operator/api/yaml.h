#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Reads exactly one YAML document as kubectl does: plain scalars by yaml_scalar.h, quoted ones as
// strings. InvalidArgument, with the line: an error of yaml_scalar.h, a field name that kubectl
// would change (`y`, 012), not UTF-8, broken syntax, a tag, a repeated or non-scalar key, no or a
// second document, an integer beyond 64 bits, more than 1 MiB, 64 levels or 100,000 values (an
// alias counts its full content). `file` names the text in messages.
Result<Node> ParseYaml(std::string_view text, std::string_view file);

struct YamlDocument {
  int line = 0;  // first line in the text, 1-based
  Result<Node> root;
};

// The documents of a text in order, without those that have only comments. A line of "---", perhaps
// with a comment, ends a document. Each is parsed separately; ParseYaml's errors have lines of the
// whole text. InvalidArgument: the text is not UTF-8 or too large.
Result<std::vector<YamlDocument>> ParseYamlDocuments(std::string_view text, std::string_view file);

// Block style, fields in tree order; ParseYaml returns the same tree except for lines.
std::string WriteYaml(const Node& root);

}  // namespace janus::control
