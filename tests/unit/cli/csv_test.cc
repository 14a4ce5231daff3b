#include "cli/csv.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace janus::cli {
namespace {

TEST(CsvReader, FindsColumnsByAnyOfTheirNames) {
  CsvReader csv("Timestamp, \"Request tokens\" ,x\r\n1.5,12,abc\r\n");
  EXPECT_EQ(csv.FindColumn({"arrival_s", "Timestamp"}), 0);
  EXPECT_EQ(csv.FindColumn({"Request tokens"}), 1);
  EXPECT_EQ(csv.FindColumn({"y"}), -1);
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Number(0), 1.5);
  EXPECT_EQ(csv.Text(2), "abc");
  EXPECT_EQ(csv.Number(2), std::nullopt);
  EXPECT_FALSE(csv.Next());
}

TEST(CsvReader, CountsTheFilesLinesThroughBlankOnes) {
  CsvReader csv("a\n\n 1\n\n\n2");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.line(), 3);
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.line(), 6);
  EXPECT_EQ(csv.row(), "2");
}

TEST(CsvReader, MissingFieldsAreEmpty) {
  CsvReader csv("a,b,c\n1\n");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Text(2), "");
  EXPECT_EQ(csv.Text(-1), "");
  EXPECT_EQ(csv.Number(1), std::nullopt);
}

TEST(CsvReader, AByteOrderMarkIsNoPartOfTheFirstName) {
  CsvReader csv(
      "\xef\xbb\xbf"
      "a,b\r\n1,2\r\n");
  EXPECT_EQ(csv.FindColumn({"a"}), 0);
  EXPECT_EQ(csv.header(), "a,b\r");
  ASSERT_TRUE(csv.Next());
  EXPECT_EQ(csv.Number(1), 2);
}

TEST(CsvReader, ATextWithoutHeaderHasNothing) {
  CsvReader csv("");
  EXPECT_EQ(csv.FindColumn({"a"}), -1);
  EXPECT_FALSE(csv.Next());
}

class PossiblyGzip : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("csv_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(PossiblyGzip, ReadsPlainAndPackedAlike) {
  std::ofstream(Path("plain.csv")) << "a,b\n1,2\n";
  gzFile packed = gzopen(Path("packed.csv.gz").c_str(), "wb");
  gzputs(packed, "a,b\n1,2\n");
  gzclose(packed);
  EXPECT_EQ(*ReadPossiblyGzip(Path("plain.csv")), "a,b\n1,2\n");
  EXPECT_EQ(*ReadPossiblyGzip(Path("packed.csv.gz")), "a,b\n1,2\n");
}

TEST_F(PossiblyGzip, SaysWhichFileIsMissingOrDamaged) {
  EXPECT_EQ(ReadPossiblyGzip(Path("none.csv")).status().code(), StatusCode::kNotFound);
  std::ofstream(Path("damaged.csv.gz"), std::ios::binary) << "\x1f\x8b\x08 not really";
  const Status status = ReadPossiblyGzip(Path("damaged.csv.gz")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("damaged.csv.gz"), std::string::npos) << status.message();
}

// If a file is cut at the end of a line, its text looks complete.
TEST_F(PossiblyGzip, SaysThatAFileIsCutShort) {
  std::string rows = "a,b\n";
  for (int i = 0; i < 20'000; ++i) rows += std::to_string(i * 7919 % 10'007) + ",2\n";
  gzFile packed = gzopen(Path("whole.csv.gz").c_str(), "wb");
  gzwrite(packed, rows.data(), static_cast<unsigned>(rows.size()));
  gzclose(packed);
  EXPECT_EQ(*ReadPossiblyGzip(Path("whole.csv.gz")), rows);
  const auto size = std::filesystem::file_size(Path("whole.csv.gz"));
  for (const uintmax_t left : {size - 1, size / 2, uintmax_t{11}}) {
    std::filesystem::copy_file(Path("whole.csv.gz"), Path("cut.csv.gz"),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(Path("cut.csv.gz"), left);
    EXPECT_EQ(
        ReadPossiblyGzip(Path("cut.csv.gz")).status().message(),
        Path("cut.csv.gz") + ": its gzip data ends too early; copy or download the file again")
        << left << " of " << size << " bytes";
  }
}

TEST_F(PossiblyGzip, SaysThatAFolderIsNoFile) {
  EXPECT_EQ(ReadPossiblyGzip(folder_.string()).status().message(),
            folder_.string() + ": is a folder; want a CSV file");
}

}  // namespace
}  // namespace janus::cli
