#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/api/supported.h"
#include "operator/api/tree.h"

namespace janus::cli {

// What there is to say of one object of a file: whether a cluster would store it and, of a
// MoEService that it would, what of it this version cannot do, by what carries the service.
struct Verdict {
  std::string object;      // "MoEService demo"
  int line = 0;            // where it begins, 1-based
  bool is_ours = true;     // objects of other API groups are not judged
  std::string unreadable;  // "file:line: what": not even an object; empty otherwise
  control::FieldErrors schema;
  struct Support {
    control::Ground ground;
    control::FieldErrors refused;  // empty: this version serves it
  };
  std::vector<Support> support;  // empty where `schema` is not, and of other kinds

  // It is stored, and this version serves it on one of the grounds; objects of others are no
  // hindrance.
  bool is_good() const;
};

// One verdict for each object of a YAML text, in its order; items of a List count for themselves.
// A document that is no YAML has one too, and hides no other. `grounds`: those to judge for.
// InvalidArgument: the text is not UTF-8 or too large, or holds no object. Pure.
Result<std::vector<Verdict>> Judge(std::string_view text, const std::string& file,
                                   const std::vector<control::Ground>& grounds);

// For people: the object, and each verdict with its reasons as "file:line: path: message".
std::string Describe(const Verdict& verdict, const std::string& file);

}  // namespace janus::cli
