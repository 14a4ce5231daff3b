#include "common/fingerprint.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

// Published values of FNV-1a.
TEST(Fingerprint, IsFnv1a) {
  EXPECT_EQ(Fingerprint().Hex(), "cbf29ce484222325");
  EXPECT_EQ(Fingerprint().Mix("a").Hex(), "af63dc4c8601ec8c");
  EXPECT_EQ(Fingerprint().Mix("foobar").Hex(), "85944171f73967e8");
}

TEST(Fingerprint, TellsTheOrderOfNumbers) {
  EXPECT_NE(Fingerprint().Mix(uint64_t{1}).Mix(uint64_t{256}).value(),
            Fingerprint().Mix(uint64_t{256}).Mix(uint64_t{1}).value());
}

}  // namespace
}  // namespace janus
