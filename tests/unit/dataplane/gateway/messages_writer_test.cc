#include "dataplane/gateway/answers/messages_writer.h"

#include <gtest/gtest.h>

#include <vector>

namespace janus::gateway {
namespace {

using nlohmann::json;

// The events of a stream. Each has its name twice: in its line and in its data.
std::vector<json> EventsOf(const std::string& stream) {
  std::vector<json> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t name_end = stream.find('\n', at), end = stream.find("\n\n", at);
    EXPECT_EQ(stream.compare(at, 7, "event: "), 0);
    EXPECT_EQ(stream.compare(name_end + 1, 6, "data: "), 0);
    events.push_back(json::parse(stream.substr(name_end + 7, end - name_end - 7)));
    EXPECT_EQ(events.back()["type"], stream.substr(at + 7, name_end - at - 7));
    at = end + 2;
  }
  return events;
}

ResponseHead Head(bool stream) {
  return {.endpoint = Endpoint::kMessages, .id = "msg_1f", .model = "m", .stream = stream};
}

// An answer that thinks, talks, calls and talks again.
std::string Write(MessagesWriter& writer, Finish finish) {
  ResponseChoice part;
  part.reasoning = "hm";
  std::string out = writer.Add(part, {.prompt_tokens = 5, .cached_prompt_tokens = 2});
  part.reasoning = "!";
  part.delta.text = "So";
  out += writer.Add(part, {});
  part = {};
  part.delta.text = ":";
  out += writer.Add(part, {});
  part = {};
  part.calls = {{"add", R"({"a":1})"}};
  part.has_called = true;
  out += writer.Add(part, {});
  part.calls.clear();
  part.delta.text = "ok";
  part.finish = finish;
  out += writer.Add(part, {});
  return out + writer.End({.prompt_tokens = 5,
                           .completion_tokens = 9,
                           .cached_prompt_tokens = 2,
                           .reasoning_tokens = 3});
}

TEST(MessagesWriter, StreamsBlocksInTheDocumentedOrder) {
  MessagesWriter writer(Head(true));
  const std::vector<json> events = EventsOf(Write(writer, Finish::kStop));
  std::vector<std::string> names;
  for (const json& event : events) {
    names.push_back(event["type"].get<std::string>());
    if (event.contains("delta") && event["delta"].contains("type")) {
      names.back() = event["delta"]["type"].get<std::string>();
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "message_start",  //
                "content_block_start", "thinking_delta", "thinking_delta", "signature_delta",
                "content_block_stop",  //
                "content_block_start", "text_delta", "text_delta", "content_block_stop",
                "content_block_start", "input_json_delta", "content_block_stop",  //
                "content_block_start", "text_delta", "content_block_stop",        //
                "message_delta", "message_stop"}));
  EXPECT_EQ(events[0]["message"], json::parse(R"({"id": "msg_1f", "type": "message",
      "role": "assistant", "model": "m", "content": [], "stop_reason": null,
      "stop_sequence": null, "usage": {"input_tokens": 3, "cache_creation_input_tokens": 0,
      "cache_read_input_tokens": 2, "output_tokens": 0,
      "output_tokens_details": {"thinking_tokens": 0}}})"));
  EXPECT_EQ(events[10]["content_block"],
            json::parse(R"({"type": "tool_use", "id": "toolu_1f_0", "name": "add", "input": {}})"));
  EXPECT_EQ(events[11]["delta"]["partial_json"], R"({"a":1})");
  EXPECT_EQ(events[11]["index"], 2);
  const json& last = events[events.size() - 2];
  EXPECT_EQ(last["delta"], json::parse(R"({"stop_reason": "tool_use", "stop_sequence": null})"));
  EXPECT_EQ(last["usage"]["output_tokens"], 9);
  EXPECT_EQ(last["usage"]["output_tokens_details"]["thinking_tokens"], 3);
}

TEST(MessagesWriter, WritesTheBlocksOfTheStreamAsOneBody) {
  MessagesWriter writer(Head(false));
  const json body = json::parse(Write(writer, Finish::kStop));
  EXPECT_EQ(body["content"], json::parse(R"([
      {"type": "thinking", "thinking": "hm!", "signature": "msg_1f"},
      {"type": "text", "text": "So:"},
      {"type": "tool_use", "id": "toolu_1f_0", "name": "add", "input": {"a": 1}},
      {"type": "text", "text": "ok"}])"));
  EXPECT_EQ(body["stop_reason"], "tool_use");
  EXPECT_EQ(body["usage"]["input_tokens"], 3);
}

TEST(MessagesWriter, BeginsOnce) {
  MessagesWriter writer(Head(true));
  EXPECT_EQ(EventsOf(writer.Begin({})).size(), 1u);
  EXPECT_EQ(writer.Begin({}), "");
  EXPECT_EQ(writer.Add({}, {}), "");
  EXPECT_EQ(EventsOf(std::string(writer.SignOfLife()))[0]["type"], "ping");
}

TEST(MessagesWriter, SaysWhyTheAnswerEnded) {
  const auto end = [](ResponseHead head, ResponseChoice last) {
    MessagesWriter writer(std::move(head));
    writer.Add(std::move(last), {});
    return json::parse(writer.End({}));
  };
  EXPECT_EQ(end(Head(false), {.finish = Finish::kStop})["stop_reason"], "end_turn");
  EXPECT_EQ(end(Head(false), {.finish = Finish::kLength})["stop_reason"], "max_tokens");
  ResponseHead cut = Head(false);
  cut.is_cut_to_context = true;
  EXPECT_EQ(end(cut, {.finish = Finish::kLength})["stop_reason"], "model_context_window_exceeded");
  const json stopped = end(Head(false), {.finish = Finish::kStop, .stop_string = "x"});
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "x");
  EXPECT_EQ(stopped["content"], json::array());
}

TEST(MessagesWriter, GivesClientsAnObjectEvenIfTheArgumentsAreNone) {
  MessagesWriter writer(Head(false));
  writer.Add({.finish = Finish::kStop, .calls = {{"f", "5"}}, .has_called = true}, {});
  EXPECT_EQ(json::parse(writer.End({}))["content"][0]["input"],
            json::parse(R"({"arguments": "5"})"));
}

TEST(MessagesWriter, EndsAStreamThatFailsWithAnError) {
  MessagesWriter writer(Head(true));
  const json event = EventsOf(writer.Fail(NoWorkers("lost")))[0];
  EXPECT_EQ(event["error"]["type"], "overloaded_error");
  EXPECT_EQ(event["error"]["message"], "lost");
}

}  // namespace
}  // namespace janus::gateway
