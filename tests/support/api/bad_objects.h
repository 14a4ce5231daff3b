#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/tree.h"

namespace janus::test {

// An object with one fault, made from a good one.
struct BadObject {
  std::string name;                  // "spec.slo.tpot.targetMilliseconds: below"
  control::Node object;              // whole
  std::string path;                  // of the field that is at fault
  bool is_unknown_field = false;     // the API server reports these in a message, not by path
  std::vector<std::string> allowed;  // for an unknown enum value: the known ones
};

struct BadObjects {
  std::vector<BadObject> objects;
  // Whole objects with one value at a border of its schema, and with every value of every enum.
  // Some of them break a rule. `path` names the value.
  std::vector<BadObject> at_borders;
  // Whole objects with one value null, and the same without the value. Both are judged alike,
  // except for an item of a list: it is refused by its path, and there is no object without it.
  struct Null {
    BadObject object;
    std::optional<control::Node> without;
  };
  std::vector<Null> nulls;
  // Paths in the schema, without indices ("spec.imagePullSecrets[].name"): all with a value, and
  // those that a good object has and that got faults.
  std::set<std::string> leaves;
  std::set<std::string> covered;
};

// The files of crds/.
inline constexpr const char* kPlurals[] = {"moeservices", "moerolescalers", "moetopologies",
                                           "hardwareprofiles"};

// The errors that operator/api finds in an object of any kind: what cannot be read, otherwise the
// broken rules.
control::FieldErrors Judge(const control::Node& object);
// The same for an object as the successor of another; both can be read.
control::FieldErrors JudgeChange(const control::Node& before, const control::Node& after);

// For every field of the good objects, at its first occurrence: wrong type, below, above, unknown
// enum value, too long, empty, malformed, too many, a required member missing, an unknown field.
// `good` must be valid. Only below `spec`.
BadObjects MakeBadObjects(const control::Node& schema, const std::vector<control::Node>& good);

// The same for a status with every field: `good` with it, and one fault below `status`. Only the
// schema judges a status: the API server's reading of it, and the local store's, which ignores
// patterns ("malformed"). Empty if the schema has no status.
BadObjects MakeBadStatuses(const control::Node& schema, const control::Node& good);

// Every rule of a schema that judges an object alone (no oldSelf), by its path and its index there:
// "spec.ratio#0". Without the rules of a text's form, which MakeBadObjects breaks ("malformed").
std::set<std::string> RulesOf(const control::Node& schema);
// Every rule that compares an object with its predecessor (oldSelf).
std::set<std::string> ChangeRulesOf(const control::Node& schema);

}  // namespace janus::test
