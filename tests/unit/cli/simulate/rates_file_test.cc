#include "cli/simulate/rates_file.h"

#include <gtest/gtest.h>

#include <string>

namespace janus::cli {
namespace {

constexpr char kHeader[] =
    "window_start_s,rate_rps,active_clients,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,"
    "out_p99\n";

std::string MessageOf(const std::string& text) {
  return ParseRates(text).status().message();
}

TEST(ParseRates, ReadsWhatServeGenPublishes) {
  const auto windows = ParseRates(std::string(kHeader) +
                                  "0,14.5,21,1054.2,59,2036,19617,1353.9,1066,1989,10629\n"
                                  "600,18,22,1,1,1,1,2,2,2,2\n");
  ASSERT_TRUE(windows.ok()) << windows.status().ToString();
  ASSERT_EQ(windows->size(), 2u);
  EXPECT_EQ((*windows)[0].rate, 14.5);
  EXPECT_EQ((*windows)[0].input.p90, 2036);
  EXPECT_EQ((*windows)[0].output.mean, 1353.9);
  EXPECT_EQ((*windows)[1].start_s, 600);
}

TEST(ParseRates, NamesTheLineAndTheColumnThatIsWrong) {
  EXPECT_NE(MessageOf(std::string(kHeader) + "0,x,1,1,1,1,1,1,1,1,1\n").find("line 2: rate_rps is"),
            std::string::npos);
  EXPECT_NE(MessageOf(std::string(kHeader) + "0,1,1,1,1,1,1,1,1,1\n").find("line 2: out_p99 is ''"),
            std::string::npos);
  EXPECT_NE(MessageOf(std::string(kHeader) + "0,-1,1,1,1,1,1,1,1,1,1\n")
                .find("want a number from 0 to 1e9"),
            std::string::npos);
  EXPECT_NE(MessageOf(std::string(kHeader) + "600,1,1,1,1,1,1,1,1,1,1\n600,1,1,1,1,1,1,1,1,1,1\n")
                .find("line 3: the window does not start after"),
            std::string::npos);
  EXPECT_NE(MessageOf("a,b\n1,2\n").find("want the column window_start_s"), std::string::npos);
  EXPECT_EQ(MessageOf(kHeader), "has no rows below its header");
  EXPECT_NE(MessageOf("").find("line 1"), std::string::npos);
}

}  // namespace
}  // namespace janus::cli
