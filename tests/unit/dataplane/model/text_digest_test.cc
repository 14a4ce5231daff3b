#include "dataplane/model/text_digest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

TEST(TextDigest, TellsEveryFileOfTheTextApartAndNoOther) {
  TempFolder folder;
  folder.Write("chat_template.jinja", "a");
  EXPECT_EQ(*DigestText(folder.path()), "") << "no tokenizer";
  folder.Write("tokenizer.json", "{}");
  const std::string first = *DigestText(folder.path());
  EXPECT_EQ(first.size(), 16u);
  folder.Write("config.json", "{}");
  folder.Write("model.safetensors", "x");
  EXPECT_EQ(*DigestText(folder.path()), first);
  std::string last = first;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "generation_config.json"}) {
    folder.Write(name, "b");
    const std::string next = *DigestText(folder.path());
    EXPECT_NE(next, last) << name;
    last = next;
  }
  // An empty file differs from an absent one, and from a longer previous file.
  TempFolder other;
  other.Write("tokenizer.json", "{}");
  other.Write("chat_template.jinja", "a");
  EXPECT_EQ(*DigestText(other.path()), first);
  other.Write("tokenizer_config.json", "");
  EXPECT_NE(*DigestText(other.path()), first);
}

TEST(TextDigest, KnowsVocabulariesInTheFormatOfTiktoken) {
  TempFolder folder;
  folder.Write("tiktoken.model", "AA== 0");
  const std::string first = *DigestText(folder.path());
  EXPECT_EQ(first.size(), 16u);
  folder.Write("tiktoken.model", "AA== 1");
  EXPECT_NE(*DigestText(folder.path()), first);
}

TEST(TextDigest, AFileThatCannotBeReadIsNamed) {
  TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/tokenizer.json");
  const Result<std::string> digest = DigestText(folder.path());
  ASSERT_FALSE(digest.ok());
  EXPECT_NE(digest.status().message().find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace janus::dataplane
