#include "hub/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <optional>

#include "tests/support/temp_folder.h"

namespace janus::hub {
namespace {

const auto kNever = [] { FAIL() << "no other holds it"; };

TEST(FileLock, WaitsUntilTheOtherReleasesIt) {
  const TempFolder folder;
  const std::string path = folder.path() + "/lock";
  std::optional<FileLock> first = *FileLock::Take(path, kNever, {});
  bool was_released = false;
  // The lock is released once the other waits for it.
  const Result<FileLock> second = FileLock::Take(path,
                                                 [&] {
                                                   was_released = true;
                                                   first.reset();
                                                 },
                                                 {});
  EXPECT_TRUE(second.ok());
  EXPECT_TRUE(was_released);
}

TEST(FileLock, EndsByItsStopToken) {
  const TempFolder folder;
  const std::string path = folder.path() + "/lock";
  const Result<FileLock> first = FileLock::Take(path, kNever, {});
  ASSERT_TRUE(first.ok());
  std::stop_source stop;
  const Result<FileLock> second = FileLock::Take(
      path, [&] { stop.request_stop(); }, stop.get_token());
  EXPECT_EQ(second.status().code(), StatusCode::kCancelled);
}

// The official client's lock may remove its file when it releases it.
TEST(FileLock, IsOfTheFileThatHasThePathNow) {
  const TempFolder folder;
  const std::string path = folder.path() + "/lock";
  const Fd other(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const Result<FileLock> lock = FileLock::Take(path,
                                               [&] {
                                                 unlink(path.c_str());
                                                 flock(other.get(), LOCK_UN);
                                               },
                                               {});
  ASSERT_TRUE(lock.ok());
  const Fd third(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(third) << "the file was made again";
  EXPECT_EQ(flock(third.get(), LOCK_EX | LOCK_NB), -1);
}

TEST(FileLock, SaysThatItsFileCannotBeMade) {
  EXPECT_EQ(FileLock::Take("/none/lock", kNever, {}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace janus::hub
