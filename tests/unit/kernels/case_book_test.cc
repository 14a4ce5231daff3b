#include "tests/support/gpu_cases/case_book.h"

#include <gtest/gtest.h>

#include <sstream>

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

TEST_F(CaseBookTest, ALineThatWasCutShortIsNone) {
  CaseBook(path_).Write("{\"begins\": \"S.Whole\"}\n{\"case\": \"S.Wh");
  EXPECT_EQ(Filter("*", true), "S.Whole");
}

TEST(CaseBook, SaysWhereItCannotBeWritten) {
  EXPECT_FALSE(CaseBook("/no/such/folder/results").ok());
}

}  // namespace
}  // namespace janus::kernels
