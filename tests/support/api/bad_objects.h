#pragma once

#include <set>
#include <string>
#include <vector>

#include "operator/api/tree.h"

namespace janus::test {

// An object with one fault, made from a good one.
struct BadObject {
  std::string name;               // "spec.slo.tpot.targetMilliseconds: below"
  control::Node object;           // whole
  std::string path;               // of the field that is at fault
  bool is_unknown_field = false;  // the API server reports these in a message, not by path
};

struct BadObjects {
  std::vector<BadObject> objects;
  // Whole objects with one value at a border of what its schema allows, and with every value of
  // every enum: some of them break a rule. `path` names the value.
  std::vector<BadObject> at_borders;
  // Of the schema, without indices ("spec.imagePullSecrets[].name"): all that hold a value, and
  // those that a good object had and faults were made of.
  std::set<std::string> leaves;
  std::set<std::string> covered;
};

// What operator/api has against a MoEService: what cannot be read, else the rules that it breaks.
control::FieldErrors Judge(const control::Node& object);

// For every field that one of the good objects has, at its first occurrence: wrong type, below,
// above, unknown enum value, too long, empty, malformed, too many, a required member missing, an
// unknown field. `good` pass. Only below `spec`.
BadObjects MakeBadObjects(const control::Node& schema, const std::vector<control::Node>& good);

// Good MoEServices that together have every field of the schema.
std::vector<control::Node> GoodMoEServices();

// For every rule of the schema's x-kubernetes-validations that judges an object alone (no oldSelf):
// an object that breaks it and nothing else. `rule` is the path under which the rule stands and its
// place there: "spec.ratio#0".
struct RuleBreaker {
  std::string rule;
  BadObject bad;
};
std::vector<RuleBreaker> BreakRules();

// Every rule of a schema, as above, those with oldSelf left out.
std::set<std::string> RulesOf(const control::Node& schema);

}  // namespace janus::test
