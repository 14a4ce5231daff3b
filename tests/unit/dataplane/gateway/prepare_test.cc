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
    return Prepare(
        model_, {.max_context_tokens = 100, .vocabulary_size = 11, .routed_width = routed_width_},
        e, R"({"model": "m", )" + more + "}", 77, WallTime{});
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
  int64_t routed_width_ = 0;
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
  // Client libraries match OpenAI's sentence.
  EXPECT_EQ(error.message,
            "This model's maximum context length is 100 tokens. However, the prompt has 100 "
            "tokens. Please shorten it.");
}

TEST_F(PrepareTest, NamesThePromptOfAListThatIsWrong) {
  const RequestError error = Error(R"("prompt": ["a", ""], "add_special_tokens": false)");
  EXPECT_EQ(error.param, "prompt[1]");
  EXPECT_EQ(error.message, "prompt[1]: the prompt has no token");
  EXPECT_EQ(Error(R"("prompt": [[1], [11]])").param, "prompt[1]");
}

TEST_F(PrepareTest, GivesEachOfSeveralAnswersItsOwnSeed) {
  const auto seeds = [&](const std::string& more) {
    std::vector<uint64_t> out;
    const RequestResult<PreparedRequest> got = Text(more);
    for (const auto& one : std::get<PreparedRequest>(got).generations) out.push_back(one.seed);
    return out;
  };
  EXPECT_EQ(seeds(R"("prompt": ["a", "b"], "n": 2)"), (std::vector<uint64_t>{77, 78, 79, 80}));
  // The answer to a prompt does not depend on the other prompts.
  EXPECT_EQ(seeds(R"("prompt": ["a", "b"], "n": 2, "seed": 5)"),
            (std::vector<uint64_t>{5, 6, 5, 6}));
}

TEST_F(PrepareTest, KeepsTheEndOfATruncatedPrompt) {
  EXPECT_EQ(One(R"("prompt": [0, 1, 2, 3], "truncate_prompt_tokens": 2)").prompt,
            (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(One(R"("prompt": [0, 1], "truncate_prompt_tokens": 2)").prompt.size(), 2u);
  std::string ids = "0";
  for (int i = 1; i < 200; ++i) ids += ", 1";
  const GenerationRequest got =
      One(R"("prompt": [)" + ids + R"(], "truncate_prompt_tokens": -1, "max_tokens": 10)");
  EXPECT_EQ(got.prompt.size(), 90u);
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

class ChatPrepareTest : public PrepareTest {
 protected:
  void Use(const std::string& source) {
    model_.text.chat_template.emplace(text::ChatTemplate::Compile(source, "test", {}).value());
  }
  // Renders the prompt as text.
  std::string Chat(const std::string& source, const std::string& more) {
    Use(source);
    const auto got = Text(more, Endpoint::kChat);
    if (const auto* error = std::get_if<RequestError>(&got)) return "refused: " + error->message;
    const auto& prompt = std::get<PreparedRequest>(got).generations.at(0).prompt;
    return model_.text.tokenizer->Decode(prompt, false).value();
  }
};

TEST_F(ChatPrepareTest, ContinuesTheFinalMessage) {
  const std::string source =
      "{% for m in messages %}{{ m.content }} c{% endfor %}"
      "{% if add_generation_prompt %} b b{% endif %}";
  const std::string body =
      R"("messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "a b"}])";
  EXPECT_EQ(Chat(source, body), Chat(source, body + R"(, "continue_final_message": false)"));
  EXPECT_TRUE(Chat(source, body).ends_with("b b"));
  EXPECT_TRUE(Chat(source, body + R"(, "continue_final_message": true)").ends_with("a b"));
}

TEST_F(ChatPrepareTest, GivesTheReasoningEffortToATemplateThatReadsIt) {
  const std::string body = R"("messages": [{"role": "user", "content": "a"}],
                              "reasoning_effort": "a b")";
  EXPECT_EQ(Chat("{{ reasoning_effort }}", body), "a b");
  EXPECT_TRUE(Contains(Chat("a", body), "does not read 'reasoning_effort'"));
}

TEST_F(ChatPrepareTest, TellsTheTemplateWhetherToThink) {
  const auto prompt = [&](const std::string& more) {
    return Text(R"("messages": [{"role": "user", "content": "a"}], "max_tokens": 5)" + more,
                Endpoint::kMessages);
  };
  const auto tokens = [&](const std::string& more) {
    const auto got = prompt(more);
    if (const auto* error = std::get_if<RequestError>(&got)) ADD_FAILURE() << error->message;
    return std::get<PreparedRequest>(got).generations.at(0).prompt;
  };
  const std::string on = R"(, "thinking": {"type": "adaptive"})";
  const std::string off = R"(, "thinking": {"type": "disabled"})";
  for (const std::string name : {"enable_thinking", "thinking"}) {
    Use("{{ 'a b' if " + name + " else 'a' }}");
    const std::vector<int32_t> thinks = tokens(on), answers = tokens(off);
    EXPECT_NE(thinks, answers);
    EXPECT_EQ(tokens(""), answers);
    EXPECT_EQ(tokens(R"(, "chat_template_kwargs": {")" + name + R"(": true})"), thinks);
  }
  Use("a");
  EXPECT_EQ(tokens(on), tokens(off));
  model_.reads_reasoning = true;
  EXPECT_EQ(tokens(on), tokens(""));
  const auto refused = prompt(off);
  ASSERT_TRUE(std::holds_alternative<RequestError>(refused));
  EXPECT_EQ(std::get<RequestError>(refused).param, "thinking");
}

TEST_F(ChatPrepareTest, TakesTheEffortOfMessagesAsAHint) {
  Use("a");
  const std::string messages = R"("messages": [{"role": "user", "content": "a"}], "max_tokens": 5)";
  EXPECT_TRUE(std::holds_alternative<PreparedRequest>(
      Text(messages + R"(, "output_config": {"effort": "low"})", Endpoint::kMessages)));
  const auto refused =
      Text(R"("input": "a", "reasoning": {"effort": "low"})", Endpoint::kResponses);
  ASSERT_TRUE(std::holds_alternative<RequestError>(refused));
  EXPECT_EQ(std::get<RequestError>(refused).param, "reasoning.effort");
}

TEST_F(ChatPrepareTest, CutsTheLimitOfMessagesToTheContext) {
  Use("a");
  const auto of = [&](int limit) {
    const auto got = Text(
        R"("messages": [{"role": "user", "content": "a"}], "max_tokens": )" + std::to_string(limit),
        Endpoint::kMessages);
    return std::get<PreparedRequest>(got);
  };
  EXPECT_EQ(of(99).generations[0].max_tokens, 99);
  EXPECT_FALSE(of(99).is_cut_to_context);
  EXPECT_EQ(of(1000).generations[0].max_tokens, 99);
  EXPECT_TRUE(of(1000).is_cut_to_context);
  const auto refused = Text(R"("input": "a", "max_output_tokens": 1000)", Endpoint::kResponses);
  ASSERT_TRUE(std::holds_alternative<RequestError>(refused));
  EXPECT_EQ(std::get<RequestError>(refused).param, "max_output_tokens");
}

TEST_F(ChatPrepareTest, GivesPartsToATemplateThatLoopsOverThem) {
  const std::string body = R"("messages": [{"role": "user", "content":
      [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(Chat("{% for p in messages[0].content %}{{ p.text }} {% endfor %}", body),
            Chat("a b ", body));
  EXPECT_EQ(Chat("{{ messages[0].content.split('\n') | join(' ') }}", body), Chat("a b", body));
}

TEST_F(ChatPrepareTest, GivesToolsToTheTemplateAndReadsItsFormatOfCalls) {
  const std::string body = R"("messages": [{"role": "user", "content": "a"}],
      "tools": [{"type": "function", "function": {"name": "b"}}])";
  EXPECT_TRUE(Contains(Chat("{{ tools[0].function.name }}", body), "--tool-parser FORMAT"));
  model_.tool_format = ToolFormat::kHermes;
  EXPECT_EQ(Chat("a {{ tools[0].function.name }}", body), Chat("a b", body));
  EXPECT_EQ(std::get<PreparedRequest>(Text(body, Endpoint::kChat)).chat_text.tools,
            ToolFormat::kHermes);
}

TEST_F(ChatPrepareTest, SeesThatThePromptBeganTheReasoning) {
  model_.reads_reasoning = true;
  const auto begins = [&](const std::string& source) {
    const std::string body = R"("messages": [{"role": "user", "content": "a"}])";
    Chat(source, body);
    return std::get<PreparedRequest>(Text(body, Endpoint::kChat)).chat_text.begins_in_reasoning;
  };
  EXPECT_TRUE(begins("a<think>\n"));
  EXPECT_FALSE(begins("a<think></think>"));
}

TEST_F(ChatPrepareTest, KnowsWhereAnAnswerInHarmonyBegins) {
  model_.tool_format = ToolFormat::kHarmony;
  model_.reads_reasoning = true;
  const auto read = [&](const std::string& body) {
    Chat("{{ messages[-1].content }}", body);
    return std::get<PreparedRequest>(Text(body, Endpoint::kChat)).chat_text;
  };
  const ChatTextOptions plain = read(R"("messages": [{"role": "user", "content": "a"}])");
  EXPECT_TRUE(plain.is_harmony && plain.reads_reasoning && !plain.begins_in_answer);
  EXPECT_EQ(plain.tools, ToolFormat::kNone) << "none were given";
  const ChatTextOptions continued =
      read(R"("messages": [{"role": "assistant", "content": "a"}], "continue_final_message": true,
              "add_generation_prompt": false)");
  EXPECT_TRUE(continued.is_harmony && continued.begins_in_answer);
  model_.reads_reasoning = false;
  EXPECT_FALSE(read(R"("messages": [{"role": "user", "content": "a"}])").is_harmony);
}

TEST_F(PrepareTest, AnEchoedPromptHasTheLogprobsOfItsAnswer) {
  EXPECT_EQ(One(R"("prompt": "a", "echo": true, "logprobs": 2)").prompt_logprobs, 2);
  EXPECT_EQ(One(R"("prompt": "a", "echo": true)").prompt_logprobs, -1);
  EXPECT_EQ(One(R"("prompt": "a", "logprobs": 2)").prompt_logprobs, -1);
  EXPECT_EQ(One(R"("prompt": "a", "prompt_logprobs": 3, "logprobs": 2)").prompt_logprobs, 3);
  EXPECT_EQ(One(R"("prompt": "a", "echo": true, "max_tokens": 0)").max_tokens, 1)
      << "one is drawn, and dropped";
}

TEST_F(PrepareTest, BoundsTheExpertsThatAreReturned) {
  const std::string asked = R"("prompt": [0, 0, 0], "return_routed_experts": true, )";
  EXPECT_EQ(Error(asked + R"("max_tokens": 4)").code, "unsupported_parameter");
  routed_width_ = 8;
  GenerationRequest got = One(asked + R"("max_tokens": 4)");
  EXPECT_EQ(got.routed_from, 0);
  EXPECT_EQ(got.routed_width, 8);
  EXPECT_EQ(One(asked + R"("routed_experts_start_len": 3)").routed_from, 3);
  EXPECT_EQ(One(R"("prompt": [0])").routed_from, -1);
  RequestError error = Error(asked + R"("routed_experts_start_len": 4)");
  EXPECT_EQ(error.param, "routed_experts_start_len");
  EXPECT_TRUE(Contains(error.message, "the prompt has 3 tokens"));
  // Two answers of six positions.
  routed_width_ = kMostRoutedExperts / 12;
  EXPECT_EQ(One(asked + R"("max_tokens": 4, "n": 2)").routed_from, 0);
  error = Error(asked + R"("max_tokens": 5, "n": 2)");
  EXPECT_EQ(error.param, "return_routed_experts");
  EXPECT_TRUE(Contains(error.message, "lower 'max_tokens' or 'n'"));
  EXPECT_EQ(One(asked + R"("max_tokens": 5, "n": 2, "routed_experts_start_len": 1)").routed_from,
            1);
}

TEST_F(PrepareTest, RefusesABiasBeyondTheVocabulary) {
  EXPECT_EQ(One(R"("prompt": "a", "logit_bias": {"10": 1})").logit_bias.size(), 1u);
  EXPECT_EQ(Error(R"("prompt": "a", "logit_bias": {"11": 1})").param, "logit_bias");
}

TEST_F(PrepareTest, TakesEveryNameOfTheModel) {
  model_.aliases = {"org/m"};
  const auto refused = [&](const std::string& name) {
    const auto got =
        Prepare(model_, {.max_context_tokens = 100, .vocabulary_size = 11}, Endpoint::kCompletions,
                R"({"model": ")" + name + R"(", "prompt": "a"})", 77, WallTime{});
    return std::holds_alternative<RequestError>(got) ? std::get<RequestError>(got).message : "";
  };
  EXPECT_EQ(refused("m"), "");
  EXPECT_EQ(refused("org/m"), "");
  EXPECT_TRUE(Contains(refused("x"), "this is 'm' or 'org/m'"));
}

TEST_F(PrepareTest, CompilesTheGrammarOnceForAllAnswers) {
  model_.grammars = text::GrammarCompiler::Create(*model_.text.tokenizer).value();
  const RequestResult<PreparedRequest> got =
      Text(R"("prompt": ["a", "a b"], "n": 2, "guided_choice": ["a b"])");
  const auto& generations = std::get<PreparedRequest>(got).generations;
  ASSERT_EQ(generations.size(), 4u);
  EXPECT_TRUE(Contains(*generations[0].grammar, "a b"));
  for (const auto& one : generations) EXPECT_EQ(one.grammar, generations[0].grammar);
  EXPECT_EQ(One(R"("prompt": "a")").grammar, nullptr);
}

TEST_F(PrepareTest, RefusesWhatCannotBeFollowedByItsParameter) {
  const std::string object = R"("prompt": "a", "response_format": {"type": "json_object"})";
  EXPECT_EQ(Error(object).code, "unsupported_parameter") << "without a compiler";
  model_.grammars = text::GrammarCompiler::Create(*model_.text.tokenizer).value();
  const RequestError error = Error(R"("prompt": "a", "guided_json": {"type": "sphere"})");
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.param, "guided_json");
  EXPECT_TRUE(Contains(error.message, "sphere"));
  EXPECT_EQ(Error(R"("prompt": "a", "guided_regex": "^$")").param, "guided_regex");
}

}  // namespace
}  // namespace janus::gateway
