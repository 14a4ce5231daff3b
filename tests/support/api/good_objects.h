#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"
#include "tests/support/api/bad_objects.h"

namespace janus::test {

// Good objects of a kind ("moeservices") that together use every field of its schema's spec.
std::vector<control::Node> GoodObjects(std::string_view plural);

// For every rule of RulesOf(the kind's schema): objects that break only this rule.
struct RuleBreaker {
  std::string rule;
  BadObject bad;
};
std::vector<RuleBreaker> BreakRules(std::string_view plural);

// For every rule of ChangeRulesOf(the kind's schema): a good object, and another that only this
// rule forbids as its successor.
struct ChangeBreaker {
  std::string rule;
  control::Node before;
  BadObject after;
};
std::vector<ChangeBreaker> BreakChanges(std::string_view plural);

}  // namespace janus::test
