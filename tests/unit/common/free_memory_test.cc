#include "common/free_memory.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

TEST(FreeMemory, ReadsMemAvailable) {
  const auto bytes = ParseMemAvailable("MemTotal:  100 kB\nMemFree: 7 kB\nMemAvailable:   42 kB\n");
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 42 * 1024);
  EXPECT_FALSE(ParseMemAvailable("MemTotal: 100 kB\n").ok());
  const auto here = AvailableMemoryBytes();
  ASSERT_TRUE(here.ok()) << here.status().ToString();
  EXPECT_GT(*here, 1 << 20);
}

}  // namespace
}  // namespace janus
