#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace janus {

// EXPECT_TRUE(Contains(message, "what")) shows both texts if it fails.
inline testing::AssertionResult Contains(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no '" << part << "' in '" << text << "'";
}

}  // namespace janus
