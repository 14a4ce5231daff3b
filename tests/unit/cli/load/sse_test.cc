#include "cli/load/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace janus::cli {
namespace {

TEST(SseParser, CutsEventsHoweverTheBytesArrive) {
  const std::string stream =
      ": comment\r\ndata: {\"a\":1}\r\n\r\ndata:x\n\nevent: y\ndata: [DONE]\n\n";
  const std::vector<std::string> want = {"{\"a\":1}", "x", "[DONE]"};
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    std::vector<std::string> events;
    SseParser parser([&](std::string_view data) { events.emplace_back(data); });
    for (size_t at = 0; at < stream.size(); at += piece) {
      ASSERT_TRUE(parser.Feed(std::string_view(stream).substr(at, piece)).ok());
    }
    EXPECT_EQ(events, want) << "pieces of " << piece;
  }
}

TEST(SseParser, RefusesALineWithoutEnd) {
  SseParser parser([](std::string_view) {});
  EXPECT_EQ(parser.Feed(std::string(2 << 20, 'x')).code(), StatusCode::kResourceExhausted);
}

TEST(ParseChunk, ReadsCompletionsChatsAndUsage) {
  auto chunk = ParseChunk(R"({"choices":[{"index":0,"text":"hi","finish_reason":null}]})");
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->text, "hi");
  EXPECT_EQ(chunk->finish_reason, "");
  chunk = ParseChunk(R"({"choices":[{"delta":{"content":"hi"},"finish_reason":"length"}]})");
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->text, "hi");
  EXPECT_EQ(chunk->finish_reason, "length");
  chunk = ParseChunk(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}})");
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->text, "");
  EXPECT_EQ(chunk->completion_tokens, 9);
  EXPECT_EQ(chunk->prompt_tokens, 3);
}

TEST(ParseChunk, TellsErrorsAndNonsenseApart) {
  EXPECT_EQ(ParseChunk(R"({"error":{"message":"worker lost"}})")->error, "worker lost");
  EXPECT_FALSE(ParseChunk("{").ok());
  EXPECT_FALSE(ParseChunk("[]").ok());
  EXPECT_FALSE(ParseChunk("{}").ok());
}

TEST(ErrorMessage, FindsTheMessageInTheBody) {
  EXPECT_EQ(ErrorMessage(R"({"error":{"message":"queue full","type":"x"}})"), "queue full");
  EXPECT_EQ(ErrorMessage("<html>"), "<html>");
}

}  // namespace
}  // namespace janus::cli
