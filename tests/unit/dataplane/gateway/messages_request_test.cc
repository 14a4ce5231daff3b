// Bodies of Anthropic's /v1/messages as requests of a chat.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dataplane/gateway/api/completion_request.h"
#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

using nlohmann::json;
using Thinking = CompletionRequest::Thinking;

RequestResult<CompletionRequest> Parse(const std::string& more) {
  return ParseCompletionRequest(Endpoint::kMessages, R"({"model": "m", )" + more + "}");
}
CompletionRequest Parsed(const std::string& more) {
  RequestResult<CompletionRequest> got = Parse(R"("max_tokens": 9, )" + more);
  if (const auto* error = std::get_if<RequestError>(&got)) {
    ADD_FAILURE() << more << ": " << error->message;
    return {};
  }
  return std::get<CompletionRequest>(got);
}
RequestError Refused(const std::string& more) {
  RequestResult<CompletionRequest> got = Parse(more);
  EXPECT_TRUE(std::holds_alternative<RequestError>(got)) << more;
  return std::holds_alternative<RequestError>(got) ? std::get<RequestError>(got) : RequestError{};
}

const std::string kHi = R"("messages": [{"role": "user", "content": "Hi"}])";

TEST(MessagesRequest, ReadsItsOwnNamesAndTheSamplingOfAll) {
  const CompletionRequest got = Parsed(kHi + R"(,
      "system": "Be brief.", "stop_sequences": ["x", "y"], "temperature": 0.5, "top_p": 0.9,
      "top_k": 5, "seed": 3, "min_p": 0.1, "stream": true, "metadata": {"user_id": "u"},
      "cache_control": {"type": "ephemeral"}, "service_tier": "auto")");
  EXPECT_EQ(got.max_tokens, 9);
  EXPECT_EQ(got.messages_json,
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(got.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(got.temperature, 0.5);
  EXPECT_EQ(got.top_p, 0.9);
  EXPECT_EQ(got.top_k, 5);
  EXPECT_EQ(got.seed, 3u);
  EXPECT_EQ(got.min_p, 0.1);
  EXPECT_TRUE(got.stream && got.add_generation_prompt && !got.continue_final_message);
}

TEST(MessagesRequest, KeepsTheBlocksOfATurnApartAsParts) {
  const CompletionRequest got = Parsed(R"(
      "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                 {"type": "text", "text": "b"}],
      "messages": [{"role": "user", "content": [{"type": "text", "text": "c"}]},
                   {"role": "user", "content": "d"}])");
  EXPECT_EQ(got.messages_json,
            R"([{"role":"system","content":"a\nb"},{"role":"user","content":"c\nd"}])");
  EXPECT_EQ(json::parse(got.part_messages_json)[1]["content"],
            json::parse(R"([{"type": "text", "text": "c"}, {"type": "text", "text": "d"}])"));
}

TEST(MessagesRequest, MakesCallsAndResultsOfToolBlocks) {
  const CompletionRequest got = Parsed(R"("messages": [
      {"role": "user", "content": "Add."},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "So:"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "sub", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
        {"type": "tool_result", "tool_use_id": "t2",
         "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "5"}]},
        {"type": "tool_result", "tool_use_id": "t3"},
        {"type": "text", "text": "And?"}]}])");
  EXPECT_EQ(json::parse(got.messages_json), json::parse(R"([
      {"role": "user", "content": "Add."},
      {"role": "assistant", "content": "So:", "reasoning_content": "hm", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}},
        {"id": "t2", "type": "function", "function": {"name": "sub", "arguments": {}}}]},
      {"role": "tool", "tool_call_id": "t1", "name": "add", "content": "3"},
      {"role": "tool", "tool_call_id": "t2", "name": "sub", "content": "4\n5"},
      {"role": "tool", "tool_call_id": "t3", "content": ""},
      {"role": "user", "content": "And?"}])"));
}

TEST(MessagesRequest, ContinuesALastMessageOfTheAssistant) {
  const CompletionRequest got = Parsed(R"("messages": [
      {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am"}])");
  EXPECT_TRUE(got.continue_final_message && !got.add_generation_prompt);
  EXPECT_EQ(got.final_message, "I am");
}

TEST(MessagesRequest, GivesToolsInTheFormOfChats) {
  const std::string tools = kHi + R"(, "tools": [
      {"name": "add", "description": "d", "input_schema": {"type": "object"},
       "cache_control": {"type": "ephemeral"}},
      {"type": "custom", "name": "sub", "input_schema": {"type": "object"}}])";
  const CompletionRequest any =
      Parsed(tools + R"(, "tool_choice": {"type": "any", "disable_parallel_tool_use": true})");
  EXPECT_EQ(json::parse(any.tools_json), json::parse(R"([
      {"type": "function", "function":
        {"name": "add", "description": "d", "parameters": {"type": "object"}}},
      {"type": "function", "function": {"name": "sub", "parameters": {"type": "object"}}}])"));
  EXPECT_TRUE(any.reads_tool_calls && any.must_call && !any.parallel_tool_calls);
  const CompletionRequest one =
      Parsed(tools + R"(, "tool_choice": {"type": "tool", "name": "sub"})");
  EXPECT_TRUE(one.must_call && one.parallel_tool_calls);
  EXPECT_EQ(one.called_tool, "sub");
  const CompletionRequest choice = Parsed(tools + R"(, "tool_choice": {"type": "auto"})");
  EXPECT_TRUE(choice.reads_tool_calls && !choice.must_call);
  EXPECT_FALSE(Parsed(tools + R"(, "tool_choice": {"type": "none"})").reads_tool_calls);
}

TEST(MessagesRequest, DoesNotThinkUnlessAsked) {
  EXPECT_EQ(Parsed(kHi).thinking, Thinking::kOffIfPossible);
  EXPECT_EQ(Parsed(kHi + R"(, "thinking": {"type": "disabled"})").thinking, Thinking::kOff);
  EXPECT_EQ(Parsed(kHi + R"(, "thinking": {"type": "adaptive"})").thinking, Thinking::kOn);
  EXPECT_EQ(Parsed(kHi + R"(, "thinking": {"type": "enabled", "budget_tokens": 1024})").thinking,
            Thinking::kOn);
}

TEST(MessagesRequest, ReadsTheOutputsFormatAndEffort) {
  const CompletionRequest got = Parsed(kHi + R"(, "output_config": {"effort": "low",
      "format": {"type": "json_schema", "schema": {"type": "object"}}})");
  EXPECT_EQ(got.structured.kind, StructuredAnswer::Kind::kJsonSchema);
  EXPECT_EQ(got.structured.text, R"({"type":"object"})");
  EXPECT_EQ(got.reasoning_effort, "low");
  EXPECT_TRUE(got.is_effort_a_hint);
}

struct Case {
  std::string more;
  std::string param;
  std::string message;
  std::string code = "invalid_value";
};

TEST(MessagesRequest, RefusesByName) {
  const std::string limit = R"("max_tokens": 9, )", hi = limit + kHi;
  const auto user = [&](const std::string& block) {
    return limit + R"("messages": [{"role": "user", "content": [)" + block + "]}]";
  };
  const auto assistant = [&](const std::string& block) {
    return limit + R"("messages": [{"role": "user", "content": "Hi"},
                                   {"role": "assistant", "content": [)" +
           block + "]}]";
  };
  const std::string unsupported = "unsupported_parameter";
  const Case cases[] = {
      {kHi, "max_tokens", "missing"},
      {R"("max_tokens": 0, )" + kHi, "max_tokens", "between 1"},
      {limit + R"("messages": [])", "messages", "a list with a message"},
      {limit + R"("messages": [{"role": "user", "content": []}])", "messages", "a block of text"},
      {limit + R"("messages": [{"role": "tool", "content": "x"}])", "messages[0].role", "'user'"},
      {limit + R"("messages": [{"role": "user"}])", "messages[0].content", "a list of blocks"},
      {user(R"({"type": "image", "source": {}})"), "messages[0].content[0]", "type 'image'",
       unsupported},
      {user(R"({"type": "tool_use", "id": "a", "name": "b", "input": {}})"),
       "messages[0].content[0]", "in a user's message", unsupported},
      {user(R"({"type": "text"})"), "messages[0].content[0].text", "a string"},
      {user(R"({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]})"),
       "messages[0].content[0].content[0]", "in a tool's result", unsupported},
      {user(R"({"type": "tool_result", "content": "x"})"), "messages[0].content[0].tool_use_id",
       "a string"},
      {assistant(R"({"type": "tool_use", "id": "a", "name": "b", "input": "x"})"),
       "messages[1].content[0].input", "an object"},
      {assistant(R"({"type": "server_tool_use"})"), "messages[1].content[0]",
       "type 'server_tool_use'", unsupported},
      {hi + R"(, "system": [{"type": "image"}])", "system[0]", "type 'image'", unsupported},
      {hi + R"(, "stop_sequences": "x")", "stop_sequences", "a list"},
      {hi + R"(, "stop_sequences": [""])", "stop_sequences", "none of them empty"},
      {hi + R"(, "tools": [{"type": "web_search_20250305", "name": "web_search"}])",
       "tools[0].type", "web_search_20250305", unsupported},
      {hi + R"(, "tools": [{"input_schema": {}}])", "tools[0].name", "a string"},
      {hi + R"(, "tools": [{"name": "a", "input_schema": 1}])", "tools[0].input_schema", "schema"},
      {hi + R"(, "tool_choice": {"type": "any"})", "tool_choice", "without 'tools'"},
      {hi + R"(, "tool_choice": "auto")", "tool_choice", "an object"},
      {hi + R"(, "thinking": {"type": "between_tools"})", "thinking", "'adaptive'"},
      {hi + R"(, "output_config": {"task_budget": 1})", "output_config.task_budget",
       "not supported", unsupported},
      {hi + R"(, "mcp_servers": [{}])", "mcp_servers", "in the client", unsupported},
      {hi + R"(, "stop": ["x"])", "stop", "unknown", unsupported},
      {hi + R"(, "n": 2)", "n", "unknown", unsupported},
  };
  for (const Case& c : cases) {
    const RequestError error = Refused(c.more);
    EXPECT_EQ(error.param, c.param) << c.more;
    EXPECT_EQ(error.code, c.code) << c.more;
    EXPECT_TRUE(Contains(error.message, c.message)) << error.message;
  }
}

}  // namespace
}  // namespace janus::gateway
