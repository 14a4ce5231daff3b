#include "dataplane/gateway/answers/response.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dataplane/gateway/answers/event.h"
#include "small_tokenizer.h"

namespace janus::gateway {
namespace {

using nlohmann::json;

TEST(ServerSentEvent, NeverHoldsALineFeedOfTheText) {
  ResponseHead head{.endpoint = Endpoint::kCompletions, .id = "x", .model = "m"};
  ResponseChoice choice;
  choice.delta.text = "two\nlines\r\n\ndata: [DONE]";
  const std::string event = ServerSentEvent(ChunkJson(head, choice, *text::SmallTokenizer()));
  EXPECT_EQ(event.find('\n'), event.size() - 2);
  EXPECT_EQ(event.find('\r'), std::string::npos);
  EXPECT_EQ(json::parse(event.substr(6))["choices"][0]["text"], choice.delta.text);
}

TEST(ChunkJson, SaysTheRoleInTheFirstChunkOnly) {
  const ResponseHead head{.endpoint = Endpoint::kChat, .id = "x", .model = "m"};
  ResponseChoice choice;
  choice.first = true;
  const auto tokenizer = text::SmallTokenizer();
  EXPECT_EQ(json::parse(ChunkJson(head, choice, *tokenizer))["choices"][0]["delta"],
            json::parse(R"({"role": "assistant", "content": ""})"));
  choice.first = false;
  choice.delta.text = "a";
  EXPECT_EQ(json::parse(ChunkJson(head, choice, *tokenizer))["choices"][0]["delta"],
            json::parse(R"({"content": "a"})"));
  choice.delta.text.clear();
  choice.finish = Finish::kLength;
  const json last = json::parse(ChunkJson(head, choice, *tokenizer))["choices"][0];
  EXPECT_EQ(last["delta"], json::object());
  EXPECT_EQ(last["finish_reason"], "length");
}

TEST(ChunkJson, NumbersCallsOverAllChunks) {
  const ResponseHead head{.endpoint = Endpoint::kChat, .id = "chatcmpl-1f", .model = "m"};
  ResponseChoice choice;
  choice.index = 2;
  choice.calls = {{"f", "{}"}, {"g", "{\"a\":1}"}};
  choice.first_call = 1;
  choice.has_called = true;
  choice.reasoning = "hm";
  const json chunk = json::parse(ChunkJson(head, choice, *text::SmallTokenizer()))["choices"][0];
  EXPECT_EQ(chunk["delta"]["reasoning_content"], "hm");
  EXPECT_EQ(chunk["delta"]["tool_calls"][1], json::parse(R"({"index": 2, "id": "call_1f_2_2",
      "type": "function", "function": {"name": "g", "arguments": "{\"a\":1}"}})"));
  choice.calls.clear();
  choice.finish = Finish::kStop;
  const json last = json::parse(ChunkJson(head, choice, *text::SmallTokenizer()))["choices"][0];
  EXPECT_EQ(last["finish_reason"], "tool_calls");
}

TEST(ResponseJson, AMessageThatOnlyCallsHasNoContent) {
  const ResponseHead head{.endpoint = Endpoint::kChat, .id = "chatcmpl-1f", .model = "m"};
  ResponseChoice choice{.finish = Finish::kStop, .calls = {{"f", "{}"}}, .has_called = true};
  const json body = json::parse(ResponseJson(head, {choice}, {}, *text::SmallTokenizer()));
  const json& message = body["choices"][0]["message"];
  EXPECT_EQ(message["content"], nullptr);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_FALSE(message["tool_calls"][0].contains("index"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChunkJson, ShowsTokensThatAreNoUtf8AndGivesTheirBytes) {
  ResponseHead head{.endpoint = Endpoint::kChat, .id = "x", .model = "m"};
  head.logprobs = true;
  ResponseChoice choice;
  choice.delta.tokens.push_back({.token = 2, .bytes = "\xc3", .logprobs = {-1.0f, {}}});
  const json token = json::parse(
      ChunkJson(head, choice, *text::SmallTokenizer()))["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "\uFFFD");
  EXPECT_EQ(token["bytes"], json::parse("[195]"));
}

TEST(ChunkJson, KeepsAlternativesApartThatAreNoUtf8) {
  ResponseHead head{.endpoint = Endpoint::kCompletions, .id = "x", .model = "m"};
  head.logprobs = true;
  head.top_logprobs = 2;
  const auto tokenizer = text::SmallTokenizer();
  // Two tokens of one byte each, of different characters.
  std::vector<TokenLogprob> broken;
  for (int32_t id = 0; broken.size() < 2; ++id) {
    const Result<std::string> bytes = tokenizer->TokenBytes(id);
    ASSERT_TRUE(bytes.ok()) << "the small tokenizer has too few such tokens";
    if (bytes->size() == 1 && static_cast<uint8_t>((*bytes)[0]) >= 0x80) {
      broken.push_back({id, -1.0f - static_cast<float>(broken.size())});
    }
  }
  ResponseChoice choice;
  choice.delta.tokens.push_back({.bytes = "\xe2\x80", .logprobs = {-1.0f, broken}});
  const json logprobs = json::parse(ChunkJson(head, choice, *tokenizer))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], "bytes:\\xe2\\x80");
  ASSERT_EQ(logprobs["top_logprobs"][0].size(), 2u);
  for (const auto& [name, value] : logprobs["top_logprobs"][0].items()) {
    EXPECT_EQ(name.substr(0, 8), "bytes:\\x");
  }
}

TEST(ChunkJson, WritesImpossibleTokensAsFiniteNumbers) {
  ResponseHead head{.endpoint = Endpoint::kCompletions, .id = "x", .model = "m"};
  head.logprobs = true;
  ResponseChoice choice;
  choice.delta.tokens.push_back(
      {.bytes = "a", .logprobs = {-std::numeric_limits<float>::infinity(), {}}});
  const json body = json::parse(ChunkJson(head, choice, *text::SmallTokenizer()));
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"][0], -9999.0);
}

TEST(ResponseJson, AddsUsageUp) {
  const ResponseHead head{.endpoint = Endpoint::kChat, .id = "chatcmpl-1", .model = "m"};
  ResponseChoice choice;
  choice.delta.text = "hi";
  choice.finish = Finish::kStop;
  const json body = json::parse(ResponseJson(
      head, {choice}, {.prompt_tokens = 3, .completion_tokens = 2, .cached_prompt_tokens = 1},
      *text::SmallTokenizer()));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(body["usage"]["total_tokens"], 5);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
}

// SGLang's place for a single answer; it has none for several.
TEST(ResponseJson, ShowsExpertsBesideOneChoiceAndInEachOfSeveral) {
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletions}) {
    ResponseHead head{.endpoint = endpoint, .id = "x-1", .model = "m"};
    ResponseChoice choice{.finish = Finish::kStop, .routed = "AQAAAA=="};
    const json wanted = {{"routed_experts", "AQAAAA=="}};
    json body = json::parse(ResponseJson(head, {choice}, {}, *text::SmallTokenizer()));
    EXPECT_EQ(body["sglext"], wanted);
    EXPECT_FALSE(body["choices"][0].contains("sglext"));
    json chunk = json::parse(RoutedChunkJson(head, choice));
    EXPECT_EQ(chunk["sglext"], wanted);
    EXPECT_EQ(chunk["choices"], json::array());
    head.is_single = false;
    body = json::parse(ResponseJson(head, {choice, choice}, {}, *text::SmallTokenizer()));
    EXPECT_FALSE(body.contains("sglext"));
    EXPECT_EQ(body["choices"][1]["sglext"], wanted);
    choice.index = 1;
    chunk = json::parse(RoutedChunkJson(head, choice));
    EXPECT_EQ(chunk["choices"][0]["index"], 1);
    EXPECT_EQ(chunk["choices"][0]["sglext"], wanted);
    EXPECT_EQ(chunk["choices"][0]["finish_reason"], nullptr);
  }
}

}  // namespace
}  // namespace janus::gateway
