#include <gtest/gtest.h>

#include <fstream>

#include "common/read_file.h"
#include "dataplane/gateway/api/parameters.h"
#include "tests/support/paths.h"

// docs/openai-api.md: its table of parameters is printed from the rows that parse request bodies.
namespace janus {
namespace {

constexpr std::string_view kBegin = "<!-- parameters: printed from the code -->\n";
constexpr std::string_view kEnd = "<!-- end of parameters -->\n";

TEST(ParametersPage, ShowsTheParametersAsTheyAreRead) {
  const std::string page = ReadFile(test::SourceDir() + "/docs/openai-api.md").value();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string fresh =
      page.substr(0, begin + kBegin.size()) + gateway::ParameterTable() + page.substr(end);
  if (page == fresh) return;
  const std::string path = testing::TempDir() + "openai-api.md";
  std::ofstream(path) << fresh;
  ADD_FAILURE() << "docs/openai-api.md is older than dataplane/gateway/api/parameters.cc; cp "
                << path << " docs/openai-api.md";
}

TEST(ParametersPage, HasOneRowForEachParameterOfAnEndpoint) {
  for (const gateway::Parameter& one : gateway::Parameters()) {
    int rows = 0;
    for (const gateway::Parameter& other : gateway::Parameters()) {
      rows += other.name == one.name && (other.endpoints & one.endpoints) != 0 ? 1 : 0;
    }
    EXPECT_EQ(rows, 1) << one.name;
  }
}

}  // namespace
}  // namespace janus
