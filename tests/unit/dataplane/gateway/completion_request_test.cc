#include "dataplane/gateway/completion_request.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

const std::string kChatBody = R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}])";
const std::string kTextBody = R"({"model": "m", "prompt": "Hi")";

CompletionRequest Parsed(Endpoint endpoint, const std::string& body) {
  RequestResult<CompletionRequest> got = ParseCompletionRequest(endpoint, body);
  if (const auto* error = std::get_if<RequestError>(&got)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<CompletionRequest>(got);
}
CompletionRequest Chat(const std::string& more = "") {
  return Parsed(Endpoint::kChat, kChatBody + more + "}");
}
CompletionRequest Text(const std::string& more = "") {
  return Parsed(Endpoint::kCompletions, kTextBody + more + "}");
}

TEST(CompletionRequest, LeavesWhatIsAbsentOrNullToTheModel) {
  for (const std::string more :
       {"", R"(, "temperature": null, "max_tokens": null, "stop": null, "seed": null,
                 "logprobs": null, "stream": null, "n": null, "tools": null, "foo": null)"}) {
    const CompletionRequest request = Chat(more);
    EXPECT_FALSE(request.temperature || request.max_tokens || request.seed || request.logprobs);
    EXPECT_TRUE(request.stop.empty());
    EXPECT_FALSE(request.stream);
    EXPECT_TRUE(request.add_generation_prompt);
  }
}

TEST(CompletionRequest, ReadsEveryField) {
  const CompletionRequest request = Chat(
      R"(, "max_completion_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": -1,
          "stop": ["a", "b"], "stop_token_ids": [3, 4], "ignore_eos": true,
          "skip_special_tokens": false, "logprobs": true, "top_logprobs": 3, "stream": true,
          "stream_options": {"include_usage": true}, "chat_template_kwargs": {"thinking": false},
          "logits_hash": true, "return_token_ids": true, "add_generation_prompt": false)");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.messages_json, R"([{"content":"Hi","role":"user"}])");
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 0.9);
  EXPECT_EQ(request.top_k, 40);
  EXPECT_EQ(request.seed, ~uint64_t{0});
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(request.ignore_eos && request.stream && request.include_usage);
  EXPECT_FALSE(request.skip_special_tokens || request.add_generation_prompt);
  EXPECT_EQ(request.logprobs, 3);
  EXPECT_EQ(request.template_variables_json, R"({"thinking":false})");
  EXPECT_TRUE(request.logits_hash && request.return_token_ids);
}

TEST(CompletionRequest, ReadsPromptsInEveryForm) {
  const auto prompts = [](const std::string& json) {
    return Parsed(Endpoint::kCompletions, R"({"model": "m", "prompt": )" + json + "}").prompts;
  };
  using Prompts = std::vector<CompletionRequest::Prompt>;
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(prompts(R"("a")"), (Prompts{"a"}));
  EXPECT_EQ(prompts(R"(["a", "b"])"), (Prompts{"a", "b"}));
  EXPECT_EQ(prompts("[1, 2]"), (Prompts{Ids{1, 2}}));
  EXPECT_EQ(prompts("[[1, 2], [3]]"), (Prompts{Ids{1, 2}, Ids{3}}));
}

TEST(CompletionRequest, ReadsLogprobsAsEachEndpointMeansThem) {
  EXPECT_EQ(Text(R"(, "logprobs": 0)").logprobs, 0);
  EXPECT_EQ(Text(R"(, "logprobs": 5)").logprobs, 5);
  EXPECT_EQ(Chat(R"(, "logprobs": true)").logprobs, 0);
  EXPECT_EQ(Chat(R"(, "logprobs": false, "top_logprobs": 0)").logprobs, std::nullopt);
}

TEST(CompletionRequest, JoinsTextParts) {
  const auto got = Parsed(Endpoint::kChat,
                          R"({"model": "m", "messages": [{"role": "user", "content":
                             [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  EXPECT_EQ(got.messages_json, R"([{"content":"a\nb","role":"user"}])");
}

struct Refused {
  const char* name;
  Endpoint endpoint;
  std::string more;  // after the minimal body
  const char* param;
  const char* code;
  const char* message;
};
void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

class RefusedParameter : public testing::TestWithParam<Refused> {};

TEST_P(RefusedParameter, IsNamed) {
  const Refused& c = GetParam();
  const std::string body = (c.endpoint == Endpoint::kChat ? kChatBody : kTextBody) + c.more + "}";
  const auto got = ParseCompletionRequest(c.endpoint, body);
  ASSERT_TRUE(std::holds_alternative<RequestError>(got)) << body;
  const auto& error = std::get<RequestError>(got);
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.param, c.param);
  EXPECT_EQ(error.code, c.code);
  EXPECT_TRUE(Contains(error.message, c.message));
}

constexpr Endpoint kC = Endpoint::kChat;
constexpr Endpoint kT = Endpoint::kCompletions;
constexpr const char* kInvalid = "invalid_value";
constexpr const char* kUnsupported = "unsupported_parameter";

INSTANTIATE_TEST_SUITE_P(
    All, RefusedParameter,
    testing::Values(
        Refused{"NegativeTemperature", kT, R"(, "temperature": -0.1)", "temperature", kInvalid,
                "between 0 and 2, got -0.1"},
        Refused{"HugeTemperature", kT, R"(, "temperature": 1e9)", "temperature", kInvalid,
                "between 0 and 2"},
        Refused{"ZeroTopP", kT, R"(, "top_p": 0)", "top_p", kInvalid, "above 0"},
        Refused{"NoTokens", kT, R"(, "max_tokens": 0)", "max_tokens", kInvalid, "got 0"},
        Refused{"FractionOfTokens", kT, R"(, "max_tokens": 1.5)", "max_tokens", kInvalid,
                "an integer"},
        Refused{"TokensBeyond64Bits", kT, R"(, "max_tokens": 18446744073709551615)", "max_tokens",
                kInvalid, "an integer between 1 and"},
        Refused{"TrueAsNumber", kT, R"(, "temperature": true)", "temperature", kInvalid,
                "a number"},
        Refused{"FiveStops", kT, R"(, "stop": ["a","b","c","d","e"])", "stop", kInvalid,
                "at most 4"},
        Refused{"EmptyStop", kT, R"(, "stop": [""])", "stop", kInvalid, "none of them empty"},
        Refused{"LongStop", kT, R"(, "stop": ")" + std::string(5000, 'x') + "\"", "stop", kInvalid,
                "5000 bytes"},
        Refused{"TopLogprobsAlone", kC, R"(, "top_logprobs": 2)", "top_logprobs", kInvalid,
                "needs 'logprobs'"},
        Refused{"NumberAsChatLogprobs", kC, R"(, "logprobs": 2)", "logprobs", kInvalid,
                "true or false"},
        Refused{"SeveralChoices", kC, R"(, "n": 2)", "n", kUnsupported, "set it to 1"},
        Refused{"Tools", kC, R"(, "tools": [{"type": "function"}])", "tools", kUnsupported,
                "tools"},
        Refused{"JsonMode", kC, R"(, "response_format": {"type": "json_object"})",
                "response_format", kUnsupported, "response_format"},
        Refused{"ReasoningEffort", kC, R"(, "reasoning_effort": "high")", "reasoning_effort",
                kUnsupported, "leave it out"},
        Refused{"Unknown", kC, R"(, "max_token": 5)", "max_token", kUnsupported, "unknown"},
        Refused{"CompletionsPromptInChat", kC, R"(, "prompt": "x")", "prompt", kUnsupported,
                "unknown"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CompletionRequest, ComparesNeutralNumbersByValue) {
  Text(R"(, "n": 1.0, "frequency_penalty": 0.0, "presence_penalty": -0.0, "best_of": 1)");
}

// Whatever the bytes are, the outcome is a request or a 400 with a message; nothing is thrown.
TEST(CompletionRequest, EndsWellOnDamagedBytes) {
  const std::string good =
      R"({"model": "m", "prompt": ["a", [1, 2]], "stop": ["x"], "seed": 5, "temperature": 1.5,
          "stream": true, "stream_options": {"include_usage": true}, "logit_bias": {}})";
  std::mt19937 random(20261121);
  for (int round = 0; round < 20'000; ++round) {
    std::string body = good;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % body.size();
      switch (random() % 4) {
        case 0:
          body[at] = static_cast<char>(random());
          break;
        case 1:
          body.erase(at, 1 + random() % 8);
          break;
        case 2:
          body.insert(at, 1, "{}[]\",:0e-\\"[random() % 11]);
          break;
        default:
          body.insert(at, body.substr(random() % body.size(), random() % 20));
      }
      if (body.empty()) body = "{";
    }
    const auto endpoint = random() % 2 ? kC : kT;
    const auto got = ParseCompletionRequest(endpoint, body);
    if (const auto* error = std::get_if<RequestError>(&got)) {
      ASSERT_EQ(error->http_status, 400) << body;
      ASSERT_FALSE(error->message.empty()) << body;
      ASSERT_NE(ToJson(*error), "") << body;
    }
  }
}

TEST(CompletionRequest, RefusesDeepNesting) {
  const std::string deep = kTextBody + R"(, "x": )" + std::string(100'000, '[');
  const auto got = ParseCompletionRequest(kT, deep);
  EXPECT_TRUE(Contains(std::get<RequestError>(got).message, "64 levels"));
  // Brackets within a string nest nothing.
  EXPECT_EQ(Parsed(kT, R"({"model": "m", "prompt": "\"[[)" + std::string(1000, '[') + "\"}")
                .prompts.size(),
            1u);
}

}  // namespace
}  // namespace janus::gateway
