#include "dataplane/gateway/answers/responses_writer.h"

#include <gtest/gtest.h>

#include <vector>

#include "small_tokenizer.h"

namespace janus::gateway {
namespace {

using nlohmann::json;

// The events of a stream: each has its name twice, and its number.
std::vector<json> EventsOf(const std::string& stream, int first = 0) {
  std::vector<json> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t name_end = stream.find('\n', at), end = stream.find("\n\n", at);
    EXPECT_EQ(stream.compare(at, 7, "event: "), 0);
    events.push_back(json::parse(stream.substr(name_end + 7, end - name_end - 7)));
    EXPECT_EQ(events.back()["type"], stream.substr(at + 7, name_end - at - 7));
    EXPECT_EQ(events.back()["sequence_number"], first + static_cast<int>(events.size()) - 1);
    at = end + 2;
  }
  return events;
}

ResponseHead Head(bool stream) {
  return {.endpoint = Endpoint::kResponses,
          .id = "resp_1f",
          .model = "m",
          .created_unix_seconds = 7,
          .stream = stream,
          .repeated_json = R"({"store":false,"tools":[]})"};
}

// An answer that thinks, talks and calls.
std::string Write(ResponsesWriter& writer, Finish finish) {
  ResponseChoice part;
  part.reasoning = "hm";
  std::string out = writer.Add(part, {});
  part = {};
  part.delta.text = "So";
  out += writer.Add(part, {});
  part.delta.text = ":";
  out += writer.Add(part, {});
  part = {};
  part.calls = {{"add", R"({"a":1})"}};
  part.has_called = true;
  part.finish = finish;
  out += writer.Add(part, {});
  return out + writer.End({.prompt_tokens = 5,
                           .completion_tokens = 9,
                           .cached_prompt_tokens = 2,
                           .reasoning_tokens = 3});
}

const std::string kOutput = R"([
    {"id": "rs_1f_0", "type": "reasoning", "summary": [], "status": "completed",
     "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"id": "msg_1f_1", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "So:", "annotations": [], "logprobs": []}]},
    {"id": "fc_1f_2", "type": "function_call", "call_id": "call_1f_0", "name": "add",
     "arguments": "{\"a\":1}", "status": "completed"}])";

TEST(ResponsesWriter, StreamsItemsInTheDocumentedOrder) {
  const auto tokenizer = text::SmallTokenizer();
  ResponsesWriter writer(Head(true), *tokenizer);
  const std::vector<json> events = EventsOf(Write(writer, Finish::kStop));
  std::vector<std::string> names;
  for (const json& event : events) names.push_back(event["type"].get<std::string>());
  EXPECT_EQ(names, (std::vector<std::string>{"response.created",
                                             "response.in_progress",  //
                                             "response.output_item.added",
                                             "response.content_part.added",  //
                                             "response.reasoning_text.delta",
                                             "response.reasoning_text.done",  //
                                             "response.content_part.done",
                                             "response.output_item.done",  //
                                             "response.output_item.added",
                                             "response.content_part.added",  //
                                             "response.output_text.delta",
                                             "response.output_text.delta",  //
                                             "response.output_text.done",
                                             "response.content_part.done",
                                             "response.output_item.done",
                                             "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done",
                                             "response.output_item.done",
                                             "response.completed"}));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], json::array());
  EXPECT_EQ(events[12], json::parse(R"({"type": "response.output_text.done",
      "sequence_number": 12, "item_id": "msg_1f_1", "output_index": 1, "content_index": 0,
      "text": "So:", "logprobs": []})"));
  EXPECT_EQ(events[17]["arguments"], R"({"a":1})");
  EXPECT_EQ(events[17]["item_id"], "fc_1f_2");
  const json& response = events.back()["response"];
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"], json::parse(kOutput));
  EXPECT_EQ(response["usage"], json::parse(R"({"input_tokens": 5, "output_tokens": 9,
      "total_tokens": 14, "input_tokens_details": {"cached_tokens": 2},
      "output_tokens_details": {"reasoning_tokens": 3}})"));
}

TEST(ResponsesWriter, WritesTheItemsOfTheStreamAsOneBody) {
  const auto tokenizer = text::SmallTokenizer();
  ResponsesWriter writer(Head(false), *tokenizer);
  const json body = json::parse(Write(writer, Finish::kStop));
  EXPECT_EQ(body["output"], json::parse(kOutput));
  EXPECT_EQ(body["object"], "response");
  EXPECT_EQ(body["created_at"], 7);
  EXPECT_EQ(body["store"], false);
  EXPECT_EQ(body["incomplete_details"], nullptr);
}

// The text of the second token came late, because it could have begun a marker.
TEST(ResponsesWriter, GivesEachTextTheLogprobsOfItsTokens) {
  const auto tokenizer = text::SmallTokenizer();
  ResponseHead head = Head(true);
  head.logprobs = true;
  head.top_logprobs = 1;
  ResponsesWriter writer(head, *tokenizer);
  const auto token = [](std::string bytes, float logprob) {
    return Answer::TokenText{.bytes = std::move(bytes),
                             .logprobs = {.logprob = logprob, .top = {{0, -0.5f}, {1, -2.0f}}}};
  };
  ResponseChoice part;
  part.reasoning = "hm";
  part.delta.tokens = {token("hm", -9)};
  std::string out = writer.Add(part, {});
  part = {};
  part.delta.tokens = {token("</think>", -8)};
  out += writer.Add(part, {});
  part.delta.text = "a";
  part.delta.tokens = {token("\n", -7), token("a", -1), token("<", -2)};
  out += writer.Add(part, {});
  part.delta.text = "<b";
  part.delta.tokens = {token("b", -3)};
  part.finish = Finish::kStop;
  out += writer.Add(part, {});
  out += writer.End({});
  std::vector<std::pair<std::string, double>> streamed;
  for (const json& event : EventsOf(out)) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const json& one : event["logprobs"]) {
      streamed.emplace_back(one["token"].get<std::string>(), one["logprob"].get<double>());
    }
  }
  EXPECT_EQ(streamed,
            (std::vector<std::pair<std::string, double>>{{"a", -1.0}, {"<", -2.0}, {"b", -3.0}}));
  const json whole = EventsOf(out).back()["response"]["output"][1]["content"][0]["logprobs"];
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[2]["bytes"], json::parse("[98]"));
  ASSERT_EQ(whole[2]["top_logprobs"].size(), 1u);
  EXPECT_EQ(whole[2]["top_logprobs"][0]["logprob"], -0.5);
}

TEST(ResponsesWriter, SaysThatAnAnswerWasCut) {
  const auto tokenizer = text::SmallTokenizer();
  ResponsesWriter writer(Head(true), *tokenizer);
  ResponseChoice part;
  part.delta.text = "So";
  part.finish = Finish::kLength;
  writer.Add(part, {});
  const std::vector<json> events = EventsOf(writer.End({}), 5);
  EXPECT_EQ(events[2]["item"]["status"], "incomplete");
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(events.back()["response"]["status"], "incomplete");
  EXPECT_EQ(events.back()["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(ResponsesWriter, EndsAStreamThatFailsWithWhatItHas) {
  const auto tokenizer = text::SmallTokenizer();
  ResponsesWriter writer(Head(true), *tokenizer);
  ResponseChoice part;
  part.delta.text = "So";
  writer.Add(part, {});
  const std::vector<json> events =
      EventsOf(writer.Fail(RequestError{502, "api_error", "worker_lost", "", "lost"}), 5);
  EXPECT_EQ(events.back()["type"], "response.failed");
  const json& response = events.back()["response"];
  EXPECT_EQ(response["error"], json::parse(R"({"code": "server_error", "message": "lost"})"));
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "So");
}

}  // namespace
}  // namespace janus::gateway
