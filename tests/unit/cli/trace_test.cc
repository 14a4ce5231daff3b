#include "cli/trace.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
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
            "line 3: 'x,1,1' is not an arrival; want seconds and two token counts. All are at "
            "least 0; tokens are at most 100 million");
  EXPECT_NE(message("0,1\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("0,-1,5\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("nan,1,5\n").find("line 2"), std::string::npos);
  EXPECT_NE(message("5,1,1\n4,1,1\n").find("line 3: the time decreases"), std::string::npos);
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

TEST(ParseTrace, ReadsGaps) {
  const auto trace = ParseTrace("gap_s,input_tokens,output_tokens\n0.5,1,2\n0,3,4\n2,5,6\n", 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(*trace, (std::vector<Arrival>{{0.5, 1, 2}, {0.5, 3, 4}, {2.5, 5, 6}}));
  EXPECT_NE(
      ParseTrace("gap_s,input_tokens,output_tokens\n-1,1,2\n", 0).status().message().find("line 2"),
      std::string::npos);
}

TEST(ReadTrace, ReadsAFolderAsOneTraceInOrderOfNames) {
  const std::filesystem::path folder = testing::TempDir() + "/janus-trace-parts";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
  };
  write("2.csv", "gap_s,input_tokens,output_tokens\n1,3,4\n");
  write("1.csv", "gap_s,input_tokens,output_tokens\n5,1,2\n");
  write("notes.txt", "not a trace");
  const auto trace = ReadTrace(folder.string(), 0);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(*trace, (std::vector<Arrival>{{5, 1, 2}, {6, 3, 4}}));
  EXPECT_EQ(ReadTrace(folder.string(), 1)->size(), 1u);
  write("3.csv", "arrival_s,input_tokens,output_tokens\n2,1,1\n");
  const std::string message = ReadTrace(folder.string(), 0).status().message();
  EXPECT_NE(message.find("3.csv: line 2: the time decreases"), std::string::npos) << message;
  std::filesystem::remove_all(folder);
}

TEST(Trace, OfMoreThanAHundredDaysIsRefused) {
  const std::string header = "arrival_s,input_tokens,output_tokens\n";
  EXPECT_TRUE(ParseTrace(header + "1,2,3\n8640000,2,3\n", 0).ok());
  for (const char* row : {"8640001,2,3\n", "1764000000,2,3\n", "1e300,2,3\n"}) {
    const auto read = ParseTrace(header + "1,2,3\n" + row, 0);
    ASSERT_FALSE(read.ok()) << row;
    EXPECT_TRUE(read.status().message().starts_with("line 3: '")) << read.status().message();
    EXPECT_NE(read.status().message().find("more than 100 days"), std::string::npos);
  }
  EXPECT_FALSE(ParseTrace("gap_s,input_tokens,output_tokens\n8640000,1,1\n1,1,1\n", 0).ok());
}

}  // namespace
}  // namespace janus::cli
