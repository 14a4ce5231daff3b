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
  std::vector<std::string> allowed;  // of an unknown value of an enum: those it has
};

struct BadObjects {
  std::vector<BadObject> objects;
  // Whole objects with one value at a border of what its schema allows, and with every value of
  // every enum: some of them break a rule. `path` names the value.
  std::vector<BadObject> at_borders;
  // Whole objects with one value null, and the same without it: judged alike, but for an item of a
  // list, which is refused by its path and has no object without.
  struct Null {
    BadObject object;
    std::optional<control::Node> without;
  };
  std::vector<Null> nulls;
  // Of the schema, without indices ("spec.imagePullSecrets[].name"): all that hold a value, and
  // those that a good object had and faults were made of.
  std::set<std::string> leaves;
  std::set<std::string> covered;
};

// The files of crds/.
inline constexpr const char* kPlurals[] = {"moeservices", "moerolescalers", "moetopologies",
                                           "hardwareprofiles"};

// What operator/api has against an object of any kind: what cannot be read, else the rules that it
// breaks.
control::FieldErrors Judge(const control::Node& object);
// And against one object as the successor of another; both can be read.
control::FieldErrors JudgeChange(const control::Node& before, const control::Node& after);

// For every field that one of the good objects has, at its first occurrence: wrong type, below,
// above, unknown enum value, too long, empty, malformed, too many, a required member missing, an
// unknown field. `good` pass. Only below `spec`.
BadObjects MakeBadObjects(const control::Node& schema, const std::vector<control::Node>& good);

// The same of a status that has every field: `good` with it, and one fault below `status`. What
// judges a status is its schema: the API server's reading of it, and the local store's, which does
// not look at patterns ("malformed"). None where the schema has no status.
BadObjects MakeBadStatuses(const control::Node& schema, const control::Node& good);

// Every rule of a schema that judges an object alone (no oldSelf), as the path under which it
// stands and its place there: "spec.ratio#0".
std::set<std::string> RulesOf(const control::Node& schema);
// Every rule that judges an object beside the one it was (oldSelf).
std::set<std::string> ChangeRulesOf(const control::Node& schema);

}  // namespace janus::test
