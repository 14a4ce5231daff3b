#include "common/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <string>

namespace janus {
namespace {

// Reads the logged lines back from the descriptor, without their time.
class LogTest : public ::testing::Test {
 protected:
  LogTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~LogTest() override {
    for (const int end : ends_) close(end);
  }

  Logger Of(LogFormat format, LogLevel least = LogLevel::kInfo) const {
    return Logger(ends_[1], least, format);
  }
  // All logged text; the time of a line (24 characters of RFC 3339) is shown as T.
  std::string Written() {
    std::string out(4096, '\0');
    out.resize(static_cast<size_t>(read(ends_[0], out.data(), out.size())));
    const size_t time = out.find("20");
    EXPECT_EQ(out[time + 23], 'Z') << out;
    return out.replace(time, 24, "T");
  }

  std::array<int, 2> ends_{};
};

TEST_F(LogTest, TextIsOneLineWithTheFieldsOfWithFirst) {
  const Logger log = Of(LogFormat::kText).With({{"service", "shop/chat"}});
  log.Info("a pod is lost", {{"pod", "chat-experts-0"}, {"seconds", 60}});
  EXPECT_EQ(Written(),
            "T info message=\"a pod is lost\" service=shop/chat pod=chat-experts-0 seconds=60\n");
}

TEST_F(LogTest, TextQuotesWhatWouldBeTwoFields) {
  Of(LogFormat::kText).Error("no", {{"why", "a b"}, {"what", ""}, {"how", "x\ny"}});
  EXPECT_EQ(Written(), "T error message=\"no\" why=\"a b\" what=\"\" how=\"x\\ny\"\n");
}

TEST_F(LogTest, JsonIsOneObjectALineWithNumbersAsNumbers) {
  const Logger log = Of(LogFormat::kJson).With({{"service", "shop/chat"}});
  log.Warning("a \"pod\" is lost", {{"seconds", 60}, {"share", -0.5}, {"text", "60"}});
  EXPECT_EQ(Written(),
            R"({"time":"T","level":"warning","message":"a \"pod\" is lost","service":"shop/chat",)"
            R"("seconds":60,"share":-0.500000,"text":"60"})"
            "\n");
}

TEST_F(LogTest, JsonIsReadableWhateverTheFieldsHold) {
  Of(LogFormat::kJson)
      .Info("x", {{"why", "a\n\x01\xff\\b \u00e4"},
                  {"much", std::numeric_limits<double>::infinity()},
                  {"none", -std::numeric_limits<double>::quiet_NaN()}});
  std::string said = Written();
  EXPECT_TRUE(said.find(R"("none":"-nan")") != std::string::npos ||
              said.find(R"("none":"nan")") != std::string::npos)
      << said;
  said.resize(said.find(R"(,"none")"));
  EXPECT_EQ(said, R"({"time":"T","level":"info","message":"x","why":"a\u000a\u0001\ufffd\\b )"
                  "\u00e4"
                  R"(","much":"inf")");
}

TEST_F(LogTest, WhatIsBelowTheLeastLevelIsNotWritten) {
  const Logger log = Of(LogFormat::kText, LogLevel::kWarning);
  log.Info("not this");
  log.Warning("this");
  EXPECT_EQ(Written(), "T warning message=\"this\"\n");
}

}  // namespace
}  // namespace janus
