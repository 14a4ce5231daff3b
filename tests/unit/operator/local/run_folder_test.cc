#include "operator/local/run_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace janus::control {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = "/tmp/jrun-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    base_ = path;
    environment_.runtime_dir = base_;
    environment_.temp_dir = "/tmp";
    environment_.state_home = base_ + "/state";
  }
  void TearDown() override { fs::remove_all(base_); }

  std::string base_;
  Environment environment_;
};

TEST_F(RunFolderTest, IsItsUsersAloneAndGoneAtTheEnd) {
  std::string path;
  {
    Result<RunFolder> folder = RunFolder::Create(environment_);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    path = folder->path();
    EXPECT_EQ(fs::path(path).parent_path(), base_);
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    std::ofstream(path + "/attention-0.sock") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RunFolderTest, RemovesWhatAKilledRunLeftAndNothingThatLives) {
  std::string dead;
  {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t run = fork();
    if (run == 0) {
      Result<RunFolder> folder = RunFolder::Create(environment_);
      const std::string path = folder.ok() ? folder->path() : "";
      [[maybe_unused]] const ssize_t written = write(fds[1], path.data(), path.size());
      _exit(0);  // without destructors, like a killed run
    }
    close(fds[1]);
    char path[256] = {};
    ASSERT_GT(read(fds[0], path, sizeof(path) - 1), 0);
    close(fds[0]);
    waitpid(run, nullptr, 0);
    dead = path;
  }
  ASSERT_TRUE(fs::exists(dead));
  fs::create_directories(base_ + "/other-folder");
  // Foreign data under one of our names, without our lock or with a lock of another program.
  const std::string data = base_ + "/janus-run-weight";
  fs::create_directories(data);
  std::ofstream(data + "/weights.bin") << "precious";
  const std::string locked = base_ + "/janus-run-locked";
  fs::create_directories(locked);
  std::ofstream(locked + "/lock") << "another program's";
  std::ofstream(dead + "/note") << "put there by hand";
  for (const std::string& folder : {data, locked}) {
    const utimbuf long_ago = {1000, 1000};
    ASSERT_EQ(utime(folder.c_str(), &long_ago), 0);
  }

  Result<RunFolder> living = RunFolder::Create(environment_);
  ASSERT_TRUE(living.ok());
  EXPECT_FALSE(fs::exists(dead + "/lock"));
  EXPECT_TRUE(fs::exists(dead + "/note")) << "a file that no run made was removed";
  fs::remove(dead + "/note");
  Result<RunFolder> second = RunFolder::Create(environment_);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(fs::exists(living->path())) << "a living run's folder was removed";
  EXPECT_TRUE(fs::exists(base_ + "/other-folder"));
  EXPECT_TRUE(fs::exists(data + "/weights.bin"));
  EXPECT_TRUE(fs::exists(locked + "/lock"));
}

TEST_F(RunFolderTest, PassesByAFolderWhosePathIsTooLong) {
  environment_.runtime_dir = base_ + "/" + std::string(100, 'x');
  fs::create_directories(environment_.runtime_dir);
  Result<RunFolder> folder = RunFolder::Create(environment_);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(fs::path(folder->path()).parent_path(), "/tmp");
  EXPECT_LE(folder->path().size() + 1 + RunFolder::kMaxSocketName, RunFolder::kMaxSocketPath);
}

TEST_F(RunFolderTest, LocksAServiceForOneRun) {
  Result<std::string> state = MakeStateFolder(environment_, "demo");
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  EXPECT_EQ(*state, base_ + "/state/janus/demo");
  std::optional<Result<FolderLock>> lock = FolderLock::Take(*state, "service demo");
  ASSERT_TRUE(lock->ok());
  const Status second = FolderLock::Take(*state, "service demo").status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(second.message(), "service demo is already running as process " +
                                  std::to_string(getpid()) +
                                  "; stop it first, or give this one another name");
  lock.reset();
  EXPECT_TRUE(FolderLock::Take(*state, "service demo").ok());
}

TEST_F(RunFolderTest, SaysWhichVariableNamesAnotherFolderForLogs) {
  environment_.state_home = "";
  EXPECT_NE(MakeStateFolder(environment_, "demo").status().message().find("set XDG_STATE_HOME"),
            std::string::npos);
  environment_.state_home = "/proc/nowhere";
  EXPECT_NE(MakeStateFolder(environment_, "demo").status().message().find("set XDG_STATE_HOME"),
            std::string::npos);
}

}  // namespace
}  // namespace janus::control
