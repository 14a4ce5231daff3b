#include "dataplane/model/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "dataplane/model/safetensors.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/contains.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

constexpr size_t kBytes = size_t{4} << 12;

// Sets the time of modification back, because a write within the same tick of the kernel's clock
// would not change it.
void MakeOld(const std::string& path) {
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    folder_.Write("weights", std::string(kBytes, 'a'));
    MakeOld(path_);
  }
  std::unique_ptr<MappedFile> Map() { return *MappedFile::Map(*OpenedFile::Open(path_)); }
  void Overwrite(const std::string& path) {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out << "b";
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/weights";
};

TEST_F(MappedFileTest, AFileThatIsOverwrittenIsNamed) {
  const auto file = Map();
  EXPECT_TRUE(CheckMappedFiles().ok());
  Overwrite(path_);
  const Status changed = CheckMappedFiles();
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(changed.message(), path_ + ": has changed while its weights are in use (it "
                                                  "was written to); write a changed checkpoint"));
}

TEST_F(MappedFileTest, AFileThatIsTruncatedIsNamed) {
  {
    const auto file = Map();
    ASSERT_EQ(truncate(path_.c_str(), 1), 0);
    EXPECT_TRUE(Contains(CheckMappedFiles().message(), "(16384 bytes became 1)"));
  }
  EXPECT_TRUE(CheckMappedFiles().ok()) << "it is not mapped any more";
}

TEST_F(MappedFileTest, AFileThatIsReplacedByRenameStaysAsItWas) {
  const auto file = Map();
  folder_.Write("other", std::string(kBytes, 'b'));
  std::filesystem::rename(folder_.path() + "/other", path_);
  EXPECT_TRUE(CheckMappedFiles().ok());
  EXPECT_EQ(file->bytes()[kBytes - 1], std::byte{'a'});
  std::filesystem::remove(path_);
  EXPECT_TRUE(CheckMappedFiles().ok());
  EXPECT_EQ(file->bytes()[0], std::byte{'a'});
}

TEST_F(MappedFileTest, ReadingWhatWasTruncatedEndsTheProcessWithTheFilesName) {
  const auto read_all = [this] {
    const auto file = Map();
    ASSERT_EQ(truncate(path_.c_str(), 1), 0);
    [[maybe_unused]] const volatile std::byte last = file->bytes()[kBytes - 1];
  };
  EXPECT_EXIT(read_all(), testing::ExitedWithCode(1),
              "janus: " + path_ + ": cannot be read any more while its weights are in use");
}

TEST_F(MappedFileTest, OtherBusErrorsEndTheProcessAsBefore) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has its own handler";
  const auto read_other = [this] {
    const auto file = Map();  // installs the handler
    folder_.Write("other", std::string(kBytes, 'b'));
    const int fd = open((folder_.path() + "/other").c_str(), O_RDWR);
    const auto* const other =
        static_cast<const char*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0));
    ASSERT_EQ(ftruncate(fd, 1), 0);
    [[maybe_unused]] const volatile char last = other[kBytes - 1];
  };
  EXPECT_EXIT(read_other(), testing::KilledBySignal(SIGBUS), "");
}

// A checkpoint of two files, of which one is mapped when the folder changes.
class ChangedCheckpoint : public testing::Test {
 protected:
  ChangedCheckpoint() {
    FileTensors tensors;
    tensors["a"] = {"F32", {4}, std::string(16, '\0')};
    tensors["b"] = {"F32", {4}, std::string(16, '\0')};
    WriteSharded(folder_, tensors, 2);
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      MakeOld(file.path());
    }
    checkpoint_ = *Checkpoint::Open(folder_.path());
    shard_of_b_ = Checkpoint::Open(folder_.path()).value()->Find("b")->file;
    EXPECT_TRUE(checkpoint_->Find("a").ok());
  }

  const TempFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::string shard_of_b_;
};

TEST_F(ChangedCheckpoint, AShardThatIsReplacedBeforeItIsNeededIsStillTheOldOne) {
  const std::string bytes = SafetensorsBytes({{"b", {"F32", {4}, std::string(16, '\x3f')}}});
  folder_.Write("other", bytes);
  std::filesystem::rename(folder_.path() + "/other", shard_of_b_);
  const Result<StoredTensor> b = checkpoint_->Find("b");
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(b->bytes[0], std::byte{0});
}

TEST_F(ChangedCheckpoint, AShardThatIsOverwrittenBeforeItIsNeededIsRefused) {
  const std::string bytes = SafetensorsBytes({{"b", {"F32", {4}, std::string(16, '\x3f')}}});
  std::ofstream(shard_of_b_, std::ios::binary) << bytes;
  const Status refused = checkpoint_->Find("b").status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(refused.message(), shard_of_b_ + ": has changed"));
}

}  // namespace
}  // namespace janus::dataplane
