#include "tests/support/gpu_cases/case_book.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/support/gpu_cases/book_end.h"
#include "tests/support/temp_folder.h"

namespace janus::kernels {
namespace {

class CaseBookTest : public testing::Test {
 protected:
  std::string Filter(const std::string& filter, bool again = false) const {
    return CaseBook(path_).FilterOf(filter, again);
  }
  void Begin(const std::string& name) const { CaseBook(path_).Begin(name); }
  void End(const std::string& name, bool passed, bool lost = false) const {
    CaseBook(path_).End(name, passed, lost, 7);
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/results";
};

TEST_F(CaseBookTest, OfNothingIsTheFilterItself) {
  EXPECT_EQ(Filter("A.*-B.*"), "A.*-B.*");
  EXPECT_EQ(Filter("*", true), "-*");
  CaseBook(path_).Write("{\"device\": \"x\"}");
  EXPECT_EQ(Filter("*"), "*");
}

TEST_F(CaseBookTest, WhatEndedIsNotRunAgain) {
  Begin("S.Passed");
  End("S.Passed", true);
  Begin("S/F.Failed/1");
  End("S/F.Failed/1", false);
  EXPECT_EQ(Filter("*"), "*-S.Passed:S/F.Failed/1");
  EXPECT_EQ(Filter("*-X.*"), "*-X.*:S.Passed:S/F.Failed/1");
  EXPECT_EQ(Filter("*", true), "-*");
}

TEST_F(CaseBookTest, WhatWasCutIsRunOnceMoreBehindTheOthers) {
  Begin("S.Cut");
  Begin("S.Next");
  End("S.Next", true);
  EXPECT_EQ(Filter("*"), "*-S.Cut:S.Next");
  EXPECT_EQ(Filter("*", true), "S.Cut");
  Begin("S.Cut");
  EXPECT_EQ(Filter("*", true), "-*") << "it hangs";
  EXPECT_EQ(Filter("*"), "*-S.Cut:S.Next");
}

TEST_F(CaseBookTest, ACaseThatLosesTheGpuDidNotPass) {
  Begin("S.Lost");
  End("S.Lost", true, true);
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str(),
            "{\"begins\": \"S.Lost\"}\n"
            "{\"case\": \"S.Lost\", \"passed\": false, \"lost\": true, \"ms\": 7}\n");
  EXPECT_EQ(Filter("*", true), "-*");
}

TEST_F(CaseBookTest, ACaseThatWasSkippedSaysWhyAndDidNotFail) {
  CaseBook(path_).End("S.Skipped", true, false, 7, "no \"wgmma\"\nhere \\");
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str(),
            "{\"case\": \"S.Skipped\", \"passed\": true, "
            "\"skipped\": \"no \\\"wgmma\\\" here \\\\\", \"ms\": 7}\n");
  EXPECT_EQ(Filter("*"), "*-S.Skipped");
}

// In a separate process, because there this case is skipped or fails.
TEST_F(CaseBookTest, WhatGoogleTestSaysOfACaseIsBooked) {
  const auto ends = [&](auto ask) {
    ask();
    CaseBook book(path_);
    BookEnd(book, *testing::UnitTest::GetInstance()->current_test_info(), false);
    std::_Exit(0);
  };
  const auto begins_with = [&](const std::string& fields) {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    std::filesystem::remove(path_);
    const std::string name = "CaseBookTest.WhatGoogleTestSaysOfACaseIsBooked";
    return text.str().starts_with("{\"case\": \"" + name + "\", " + fields);
  };
  const testing::ExitedWithCode well(0);
  EXPECT_EXIT(ends([] {}), well, "");
  EXPECT_TRUE(begins_with("\"passed\": true, \"ms\""));
  EXPECT_EXIT(ends([] { GTEST_SKIP() << "no wgmma"; }), well, "");
  EXPECT_TRUE(begins_with("\"passed\": true, \"skipped\": \"no wgmma\""));
  EXPECT_EXIT(ends([] { GTEST_SKIP(); }), well, "");
  EXPECT_TRUE(begins_with("\"passed\": true, \"skipped\": \"skipped\""));
  EXPECT_EXIT(ends([] { ADD_FAILURE(); }), well, "");
  EXPECT_TRUE(begins_with("\"passed\": false, \"ms\""));
}

TEST_F(CaseBookTest, ALineThatWasCutShortIsNone) {
  CaseBook(path_).Write("{\"begins\": \"S.Whole\"}\n{\"case\": \"S.Wh");
  EXPECT_EQ(Filter("*", true), "S.Whole");
}

TEST(CaseBook, SaysWhereItCannotBeWritten) {
  EXPECT_FALSE(CaseBook("/no/such/folder/results").ok());
}

}  // namespace
}  // namespace janus::kernels
