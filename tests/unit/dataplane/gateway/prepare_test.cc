#include "dataplane/gateway/prepare.h"

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

class PrepareTest : public testing::Test {
 protected:
  PrepareTest() {
    model_.name = "m";
    model_.text.tokenizer = text::SmallTokenizer();
    model_.defaults.eos_tokens = {10};
  }
  RequestResult<PreparedRequest> Text(const std::string& more,
                                      Endpoint e = Endpoint::kCompletions) {
    return Prepare(model_, {.max_context_tokens = 100, .vocabulary_size = 11}, e,
                   R"({"model": "m", )" + more + "}", 77, WallTime{});
  }
  GenerationRequest One(const std::string& more) {
    RequestResult<PreparedRequest> got = Text(more);
    if (const auto* error = std::get_if<RequestError>(&got)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    return std::get<PreparedRequest>(got).generations.at(0);
  }
  RequestError Error(const std::string& more, Endpoint e = Endpoint::kCompletions) {
    RequestResult<PreparedRequest> got = Text(more, e);
    return std::holds_alternative<RequestError>(got) ? std::get<RequestError>(got) : RequestError{};
  }
  ServedModel model_;
};

TEST_F(PrepareTest, TokenizesTextWithSpecialTokensAndTakesIdsAsTheyAre) {
  EXPECT_EQ(One(R"("prompt": "a b")").prompt, (std::vector<int32_t>{10, 0, 1}));
  EXPECT_EQ(One(R"("prompt": "a b", "add_special_tokens": false)").prompt,
            (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(One(R"("prompt": [0, 9])").prompt, (std::vector<int32_t>{0, 9}));
}

TEST_F(PrepareTest, TakesOpenAisDefaultsWhereTheCheckpointIsSilent) {
  const GenerationRequest got = One(R"("prompt": "a")");
  EXPECT_EQ(got.temperature, 1);
  EXPECT_EQ(got.top_k, 0);
  EXPECT_EQ(got.top_p, 1);
  EXPECT_EQ(got.max_tokens, 16);
  EXPECT_EQ(got.seed, 77u);
  EXPECT_EQ(got.stop_tokens, (std::vector<int32_t>{10}));
  EXPECT_EQ(got.logprobs, -1);
}

TEST_F(PrepareTest, PutsTheRequestBeforeTheCheckpointBeforeTheDefault) {
  model_.defaults.temperature = 0.5;
  model_.defaults.top_k = 7;
  EXPECT_EQ(One(R"("prompt": "a")").temperature, 0.5);
  EXPECT_EQ(One(R"("prompt": "a", "temperature": 0)").temperature, 0);
  EXPECT_EQ(One(R"("prompt": "a")").top_k, 7);
  EXPECT_EQ(One(R"("prompt": "a", "top_k": -1)").top_k, 0);
  EXPECT_EQ(One(R"("prompt": "a", "seed": 3)").seed, 3u);
}

TEST_F(PrepareTest, IgnoresOnlyTheModelsOwnEnds) {
  const GenerationRequest got = One(R"("prompt": "a", "ignore_eos": true)");
  EXPECT_TRUE(got.ignore_eos && got.stop_tokens.empty());
  const GenerationRequest with = One(R"("prompt": "a", "ignore_eos": true, "stop_token_ids": [4])");
  EXPECT_FALSE(with.ignore_eos);
  EXPECT_EQ(with.stop_tokens, (std::vector<int32_t>{4}));
}

TEST_F(PrepareTest, BoundsPromptAndAnswerByTheContext) {
  EXPECT_EQ(One(R"("prompt": [0, 0], "max_tokens": 98)").max_tokens, 98);
  RequestError error = Error(R"("prompt": [0, 0], "max_tokens": 99)");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "max_tokens");
  EXPECT_TRUE(Contains(error.message, "at most 98"));
  std::string ids = "0";
  for (int i = 1; i < 100; ++i) ids += ", 0";
  error = Error(R"("prompt": [)" + ids + "]");
  EXPECT_EQ(error.param, "prompt");
  EXPECT_TRUE(Contains(error.message, "the prompt has 100: shorten it"));
}

TEST_F(PrepareTest, RefusesEmptyPromptsAndForeignTokens) {
  EXPECT_TRUE(Contains(Error(R"("prompt": "", "add_special_tokens": false)").message, "no token"));
  EXPECT_TRUE(Contains(Error(R"("prompt": [11])").message, "token id 11 is not below"));
}

TEST_F(PrepareTest, PointsAChatWithoutTemplateElsewhere) {
  const RequestError error =
      Error(R"("messages": [{"role": "user", "content": "a"}])", Endpoint::kChat);
  EXPECT_EQ(error.http_status, 400);
  EXPECT_TRUE(Contains(error.message, "/v1/completions"));
  EXPECT_TRUE(Contains(error.message, "--chat-template FILE"));
}

TEST_F(PrepareTest, RendersAndTokenizesChatsWithoutFurtherSpecialTokens) {
  model_.text.chat_template.emplace(
      text::ChatTemplate::Compile("<s>{{ messages[0].content }}", "test", {}).value());
  const auto got = Text(R"("messages": [{"role": "user", "content": "a b"}])", Endpoint::kChat);
  const auto& generation = std::get<PreparedRequest>(got).generations.at(0);
  EXPECT_EQ(generation.prompt, (std::vector<int32_t>{10, 0, 1}));
  EXPECT_EQ(generation.max_tokens, 97);  // a chat may fill the context
}

}  // namespace
}  // namespace janus::gateway
