#include "cli/load/arrivals.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <string>

namespace janus::cli {
namespace {

TEST(ParseTrace, ReadsOurColumnsInAnyOrder) {
  const auto trace =
      ParseTrace("client,output_tokens,arrival_s,input_tokens\n7,44,0,374\n8,109,4.3,396\r\n\n", 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(*trace, (std::vector<Arrival>{{0, 374, 44}, {4.3, 396, 109}}));
}

TEST(ParseTrace, ReadsBurstGpt) {
  const auto trace = ParseTrace(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,"
      "Conversation log\n45,ChatGPT,1087,0,1087,API log\n",
      0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(*trace, (std::vector<Arrival>{{5, 472, 18}, {45, 1087, 1}}));
}

TEST(ParseTrace, StopsAtItsLimit) {
  const auto trace = ParseTrace("arrival_s,input_tokens,output_tokens\n0,1,1\n1,1,1\nbroken\n", 2);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->size(), 2u);
}

TEST(ParseTrace, NamesTheLineThatIsWrong) {
  const auto message = [](std::string_view rows) {
    return ParseTrace("arrival_s,input_tokens,output_tokens\n" + std::string(rows), 0)
        .status()
        .message();
  };
  EXPECT_EQ(message("0,1,1\nx,1,1\n"),
            "line 3: 'x,1,1' is no arrival; want seconds and two token counts");
  EXPECT_NE(message("0,1\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("0,-1,5\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("nan,1,5\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("5,1,1\n4,1,1\n").find("line 3: the time falls"), std::string::npos);
  EXPECT_EQ(message(""), "has no rows below its header");
  EXPECT_NE(ParseTrace("a,b,c\n1,2,3\n", 0).status().message().find("want the columns arrival_s"),
            std::string::npos);
}

TEST(ReadTrace, ReadsPlainAndGzip) {
  const std::string path = testing::TempDir() + "/janus-trace.csv.gz";
  const std::string text = "arrival_s,input_tokens,output_tokens\n1.5,2,3\n";
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  const auto trace = ReadTrace(path, 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(trace->front(), (Arrival{1.5, 2, 3}));
  std::filesystem::remove(path);
  EXPECT_EQ(ReadTrace(path, 0).status().code(), StatusCode::kNotFound);
}

TEST(PoissonArrivals, HasTheRateAndTheSpreadOfAPoissonProcess) {
  const auto arrivals = PoissonArrivals(20, 20'000, 128, 64, 7);
  ASSERT_EQ(arrivals.size(), 20'000u);
  EXPECT_EQ(arrivals[0], (Arrival{0, 128, 64}));
  double sum = 0, squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i].seconds - arrivals[i - 1].seconds;
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double count = static_cast<double>(arrivals.size() - 1);
  const double mean = sum / count;
  EXPECT_NEAR(mean, 0.05, 0.002);
  // Exponential gaps: the standard deviation is the mean.
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean) / mean, 1.0, 0.05);
}

TEST(PoissonArrivals, RepeatsWithTheSeed) {
  EXPECT_EQ(PoissonArrivals(5, 50, 1, 1, 3), PoissonArrivals(5, 50, 1, 1, 3));
  EXPECT_NE(PoissonArrivals(5, 50, 1, 1, 3), PoissonArrivals(5, 50, 1, 1, 4));
}

}  // namespace
}  // namespace janus::cli
