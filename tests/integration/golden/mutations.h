#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

// One change of a golden checkpoint that must have an effect: an entry of its sensitivity.json.
struct Mutation {
  std::string family;
  std::string name;
  nlohmann::json how;
  bool of_config = false;
  std::string config;
  std::string golden_case;
  bool may_move = false;
  bool may_be_refused = false;
  float least_move = 0.0f;
};
void PrintTo(const Mutation& mutation, std::ostream* out);

std::vector<Mutation> MutationsOf(const std::string& family);

// Fails the running test unless the mutated checkpoint moves the logits of its case by a hundred
// times the golden test's tolerance, or is refused where that is allowed.
void ExpectThatItShows(const Mutation& mutation, const CaseService& service);

}  // namespace janus::dataplane
