// Bodies of OpenAI's /v1/responses as requests of a chat.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dataplane/gateway/api/completion_request.h"
#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

using nlohmann::json;

RequestResult<CompletionRequest> Parse(const std::string& more) {
  return ParseCompletionRequest(Endpoint::kResponses, R"({"model": "m", )" + more + "}");
}
CompletionRequest Parsed(const std::string& more) {
  RequestResult<CompletionRequest> got = Parse(more);
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

TEST(ResponsesRequest, ReadsItsOwnNamesAndTheSamplingOfAll) {
  const CompletionRequest got = Parsed(R"("input": "Hi", "instructions": "Be brief.",
      "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.9, "seed": 3, "stream": true,
      "reasoning": {"effort": "low", "summary": "auto"}, "store": true, "truncation": "disabled",
      "background": false, "include": ["reasoning.encrypted_content"], "parallel_tool_calls": false,
      "stream_options": {"include_obfuscation": false, "include_usage": true}, "prompt_cache_key": "k")");
  EXPECT_EQ(got.messages_json,
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(got.max_tokens, 7);
  EXPECT_EQ(got.temperature, 0.5);
  EXPECT_EQ(got.seed, 3u);
  EXPECT_EQ(got.reasoning_effort, "low");
  EXPECT_FALSE(got.is_effort_a_hint);
  EXPECT_TRUE(got.stream && got.add_generation_prompt && !got.parallel_tool_calls);
}

TEST(ResponsesRequest, ReadsWhetherTheAnswerShowsLogprobs) {
  const std::string include = R"(, "include": ["message.output_text.logprobs"])";
  EXPECT_EQ(Parsed(R"("input": "Hi")" + include).logprobs, 0);
  const CompletionRequest got = Parsed(R"("input": "Hi", "top_logprobs": 3)" + include);
  EXPECT_EQ(got.logprobs, 3);
  EXPECT_EQ(json::parse(got.repeated_json)["top_logprobs"], 3);
  EXPECT_EQ(Parsed(R"("input": "Hi", "top_logprobs": 3)").logprobs, std::nullopt);
  EXPECT_EQ(Refused(R"("input": "Hi", "top_logprobs": 21)" + include).param, "top_logprobs");
}

// instructor sends both.
TEST(ResponsesRequest, AForcedCallNeedsNotFitTheFormatOfMessages) {
  const std::string format = R"({"format": {"type": "json_schema", "schema": {"type": "object"}}})";
  const std::string tools = R"(, "tools": [{"type": "function", "name": "f"}])";
  const auto kind = [&](const std::string& choice) {
    return Parsed(R"("input": "Hi", "text": )" + format + tools + choice).structured.kind;
  };
  EXPECT_EQ(kind(R"(, "tool_choice": "required")"), StructuredAnswer::Kind::kNone);
  EXPECT_EQ(kind(R"(, "tool_choice": {"type": "function", "name": "f"})"),
            StructuredAnswer::Kind::kNone);
  EXPECT_EQ(kind(""), StructuredAnswer::Kind::kJsonSchema);
}

TEST(ResponsesRequest, MakesMessagesOfItems) {
  const CompletionRequest got = Parsed(R"("instructions": "a", "input": [
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "b"}]},
      {"role": "user", "content": "c"},
      {"type": "reasoning", "id": "rs", "summary": [],
       "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "role": "assistant", "id": "msg", "status": "completed",
       "content": [{"type": "output_text", "text": "d", "annotations": []}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
      {"type": "function_call_output", "call_id": "c1", "output": "3"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
      {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "no json"},
      {"type": "function_call_output", "call_id": "c2",
       "output": [{"type": "input_text", "text": "4"}]}])");
  EXPECT_EQ(json::parse(got.messages_json), json::parse(R"([
      {"role": "system", "content": "a\nb"},
      {"role": "user", "content": "c"},
      {"role": "assistant", "content": "d", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "3"},
      {"role": "assistant", "content": "", "reasoning_content": "so", "tool_calls": [
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "no json"}}]},
      {"role": "tool", "tool_call_id": "c2", "name": "f", "content": "4"}])"));
  EXPECT_FALSE(got.continue_final_message);
}

TEST(ResponsesRequest, GivesToolsInTheFormOfChats) {
  const std::string tools = R"("input": "Hi", "tools": [{"type": "function", "name": "f",
      "description": "d", "parameters": {"type": "object"}, "strict": true}])";
  const CompletionRequest any = Parsed(tools + R"(, "tool_choice": "required")");
  EXPECT_EQ(json::parse(any.tools_json), json::parse(R"([{"type": "function", "function":
      {"name": "f", "description": "d", "parameters": {"type": "object"}}}])"));
  EXPECT_TRUE(any.must_call);
  EXPECT_EQ(Parsed(tools + R"(, "tool_choice": {"type": "function", "name": "f"})").called_tool,
            "f");
  EXPECT_FALSE(Parsed(tools + R"(, "tool_choice": "none")").reads_tool_calls);
}

TEST(ResponsesRequest, ReadsTheFormatOfTheText) {
  const auto kind = [](const std::string& format) {
    return Parsed(R"("input": "Hi", "text": {"format": )" + format + "}").structured.kind;
  };
  EXPECT_EQ(kind(R"({"type": "text"})"), StructuredAnswer::Kind::kNone);
  EXPECT_EQ(kind(R"({"type": "json_object"})"), StructuredAnswer::Kind::kJsonSchema);
  EXPECT_EQ(kind(R"({"type": "json_schema", "name": "n", "schema": {"type": "array"}})"),
            StructuredAnswer::Kind::kJsonSchema);
}

TEST(ResponsesRequest, AnswersRepeatTheRequestButStoreNothing) {
  const json repeated = json::parse(Parsed(R"("input": "Hi", "store": true, "temperature": 0.5,
                            "metadata": {"a": "b"}, "max_output_tokens": 5)")
                                        .repeated_json);
  EXPECT_EQ(repeated["store"], false);
  EXPECT_EQ(repeated["temperature"], 0.5);
  EXPECT_EQ(repeated["metadata"], json::parse(R"({"a": "b"})"));
  EXPECT_EQ(repeated["max_output_tokens"], 5);
  EXPECT_EQ(repeated["tool_choice"], "auto");
  EXPECT_EQ(repeated["previous_response_id"], nullptr);
}

struct Case {
  std::string more;
  std::string param;
  std::string message;
  std::string code = "unsupported_parameter";
};

TEST(ResponsesRequest, RefusesByName) {
  const std::string hi = R"("input": "Hi")", value = "invalid_value";
  const auto item = [](const std::string& text) { return R"("input": [)" + text + "]"; };
  const Case cases[] = {
      {R"("stream": true)", "input", "missing", value},
      {R"("input": [])", "input", "a list with an item", value},
      {item(R"({"role": "user", "content": []})"), "input", "a list with a text", value},
      {item(R"({"role": "user", "content": [{"type": "input_image"}]})"), "input[0].content[0]",
       "type 'input_image'"},
      {item(R"({"role": "critic", "content": "x"})"), "input[0].role", "'developer'", value},
      {item(R"({"type": "item_reference", "id": "x"})"), "input[0]", "type 'item_reference'"},
      {item(R"({"type": "function_call", "name": "f", "arguments": "{}"})"), "input[0].call_id",
       "a string", value},
      {item(R"({"type": "function_call_output", "call_id": "c"})"), "input[0].output", "a string",
       value},
      {item(R"({"type": "reasoning", "summary": [1]})"), "input[0].summary[0]", "with a text",
       value},
      {hi + R"(, "previous_response_id": "resp_1")", "previous_response_id", "earlier items"},
      {hi + R"(, "conversation": "c")", "conversation", "earlier items"},
      {hi + R"(, "background": true)", "background", "stream"},
      {hi + R"(, "truncation": "auto")", "truncation", "earlier items"},
      {hi + R"(, "include": ["file_search_call.results"])", "include", "file_search_call"},
      {hi + R"(, "tools": [{"type": "web_search"}])", "tools[0].type", "'web_search'"},
      {hi + R"(, "tools": [{"type": "custom", "name": "x"}])", "tools[0].type", "'custom'"},
      {hi + R"(, "tool_choice": {"type": "allowed_tools"})", "tool_choice", "'required'", value},
      {hi + R"(, "reasoning": {"mode": "pro"})", "reasoning.mode", "not supported"},
      {hi + R"(, "text": {"verbosity": "low"})", "text.verbosity", "not supported"},
      {hi + R"(, "text": {"format": {"type": "xml"}})", "text.format", "'json_schema'", value},
      {hi + R"(, "max_output_tokens": 0)", "max_output_tokens", "between 1", value},
      {hi + R"(, "max_tokens": 5)", "max_tokens", "unknown"},
      {hi + R"(, "stream": true, "stream_options": {"continuous_usage_stats": true})",
       "stream_options.continuous_usage_stats", "not supported"},
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
