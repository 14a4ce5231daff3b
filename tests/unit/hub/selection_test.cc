#include "hub/selection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::hub {
namespace {

Listing WithNames(const std::vector<std::string>& names) {
  Listing out;
  for (const std::string& name : names) out.files.push_back({name, 1, std::string(40, '1'), ""});
  std::ranges::sort(out.files, {}, &RemoteFile::name);
  return out;
}

TEST(Selection, TakesWhatAServerReadsAndNoPrograms) {
  const auto files = SmallFilesOf(
      WithNames({"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors",
                 "modeling_x.py", "pytorch_model.bin", "README.md", "training_args.bin"}));
  ASSERT_TRUE(files.ok());
  std::vector<std::string> names;
  for (const RemoteFile& file : *files) names.push_back(file.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"chat_template.jinja", "config.json", "tokenizer.json"}));
}

TEST(Selection, SaysWhatAModelWithoutSafetensorsHas) {
  const auto message = [](const std::vector<std::string>& names) {
    return SmallFilesOf(WithNames(names)).status().message();
  };
  EXPECT_TRUE(Contains(message({"config.json", "a.gguf", "b.bin", "c.bin"}),
                       "has only *.bin, *.gguf; only safetensors are served"));
  EXPECT_TRUE(Contains(message({"config.json"}), "has no weights"));
  EXPECT_TRUE(Contains(message({"model.safetensors"}), "has no config.json"));
  EXPECT_EQ(message({"config.json", "model.safetensors.index.json"}), "");
}

TEST(Selection, RefusesASmallFileThatIsLarge) {
  Listing listing = WithNames({"config.json", "model.safetensors"});
  listing.files[0].size = kMaxSmallFileBytes + 1;
  EXPECT_EQ(SmallFilesOf(listing).status().code(), StatusCode::kInvalidArgument);
}

TEST(Selection, ReadsEachShardOfAnIndexOnce) {
  const auto names = ParseShardIndex(
      R"({"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}})");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
}

TEST(Selection, RefusesAnIndexThatLeavesTheFolder) {
  for (const std::string json :
       {"", "{}", "[]", R"({"weight_map": []})", R"({"weight_map": {}})",
        R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "../x.safetensors"}})",
        R"({"weight_map": {"a": "/x.safetensors"}})", R"({"weight_map": {"a": "b/x.safetensors"}})",
        R"({"weight_map": {"a": "x.bin"}})"}) {
    EXPECT_EQ(ParseShardIndex(json).status().code(), StatusCode::kInvalidArgument) << json;
  }
}

TEST(Selection, NamesWhatAFolderLacks) {
  const TempFolder folder;
  using Names = std::vector<std::string>;
  EXPECT_EQ(MissingFiles(folder.path()),
            (Names{"config.json", "tokenizer.json", "model.safetensors"}));
  folder.Write("config.json", "{}");
  folder.Write("tokenizer.json", "{}");
  folder.Write("model.safetensors", "");
  EXPECT_EQ(MissingFiles(folder.path()), Names{});
  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  folder.Write("2.safetensors", "");
  EXPECT_EQ(MissingFiles(folder.path()), Names{"1.safetensors"});
  folder.Write("model.safetensors.index.json", "{");
  EXPECT_EQ(MissingFiles(folder.path()), Names{"model.safetensors.index.json"});
  folder.Write("model.safetensors.index.json", R"({"weight_map": {"a": "2.safetensors"}})");
  std::filesystem::remove(folder.path() + "/tokenizer.json");
  EXPECT_EQ(MissingFiles(folder.path()), Names{"tokenizer.json"});
  folder.Write("tiktoken.model", "");
  EXPECT_EQ(MissingFiles(folder.path()), Names{});
  // A link to a blob that is not there yet.
  std::filesystem::remove(folder.path() + "/config.json");
  std::filesystem::create_symlink("../../blobs/x", folder.path() + "/config.json");
  EXPECT_EQ(MissingFiles(folder.path())[0], "config.json");
}

}  // namespace
}  // namespace janus::hub
