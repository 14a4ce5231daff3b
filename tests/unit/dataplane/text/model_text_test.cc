#include "dataplane/text/model_text.h"

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::text {
namespace {

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() { Write("tokenizer.json", kSmallTokenizer); }

  std::string Write(const std::string& name, const std::string& text) {
    folder_.Write(name, text);
    return folder_.path() + "/" + name;
  }
  std::string Greeting(const Result<ModelText>& text) {
    if (!text.ok()) return text.status().ToString();
    if (!text->chat_template) return "none";
    return text->chat_template->Render("[]", true, WallTime{}).value();
  }

  const TempFolder folder_;
};

TEST_F(ModelFolder, NeedsOnlyATokenizer) {
  const auto text = LoadModelText(folder_.path(), "");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_FALSE(text->chat_template.has_value());
  EXPECT_TRUE(text->config.special_tokens.empty());
}

TEST_F(ModelFolder, ReadsSpecialTokensInBothForms) {
  Write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>",
            "pad_token": null, "add_bos_token": true, "chat_template": "{{ bos_token }}!"})");
  const auto text = LoadModelText(folder_.path(), "");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->config.special_tokens,
            (std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  EXPECT_EQ(Greeting(text), "<s>!");
}

TEST_F(ModelFolder, TakesTheTemplateOfTheFlagThenTheFileThenTheConfig) {
  EXPECT_EQ(Greeting(LoadModelText(folder_.path(), "")), "none");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(Greeting(LoadModelText(folder_.path(), "")), "config");
  Write("chat_template.jinja", "jinja");
  EXPECT_EQ(Greeting(LoadModelText(folder_.path(), "")), "jinja");
  EXPECT_EQ(Greeting(LoadModelText(folder_.path(), Write("mine", "flag"))), "flag");
}

TEST_F(ModelFolder, TakesTheDefaultOfNamedTemplates) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                                       {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(Greeting(LoadModelText(folder_.path(), "")), "plain");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}]})");
  EXPECT_TRUE(Contains(Greeting(LoadModelText(folder_.path(), "")), "only 'tool_use'"));
}

TEST_F(ModelFolder, NamesTheBrokenFile) {
  Write("tokenizer_config.json", "{");
  EXPECT_TRUE(
      Contains(Greeting(LoadModelText(folder_.path(), "")), "tokenizer_config.json: not JSON"));
  Write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_TRUE(
      Contains(Greeting(LoadModelText(folder_.path(), "")), "chat_template: want a string"));
  Write("tokenizer_config.json", R"({"bos_token": 3})");
  EXPECT_TRUE(Contains(Greeting(LoadModelText(folder_.path(), "")), "bos_token"));
  Write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_TRUE(Contains(Greeting(LoadModelText(folder_.path(), "")),
                       "tokenizer_config.json: chat_template"));
  EXPECT_TRUE(Contains(Greeting(LoadModelText(folder_.path(), "/no/such/file")), "/no/such/file"));
  Write("tokenizer.json", "nonsense");
  EXPECT_TRUE(
      Contains(Greeting(LoadModelText(folder_.path(), "")), "tokenizer.json: not a tokenizer"));
}

TEST_F(ModelFolder, NamesAFolderWithoutTokenizer) {
  EXPECT_TRUE(Contains(Greeting(LoadModelText(folder_.path() + "/none", "")),
                       "none has no tokenizer.json and no tiktoken.model"));
  EXPECT_TRUE(Contains(Greeting(LoadModelText("/etc/hostname", "")),
                       "/etc/hostname has no tokenizer.json"));
}

}  // namespace
}  // namespace janus::text
