// Vocabularies in the format of tiktoken: what is refused, and long texts. golden_test.cc compares
// ids with tiktoken's own.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "common/read_file.h"
#include "dataplane/text/model_text.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace janus::text {
namespace {

const std::string kFolder = "/tests/golden/tokenizer_tiktoken";

class TiktokenTest : public testing::Test {
 protected:
  std::string ranks_ = ReadFile(test::SourceDir() + kFolder + "/tiktoken.model").value();
  std::string config_ = ReadFile(test::SourceDir() + kFolder + "/tokenizer_config.json").value();

  std::string Refusal() const {
    const auto got = Tokenizer::FromTiktoken(ranks_, config_, "a.model");
    EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument);
    return std::string(got.status().message());
  }
  void Replace(std::string& text, const std::string& from, const std::string& to) {
    ASSERT_TRUE(Contains(text, from));
    text.replace(text.find(from), from.size(), to);
  }
};

TEST_F(TiktokenTest, BrokenLinesAreNamed) {
  const std::string whole = ranks_;
  const std::map<std::string, std::string> kLines = {
      {"AA==", "line 1: want '<bytes in base64> <rank>'"},
      {"A 0", "line 1: the first word is not base64"},
      {"AA== x", "line 1: the rank is not a number"},
      {"AA== -1", "line 1: the rank is not a number"},
      {" 0", "line 1: the token is empty or occurs twice"},
      {"AQ== 0", "line 2: the token is empty or occurs twice"},
      {"AA== 1", "line 2: the rank occurs twice"},
      {"AA== 512", "no token has the rank 0"},
      {"AAA= 0", "want a token for each of the 256 bytes"},
  };
  for (const auto& [line, message] : kLines) {
    ranks_ = whole;
    Replace(ranks_, "AA== 0\n", line + "\n");
    EXPECT_TRUE(Contains(Refusal(), "a.model: " + message)) << line << ": " << Refusal();
  }
  ranks_.clear();
  EXPECT_TRUE(Contains(Refusal(), "want a token for each of the 256 bytes"));
}

TEST_F(TiktokenTest, VocabulariesWithWordsOfOtherModelsAreRefused) {
  Replace(config_, "tokenization_kimi", "tokenization_qwen");
  EXPECT_TRUE(Contains(Refusal(), "tokenization_qwen.TikTokenTokenizer"));
  EXPECT_TRUE(Contains(Refusal(), "convert the vocabulary to a tokenizer.json"));
  config_ = "{}";
  EXPECT_TRUE(Contains(Refusal(), "known for Kimi alone"));
  config_ = "[";
  EXPECT_TRUE(Contains(Refusal(), "tokenizer_config.json: not JSON"));
}

TEST_F(TiktokenTest, SpecialTokensOfTheSameNameAreRefused) {
  Replace(config_, "[EOS]", "[BOS]");
  EXPECT_TRUE(Contains(Refusal(), "the token 513 is empty or occurs twice"));
}

TEST_F(TiktokenTest, ReservedIdsAreTokensWithoutAName) {
  const auto tokenizer = Tokenizer::FromTiktoken(ranks_, config_, "a.model").value();
  EXPECT_EQ(tokenizer->id_limit(), 512 + 258);
  EXPECT_EQ(tokenizer->IdToToken(769).value(), "<|reserved_token_769|>");
  EXPECT_EQ(tokenizer->Encode("<|reserved_token_769|>", false).value(), std::vector<int32_t>{769});
  EXPECT_TRUE(tokenizer->IsSpecial(512));
  EXPECT_FALSE(tokenizer->IsSpecial(520)) << "a tool call's begin stays in the text";
}

// Kimi's program begins a new text after 25,000 letters or blanks in a row.
TEST_F(TiktokenTest, LongRunsAreCut) {
  const auto tokenizer = Tokenizer::FromTiktoken(ranks_, config_, "a.model").value();
  const auto ids = [&](const std::string& text) { return tokenizer->Encode(text, true).value(); };
  for (const char* letter : {"a", " ", "\u4f60"}) {
    std::string run, rest;
    for (int i = 0; i < 25'000; ++i) run += letter;
    for (int i = 0; i < 5'001; ++i) rest += letter;
    std::vector<int32_t> apart = ids(run);
    const std::vector<int32_t> behind = ids(rest);
    apart.insert(apart.end(), behind.begin(), behind.end());
    EXPECT_EQ(ids(run + rest), apart) << letter;
    EXPECT_EQ(tokenizer->Decode(apart, false).value(), run + rest);
  }
}

TEST_F(TiktokenTest, AFolderIsReadWhereThereIsNoTokenizerJson) {
  TempFolder folder;
  folder.Write("tiktoken.model", ranks_);
  EXPECT_EQ(Tokenizer::LoadOf(folder.path()).status().code(), StatusCode::kNotFound)
      << "without its special tokens";
  folder.Write("tokenizer_config.json", config_);
  EXPECT_TRUE(Tokenizer::LoadOf(folder.path()).value()->is_tiktoken());
  std::filesystem::remove(folder.path() + "/tiktoken.model");
  EXPECT_TRUE(Contains(Tokenizer::LoadOf(folder.path()).status().message(),
                       "has no tokenizer.json and no tiktoken.model"));
}

TEST_F(TiktokenTest, TemplatesSeeTheFieldsOfToolsInTheirOrder) {
  TempFolder folder;
  folder.Write("tiktoken.model", ranks_);
  folder.Write("tokenizer_config.json", config_);
  folder.Write("chat_template.jinja", "{{ tools | tojson }}");
  const ModelText text = LoadModelText(folder.path(), "").value();
  EXPECT_EQ(text.chat_template
                ->Render("[]", false, WallTime{}, "", R"([{"type":"f","a":{"c":1,"b":[2.5]}}])")
                .value(),
            R"([{"a": {"b": [2.5], "c": 1}, "type": "f"}])");
}

}  // namespace
}  // namespace janus::text
