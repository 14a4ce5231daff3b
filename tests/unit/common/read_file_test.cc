#include "common/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temp_folder.h"

namespace janus {
namespace {

class ReadFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  TempFolder folder_;
};

TEST_F(ReadFileTest, GivesEveryByte) {
  for (const size_t bytes : {0u, 1u, 4095u, 4096u, 4097u, 100'000u}) {
    std::string text(bytes, 'x');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251);
    EXPECT_EQ(*ReadFile(Write("a", text)), text) << bytes;
  }
}

TEST_F(ReadFileTest, ReadsFilesThatDoNotTellTheirSize) {
  const Result<std::string> text = ReadFile("/proc/self/status");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("VmRSS"), std::string::npos);
}

TEST_F(ReadFileTest, HoldsItsBound) {
  EXPECT_EQ(ReadFile(Write("a", "12345"), 5)->size(), 5u);
  const std::string path = Write("b", "123456");
  EXPECT_EQ(ReadFile(path, 5).status(), InvalidArgument(path + ": larger than 5 bytes"));
  const std::string large = Write("c", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(ReadFile(large, 1 << 20).status(), InvalidArgument(large + ": larger than 1 MiB"));
}

TEST_F(ReadFileTest, SaysWhatIsWrongWithThePath) {
  const std::string none = folder_.path() + "/none";
  EXPECT_EQ(ReadFile(none).status(), NotFound(none + ": No such file or directory"));
  EXPECT_EQ(ReadFile(folder_.path()).status(),
            InvalidArgument(folder_.path() + ": is a folder; want a file"));
  EXPECT_EQ(ReadFile("/dev/zero").status(), InvalidArgument("/dev/zero: not a regular file"));
}

TEST_F(ReadFileTest, TakesNoGitLfsPointerForTheFile) {
  const std::string path =
      Write("a", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n");
  EXPECT_EQ(ReadFile(path).status(), InvalidArgument(path + ": is a git-LFS pointer, not the file "
                                                            "itself; fetch it: git lfs pull"));
}

TEST_F(ReadFileTest, WaitsForNoPipeUnlessAPipeIsWanted) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(pipe).status(), InvalidArgument(pipe + ": not a regular file"));
  std::jthread writer([&] { std::ofstream(pipe) << "from a pipe"; });
  EXPECT_EQ(*ReadFileOrPipe(pipe, 100), "from a pipe");
}

}  // namespace
}  // namespace janus
