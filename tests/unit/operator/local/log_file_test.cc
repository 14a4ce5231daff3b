#include "operator/local/log_file.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

std::string LastOf(std::string_view output) {
  LastWords words;
  words.Append(output);
  return words.Line();
}

TEST(LastWords, AreTheLastErrorBeforeAnythingElse) {
  EXPECT_EQ(LastOf("t error message=\"one\"\nt error message=\"two\"\nt warning message=\"w\"\n"
                   "t info message=\"stopped\"\nbye\n"),
            "t error message=\"two\"");
}

TEST(LastWords, AreTheLastWarningWhereNoErrorWasSaid) {
  EXPECT_EQ(LastOf("t warning message=\"w\"\nbye\nt info message=\"stopped\"\n"),
            "t warning message=\"w\"");
}

TEST(LastWords, AreNoLineThatTellsWhatWentWell) {
  EXPECT_EQ(LastOf("ready unix:/x\nt info message=\"serving\"\nt debug message=\"x\"\n"), "");
}

TEST(LastWords, AreWhatAProgramSaysThatDoesNotLog) {
  EXPECT_EQ(LastOf("janus-gateway: cannot listen\nt info message=\"serving\"\n\n"),
            "janus-gateway: cannot listen");
  EXPECT_EQ(LastOf("terminate called"), "terminate called") << "without a line feed";
}

TEST(LastWords, AreWhatASanitizerFoundAndNotItsRule) {
  EXPECT_EQ(LastOf("=================\n"), "");
  EXPECT_EQ(LastOf("=================\n==12==ERROR: AddressSanitizer: SEGV on address 0x0\n"
                   "    #0 0x1 in main\nSUMMARY: AddressSanitizer: SEGV x.cc:3 in main\n"
                   "==12==ABORTING\n"),
            "SUMMARY: AddressSanitizer: SEGV x.cc:3 in main");
}

TEST(LastWords, HoldTheReadyLinesAddress) {
  LastWords words;
  words.Append("janus-worker ready unix:/x.sock\nready later\n");
  EXPECT_EQ(words.ready(), "unix:/x.sock");
}

}  // namespace
}  // namespace janus::control
