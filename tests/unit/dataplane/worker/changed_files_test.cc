#include "dataplane/worker/changed_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "dataplane/model/mapped_file.h"
#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

TEST(WatchMappedFiles, TellsOfTheFirstChange) {
  const TempFolder folder;
  folder.Write("weights", "abcd");
  const std::string path = folder.path() + "/weights";
  const auto file = *MappedFile::Map(*OpenedFile::Open(path));
  std::promise<Status> told;
  const std::jthread watching =
      WatchMappedFiles([&](const Status& changed) { told.set_value(changed); }, Seconds(0.001));
  ASSERT_EQ(truncate(path.c_str(), 1), 0);
  EXPECT_TRUE(Contains(told.get_future().get().message(), path + ": has changed"));
}

TEST(WatchMappedFiles, EndsWithItsObject) {
  int told = 0;
  {
    const std::jthread watching = WatchMappedFiles([&](const Status&) { ++told; });
  }
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace janus::dataplane
