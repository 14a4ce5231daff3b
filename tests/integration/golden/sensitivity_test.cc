// Every config field and every kind of tensor affects the logits. Each mutation moves them by a
// hundred times the golden test's tolerance, or is refused.

#include <gtest/gtest.h>

#include <cctype>

#include "tests/integration/golden/mutations.h"

namespace janus::dataplane {
namespace {

std::vector<Mutation> AllMutations() {
  std::vector<Mutation> all;
  for (const char* family : kGoldenFamilies) {
    for (Mutation& mutation : MutationsOf(family)) all.push_back(std::move(mutation));
  }
  return all;
}

class SensitivityTest : public testing::TestWithParam<Mutation> {};

TEST_P(SensitivityTest, MovesTheLogitsOrIsRefused) {
  ExpectThatItShows(GetParam(), {.kernels = BestCpu()});
}

INSTANTIATE_TEST_SUITE_P(All, SensitivityTest, testing::ValuesIn(AllMutations()),
                         [](const auto& info) {
                           std::string name = info.param.family + "_" + info.param.name;
                           for (char& ch : name) {
                             if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace janus::dataplane
