#include "dataplane/gateway/api/completion_request.h"

#include <gtest/gtest.h>

#include <random>

#include "dataplane/gateway/answers/errors.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus::gateway {
namespace {

const std::string kChatBody = R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}])";
constexpr Endpoint kC = Endpoint::kChat;
constexpr Endpoint kT = Endpoint::kCompletions;
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
  EXPECT_EQ(request.messages_json, R"([{"role":"user","content":"Hi"}])");
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
  EXPECT_EQ(got.messages_json, R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(
      got.part_messages_json,
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
}

std::string Messages(const std::string& json) {
  return Parsed(kC, R"({"model": "m", "messages": )" + json + "}").messages_json;
}

// What an agent sends after a tool call: content null, empty or absent, arguments as a string.
TEST(CompletionRequest, TakesTheHistoryOfToolCalls) {
  const std::string calls =
      R"("tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": )";
  const std::string want =
      R"([{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":)"
      R"({"name":"f","arguments":{"z":1,"a":2}}}],"content":""}])";
  const std::string string = R"("{\"z\": 1, \"a\": 2}"}}]}])";
  EXPECT_EQ(Messages(R"([{"role": "assistant", )" + calls + string), want);
  EXPECT_EQ(Messages(R"([{"role": "assistant", "content": null, )" + calls + string),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",)"
            R"("function":{"name":"f","arguments":{"z":1,"a":2}}}]}])");
  EXPECT_EQ(Messages(R"([{"role": "assistant", )" + calls + R"({"z": 1, "a": 2}}}]}])"), want);
  // No arguments at all, and invalid JSON that a model once wrote.
  EXPECT_TRUE(
      Contains(Messages(R"([{"role": "assistant", )" + calls + R"(""}}]}])"), R"("arguments":{})"));
  EXPECT_TRUE(Contains(Messages(R"([{"role": "assistant", )" + calls + R"("{oops"}}]}])"),
                       R"("arguments":"{oops")"));
  EXPECT_EQ(Messages(R"([{"role": "assistant", "content": "x", "tool_calls": []}])"),
            R"([{"role":"assistant","content":"x"}])");
  EXPECT_EQ(Messages(R"([{"role": "assistant", "content": null}])"),
            R"([{"role":"assistant","content":""}])");
}

TEST(CompletionRequest, NamesAWrongPartOfAMessage) {
  const auto refused = [](const std::string& json) {
    const auto got = ParseCompletionRequest(kC, R"({"model": "m", "messages": )" + json + "}");
    return std::holds_alternative<RequestError>(got) ? std::get<RequestError>(got).param : "";
  };
  EXPECT_EQ(refused(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(refused(R"([{"role": "user", "content": 5}])"), "messages[0].content");
  EXPECT_EQ(refused(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
            "messages[0].content");
  EXPECT_EQ(refused(R"([{"content": "x"}])"), "messages[0].role");
  EXPECT_EQ(refused(R"([{"role": "assistant", "tool_calls": [{}]}])"),
            "messages[0].tool_calls[0].function");
  EXPECT_EQ(refused(R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(refused(R"([{"role": "assistant", "tool_calls": {}}])"), "messages[0].tool_calls");
}

TEST(CompletionRequest, NamesAPromptOfAListByItsIndex) {
  const auto refused = [](const std::string& json) {
    const auto got = ParseCompletionRequest(kT, R"({"model": "m", "prompt": )" + json + "}");
    return std::holds_alternative<RequestError>(got) ? std::get<RequestError>(got).param : "";
  };
  EXPECT_EQ(refused(R"(["a", null])"), "prompt[1]");
  EXPECT_EQ(refused("[[1], []]"), "prompt[1]");
  EXPECT_EQ(refused("[[1], [2], [-1]]"), "prompt[2]");
}

TEST(CompletionRequest, IgnoresUnknownParametersOnlyWhenTold) {
  const std::string body =
      kTextBody + R"(, "guided_magic": 1, "priority": 3, "cache_prompt": true})";
  EXPECT_TRUE(std::holds_alternative<RequestError>(ParseCompletionRequest(kT, body)));
  const auto got = ParseCompletionRequest(kT, body, UnknownParameters::kIgnore);
  ASSERT_TRUE(std::holds_alternative<CompletionRequest>(got));
  EXPECT_EQ(std::get<CompletionRequest>(got).ignored, std::vector<std::string>{"guided_magic"});
}

TEST(CompletionRequest, ReadsWhatChangesTheSampling) {
  const CompletionRequest request = Text(
      R"(, "frequency_penalty": -1, "presence_penalty": 0.5, "repetition_penalty": 1.1,
          "min_p": 0.1, "min_tokens": 3, "logit_bias": {"7": -100, "50256": 5.5})");
  EXPECT_EQ(request.frequency_penalty, -1);
  EXPECT_EQ(request.presence_penalty, 0.5);
  EXPECT_EQ(request.repetition_penalty, 1.1);
  EXPECT_EQ(request.min_p, 0.1);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{7, -100.0f}, {50256, 5.5f}}));
}

TEST(CompletionRequest, TakesNoTokensWhereThePromptIsShown) {
  EXPECT_EQ(Text(R"(, "echo": true, "max_tokens": 0)").max_tokens, 0);
  EXPECT_EQ(Text(R"(, "prompt_logprobs": 0, "max_tokens": 0)").prompt_logprobs, 0);
  EXPECT_EQ(Text(R"(, "prompt_logprobs": -1)").prompt_logprobs, std::nullopt);
}

TEST(CompletionRequest, ReturnsExpertsWhereAsked) {
  EXPECT_EQ(Text(R"(, "return_routed_experts": true)").routed_from, 0);
  EXPECT_EQ(Text(R"(, "return_routed_experts": true, "routed_experts_start_len": 7)").routed_from,
            7);
  EXPECT_EQ(Text(R"(, "return_routed_experts": false, "routed_experts_start_len": 0)").routed_from,
            std::nullopt);
}

TEST(CompletionRequest, KeepsToolsAsTheyAreSent) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])";
  const CompletionRequest request = Chat(R"(, "tools": )" + tools);
  EXPECT_EQ(request.tools_json, tools);
  EXPECT_TRUE(request.reads_tool_calls && request.parallel_tool_calls);
  const CompletionRequest none = Chat(R"(, "tool_choice": "none", "tools": )" + tools);
  EXPECT_EQ(none.tools_json, tools) << "the template shows them";
  EXPECT_FALSE(none.reads_tool_calls);
  EXPECT_TRUE(Chat(R"(, "tools": [], "tool_choice": "auto")").tools_json.empty());
}

TEST(CompletionRequest, ReadsWhatGuidellmSendsWithEveryRequest) {
  const CompletionRequest request = Chat(
      R"(, "stream": true,
          "stream_options": {"include_usage": true, "continuous_usage_stats": true})");
  EXPECT_TRUE(request.include_usage && request.continuous_usage);
}

// Parsing compares each new key with those before it.
TEST(CompletionRequest, RefusesObjectsWithTooManyKeys) {
  std::string wide = kTextBody;
  for (int i = 0; i < 7000; ++i) wide += ", \"k" + std::to_string(i) + "\": 0";
  const auto got = ParseCompletionRequest(kT, wide + "}");
  EXPECT_TRUE(Contains(std::get<RequestError>(got).message, "too many keys"));
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
                kInvalid, "an integer between 0 and"},
        Refused{"TrueAsNumber", kT, R"(, "temperature": true)", "temperature", kInvalid,
                "a number"},
        Refused{
            "SeventeenStops", kT,
            R"(, "stop": ["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"])",
            "stop", kInvalid, "at most 16"},
        Refused{"LargePenalty", kT, R"(, "frequency_penalty": 2.5)", "frequency_penalty", kInvalid,
                "between -2 and 2"},
        Refused{"NoRepetition", kC, R"(, "repetition_penalty": 0)", "repetition_penalty", kInvalid,
                "above 0 and at most 100"},
        Refused{"MinP", kC, R"(, "min_p": 1.5)", "min_p", kInvalid, "between 0 and 1"},
        Refused{"MoreLeastTokensThanMost", kT, R"(, "min_tokens": 5, "max_tokens": 4)",
                "min_tokens", kInvalid, "more than 'max_tokens', 4"},
        Refused{"BiasOfAWord", kT, R"(, "logit_bias": {"word": 1})", "logit_bias", kInvalid,
                "token ids"},
        Refused{"BiasTwice", kT, R"(, "logit_bias": {"7": 1, "07": 1})", "logit_bias", kInvalid,
                "token ids"},
        Refused{"LargeBias", kT, R"(, "logit_bias": {"7": 101})", "logit_bias.7", kInvalid,
                "-100 to 100"},
        Refused{"PromptLogprobsOfAStream", kT, R"(, "prompt_logprobs": 1, "stream": true)",
                "prompt_logprobs", kInvalid, "cannot be shown with 'stream'"},
        Refused{"StartOfNoExperts", kT, R"(, "routed_experts_start_len": 1)",
                "routed_experts_start_len", kInvalid, "needs 'return_routed_experts'"},
        Refused{"EchoOfAChat", kC, R"(, "echo": true)", "echo", kUnsupported, "unknown"},
        Refused{"EmptyStop", kT, R"(, "stop": [""])", "stop", kInvalid, "none of them empty"},
        Refused{"LongStop", kT, R"(, "stop": ")" + std::string(5000, 'x') + "\"", "stop", kInvalid,
                "5000 bytes"},
        Refused{"TopLogprobsAlone", kC, R"(, "top_logprobs": 2)", "top_logprobs", kInvalid,
                "needs 'logprobs'"},
        Refused{"NumberAsChatLogprobs", kC, R"(, "logprobs": 2)", "logprobs", kInvalid,
                "true or false"},
        Refused{"NoChoices", kC, R"(, "n": 0)", "n", kInvalid, "between 1 and 128, got 0"},
        Refused{"ManyChoicesOfManyPrompts", kT, R"(, "n": 65, "prompt": ["a", "b"])", "n", kInvalid,
                "at most 128 answers in all"},
        Refused{"BestOfMore", kT, R"(, "n": 2, "best_of": 3)", "best_of", kUnsupported,
                "must equal 'n'"},
        Refused{"ToolWithoutFunction", kC, R"(, "tools": [{"type": "function"}])", "tools[0]",
                kInvalid, "a function"},
        Refused{"ToolWithoutName", kC, R"(, "tools": [{"type": "function", "function": {}}])",
                "tools[0].function.name", kInvalid, "a string"},
        Refused{"CallWithoutTools", kC, R"(, "tool_choice": "required")", "tool_choice", kInvalid,
                "without 'tools'"},
        Refused{"CallOfNoTool", kC,
                R"(, "tool_choice": {"type": "function", "function": {"name": "g"}},
                    "tools": [{"type": "function", "function": {"name": "f"}}])",
                "tool_choice", kInvalid, "no function 'g'"},
        Refused{"OddToolChoice", kC, R"(, "tool_choice": {"type": "function"})", "tool_choice",
                kInvalid, "'required'"},
        Refused{"CallAndStructure", kC,
                R"(, "tool_choice": "required", "guided_choice": ["yes"],
                    "tools": [{"type": "function", "function": {"name": "f"}}])",
                "tool_choice", kInvalid, "another answer"},
        Refused{"OddResponseFormat", kC, R"(, "response_format": {"type": "yaml"})",
                "response_format", kInvalid, "json_schema"},
        Refused{"FormatWithoutSchema", kC, R"(, "response_format": {"type": "json_schema"})",
                "response_format.json_schema", kInvalid, "a schema"},
        Refused{"TwoStructures", kT, R"(, "guided_regex": "a", "guided_choice": ["a"])",
                "guided_choice", kInvalid, "both"},
        Refused{"EmptyChoice", kT, R"(, "structured_outputs": {"choice": []})",
                "structured_outputs.choice", kInvalid, "1 to 1024"},
        Refused{"OddStructure", kT, R"(, "structured_outputs": {"structural_tag": "x"})",
                "structured_outputs.structural_tag", kUnsupported, "not supported"},
        Refused{"BrokenSchema", kT, R"(, "guided_json": "{")", "guided_json", kInvalid,
                "a JSON schema"},
        Refused{"NumberAsReasoningEffort", kC, R"(, "reasoning_effort": 3)", "reasoning_effort",
                kInvalid, "a string"},
        Refused{"TruncatedToNothing", kT, R"(, "truncate_prompt_tokens": 0)",
                "truncate_prompt_tokens", kInvalid, "1 or more"},
        Refused{"ContinuesAndBegins", kC,
                R"(, "continue_final_message": true, "add_generation_prompt": true)",
                "continue_final_message", kInvalid, "cannot both be true"},
        Refused{"UnknownStreamOption", kC, R"(, "stream": true, "stream_options": {"x": true})",
                "stream_options.x", kUnsupported, "not supported"},
        Refused{"Unknown", kC, R"(, "max_token": 5)", "max_token", kUnsupported, "unknown"},
        Refused{"CompletionsPromptInChat", kC, R"(, "prompt": "x")", "prompt", kUnsupported,
                "unknown"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CompletionRequest, ComparesNeutralNumbersByValue) {
  Text(R"(, "n": 1.0, "frequency_penalty": 0.0, "presence_penalty": -0.0, "best_of": 1)");
}

// For any bytes the outcome is a request or a 400 with a message; no exception escapes.
TEST(CompletionRequest, EndsWellOnDamagedBytes) {
  const std::string good =
      R"({"model": "m", "prompt": ["a", [1, 2]], "stop": ["x"], "seed": 5, "temperature": 1.5,
          "stream": true, "stream_options": {"include_usage": true}, "logit_bias": {}})";
  std::mt19937 random(TestSeed());
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
      ASSERT_NE(ToJson(*error, ErrorForm::kOpenAi), "") << body;
    }
  }
}

TEST(CompletionRequest, RefusesDeepNesting) {
  const std::string deep = kTextBody + R"(, "x": )" + std::string(100'000, '[');
  const auto got = ParseCompletionRequest(kT, deep);
  EXPECT_TRUE(Contains(std::get<RequestError>(got).message, "64 levels"));
  // Brackets within a string do not nest.
  EXPECT_EQ(Parsed(kT, R"({"model": "m", "prompt": "\"[[)" + std::string(1000, '[') + "\"}")
                .prompts.size(),
            1u);
}

}  // namespace
}  // namespace janus::gateway
