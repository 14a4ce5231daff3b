#include "bench/sections.h"

#include <gtest/gtest.h>

namespace janus::bench {
namespace {

// Three sections that record what was printed. A row of the second ends in an error.
struct Bench {
  std::vector<std::string> printed;
  std::vector<Section> sections = {
      Sound("first", [this] { printed.emplace_back("first"); }),
      {"second", [this] { return printed.emplace_back("second").empty(); }},
      Sound("third", [this] { printed.emplace_back("third"); }),
  };

  int Print(const std::vector<std::string>& asked) {
    return PrintSections("some_bench", asked, sections);
  }
};

TEST(PrintSections, WithoutANamePrintsAllOfThem) {
  Bench bench;
  bench.Print({});
  EXPECT_EQ(bench.printed, (std::vector<std::string>{"first", "second", "third"}));
}

TEST(PrintSections, PrintsWhatIsAskedForInTheOrderOfTheBench) {
  Bench bench;
  EXPECT_EQ(bench.Print({"third", "first"}), 0);
  EXPECT_EQ(bench.printed, (std::vector<std::string>{"first", "third"}));
}

TEST(PrintSections, SaysWhichThereAreWhereANameIsMisspelt) {
  Bench bench;
  testing::internal::CaptureStderr();
  EXPECT_EQ(bench.Print({"first", "thrid"}), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "some_bench: no section 'thrid'; there are first second third\n");
  EXPECT_TRUE(bench.printed.empty()) << "a run of hours is not begun for half of what was asked";
}

TEST(PrintSections, ARowThatEndsInAnErrorIsAnExitStatusAndHidesNoOtherSection) {
  Bench bench;
  EXPECT_EQ(bench.Print({}), 1);
  EXPECT_EQ(bench.printed.size(), 3u);
  EXPECT_EQ(bench.Print({"first"}), 0);
}

}  // namespace
}  // namespace janus::bench
