#include "operator/api/tree.h"

#include <gtest/gtest.h>

#include <string>

namespace janus::control {
namespace {

constexpr size_t kPlenty = 4096;

TEST(JoinErrors, OneIsItsPathAndItsMessage) {
  EXPECT_EQ(JoinErrors({}, kPlenty), "");
  EXPECT_EQ(JoinErrors({{"spec.a", "is 3, more than 2"}}, kPlenty), "spec.a: is 3, more than 2");
}

TEST(JoinErrors, SeveralAreNumberedAndPathsShareAMessage) {
  EXPECT_EQ(JoinErrors({{"spec.a", "leave it out; or not"},
                        {"spec.b", "is 3"},
                        {"spec.c", "leave it out; or not"}},
                       kPlenty),
            "(1) spec.a, spec.c: leave it out; or not; (2) spec.b: is 3");
}

TEST(JoinErrors, WhatHasNoRoomIsCounted) {
  FieldErrors errors;
  for (int i = 0; i < 100; ++i)
    errors.push_back({"spec.a", "is wrong in way " + std::to_string(i)});
  for (const size_t most : {60u, 100u, 1000u}) {
    const std::string out = JoinErrors(errors, most);
    EXPECT_LE(out.size(), most);
    const size_t said =
        out.rfind(" (") == std::string::npos ? 1 : std::stoul(out.substr(out.rfind(" (") + 2));
    EXPECT_TRUE(out.ends_with("; and " + std::to_string(100 - said) + " more")) << out;
  }
  EXPECT_EQ(JoinErrors({{"spec.a", std::string(200, 'x')}}, 50).size(), 50u) << "one alone is cut";
}

}  // namespace
}  // namespace janus::control
