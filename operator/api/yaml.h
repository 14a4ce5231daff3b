#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// Reads exactly one YAML document as kubectl does: plain scalars by yaml_scalar.h, quoted ones are
// strings. InvalidArgument, with the line: what that one refuses, a field's name that kubectl would
// change (`y`, 012), not UTF-8, broken syntax, a tag, a repeated or
// non-scalar key, no or a
// second document, an integer beyond 64 bits, more than 1 MiB, 64 levels or 100,000 values (an
// alias counts what it stands for). `file` only names the text in messages.
Result<Node> ParseYaml(std::string_view text, std::string_view file);

struct YamlDocument {
  int line = 0;  // of the text, 1-based, where it begins
  Result<Node> root;
};

// The documents of a text, in their order; those of comments alone are left out. A document ends
// before a line of "---", which may have a comment behind it. Each is read for itself, with
// ParseYaml's errors at the lines of the whole text. InvalidArgument: the text is not UTF-8 or too
// large.
Result<std::vector<YamlDocument>> ParseYamlDocuments(std::string_view text, std::string_view file);

// Block style, fields in the order of the tree; ParseYaml gives the same tree back (lines aside).
std::string WriteYaml(const Node& root);

}  // namespace janus::control
