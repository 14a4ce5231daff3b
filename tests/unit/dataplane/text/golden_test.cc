// Compares tokenizer, detokenizer and chat template with the results of transformers for the same
// files; of a vocabulary in the format of tiktoken, with those of tiktoken.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/read_file.h"
#include "dataplane/text/detokenizer.h"
#include "dataplane/text/model_text.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"

namespace janus::text {
namespace {

using nlohmann::json;

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  GoldenTokenizer()
      : dir_(test::SourceDir() + "/tests/golden/" + GetParam()),
        text_(LoadModelText(dir_, "").value()),
        cases_(json::parse(ReadFile(dir_ + "/cases.json").value())) {}

  std::string dir_;
  ModelText text_;
  json cases_;
};

TEST_P(GoldenTokenizer, EncodesAsTransformers) {
  ASSERT_FALSE(cases_["encode"].empty());
  for (const json& c : cases_["encode"]) {
    const auto ids = text_.tokenizer->Encode(c["text"].get<std::string>(), c["add_special_tokens"]);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(*ids, c["ids"].get<std::vector<int32_t>>()) << c["text"];
  }
}

TEST_P(GoldenTokenizer, DecodesAsTransformers) {
  ASSERT_FALSE(cases_["decode"].empty());
  for (const json& c : cases_["decode"]) {
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(text_.tokenizer->Decode(ids, c["skip_special_tokens"]).value(),
              c["text"].get<std::string>());
  }
}

TEST_P(GoldenTokenizer, StreamsTheSameTextInWholeCharacters) {
  for (const json& c : cases_["decode"]) {
    const auto whole = c["text"].get<std::string>();
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    Detokenizer detokenizer =
        Detokenizer::Create(*text_.tokenizer, c["skip_special_tokens"]).value();
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = detokenizer.Push(std::span(&id, 1)).value();
      // A U+FFFD in a piece is also in the whole decoded text, at the same place.
      EXPECT_TRUE(whole.find("\uFFFD") != std::string::npos ||
                  piece.find("\uFFFD") == std::string::npos)
          << piece;
      EXPECT_NO_THROW(json(piece).dump()) << "not UTF-8";
      streamed += piece;
    }
    streamed += detokenizer.Flush().value();
    // Byte fallback turns a whole run with one broken character into U+FFFD. A stream has already
    // returned the characters before it.
    const bool all_tokens = ids.size() > 300;
    if (!all_tokens) {
      EXPECT_EQ(streamed, whole);
    }
  }
}

TEST_P(GoldenTokenizer, RendersChatsAsTransformers) {
  ASSERT_FALSE(cases_["chat"].empty());
  for (const json& c : cases_["chat"]) {
    const auto got =
        text_.chat_template->Render(c["messages"].dump(), c["add_generation_prompt"], WallTime{});
    if (c.contains("error")) {
      ASSERT_FALSE(got.ok()) << c;
      EXPECT_TRUE(Contains(got.status().message(), c["error"].get<std::string>()));
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(*got, c["text"].get<std::string>());
    EXPECT_EQ(text_.tokenizer->Encode(*got, false).value(), c["ids"].get<std::vector<int32_t>>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer,
                         testing::Values("tokenizer", "tokenizer_byte_fallback", "tokenizer_o200k",
                                         "tokenizer_tiktoken"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::text
