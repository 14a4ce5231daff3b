#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/supported.h"
#include "operator/api/tree.h"

namespace janus::cli {

// The verdict on one object of a file: whether a cluster would store it. For a MoEService that is
// stored, also what this version does not support, for each kind of installation.
struct Verdict {
  std::string object;      // "MoEService demo"
  int line = 0;            // where it begins, 1-based
  bool is_ours = true;     // false: another API group, not judged
  std::string unreadable;  // "file:line: what": not an object at all; empty otherwise
  control::FieldErrors schema;
  struct Support {
    control::Ground ground;
    control::FieldErrors refused;  // empty: this version serves it
  };
  std::vector<Support> support;  // empty for other kinds, and if `schema` has errors

  // Whether the object is stored and at least one of the grounds supports it. Objects of other API
  // groups are good.
  bool is_good() const;
};

// One verdict for each object of a YAML text, in order. Each item of a List gets its own. A
// document that is not YAML gets one too; the others are still judged. `grounds`: the kinds of
// installation to judge for. InvalidArgument: the text is not UTF-8, is too large, or holds no
// object. Pure.
Result<std::vector<Verdict>> Judge(std::string_view text, const std::string& file,
                                   const std::vector<control::Ground>& grounds);

// For people: the object, then each verdict with its reasons as "file:line: path: message".
std::string Describe(const Verdict& verdict, const std::string& file);

}  // namespace janus::cli
