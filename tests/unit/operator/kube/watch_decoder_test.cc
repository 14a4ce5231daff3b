#include "operator/kube/watch_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"

#include "operator/api/field_filter.h"
#include "operator/api/json.h"

namespace janus::control {
namespace {

std::string Event(const std::string& type, const std::string& name, int version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
         R"(","resourceVersion":")" + std::to_string(version) + R"("}}})" + "\n";
}

// Delivered events as "0 a@1" (type, name, version), and how decoding ended.
struct Decoded {
  std::vector<std::string> events;
  ApiResult<WatchEnd> end = WatchEnd::kServer;
};

// Feeds `text` in pieces of `piece` bytes; the reader stops after `most` events.
Decoded Decode(WatchDecoder& decoder, const std::string& text, size_t piece, size_t most = 1000) {
  Decoded out;
  const auto deliver = [&](WatchEvent event) {
    out.events.push_back(std::to_string(static_cast<int>(event.type)) + " " +
                         KeyOf(event.object).name + "@" +
                         std::string(ResourceVersionOf(event.object)));
    return out.events.size() < most;
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    out.end = decoder.Feed(std::string_view(text).substr(at, piece), deliver);
    if (!out.end.ok() || *out.end == WatchEnd::kConsumer) break;
  }
  return out;
}

TEST(WatchDecoder, EventsAreTheSameHoweverTheBytesAreCut) {
  const std::string text = Event("ADDED", "a", 1) + "\r\n" + Event("MODIFIED", "\\u00e9\\n", 2) +
                           Event("DELETED", "a", 3) + Event("BOOKMARK", "", 9);
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{64}, text.size()}) {
    WatchDecoder decoder;
    const Decoded decoded = Decode(decoder, text, piece);
    ASSERT_TRUE(decoded.end.ok()) << piece;
    EXPECT_EQ(decoded.events, (std::vector<std::string>{"0 a@1", "1 é\n@2", "2 a@3", "3 @9"}))
        << piece;
    EXPECT_FALSE(decoder.IsInEvent());
  }
}

TEST(WatchDecoder, KnowsThatItWasCutInsideAnEvent) {
  const std::string text = Event("ADDED", "a", 1) + Event("ADDED", "b", 2);
  WatchDecoder decoder;
  EXPECT_EQ(Decode(decoder, text.substr(0, text.size() - 9), 5).events.size(), 1U);
  EXPECT_TRUE(decoder.IsInEvent());
}

TEST(WatchDecoder, StopsWhenTheReaderHasEnough) {
  WatchDecoder decoder;
  const Decoded decoded = Decode(decoder, Event("ADDED", "a", 1) + Event("ADDED", "b", 2), 1000, 1);
  EXPECT_EQ(*decoded.end, WatchEnd::kConsumer);
  EXPECT_EQ(decoded.events.size(), 1U);
}

TEST(WatchDecoder, AnErrorEventIsTheServersError) {
  WatchDecoder decoder;
  const Decoded decoded = Decode(
      decoder,
      Event("ADDED", "a", 1) +
          R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})"
          "\n",
      11);
  EXPECT_EQ(decoded.events.size(), 1U);
  ASSERT_FALSE(decoded.end.ok());
  EXPECT_EQ(decoded.end.error().code, StatusCode::kOutOfRange);
  EXPECT_EQ(decoded.end.error().message, "too old");
}

TEST(WatchDecoder, RefusesWhatIsNoEvent) {
  for (const std::string text :
       {"not json\n", "{}\n", "[]\n", R"({"type":"ADDED"})", R"({"type":"ADDED","object":7})",
        R"({"type":"RENAMED","object":{"metadata":{"resourceVersion":"1"}}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"}) {
    WatchDecoder decoder;
    const Decoded decoded = Decode(decoder, text + "\n", 1000);
    ASSERT_FALSE(decoded.end.ok()) << text;
    EXPECT_EQ(decoded.end.error().code, StatusCode::kDataLoss) << text;
  }
}

TEST(WatchDecoder, KnowsTheBookmarkThatEndsInitialEventsWhateverIsKept) {
  const auto bookmark = [](const std::string& annotations) {
    return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7")" + annotations +
           "}}}\n";
  };
  const std::string text = Event("ADDED", "a", 1) + bookmark("") +
                           bookmark(R"(,"annotations":{"k8s.io/initial-events-end":"false"})") +
                           bookmark(R"(,"annotations":{"k8s.io/initial-events-end":"true"})") +
                           // On an object the annotation does not mark the end.
                           R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"8",)"
                           R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"
                           "\n";
  const FieldFilter filter({"metadata.resourceVersion"});
  for (const FieldFilter* const keep : {static_cast<const FieldFilter*>(nullptr), &filter}) {
    WatchDecoder decoder(keep);
    std::string ends;
    const auto deliver = [&](const WatchEvent& event) {
      ends += event.ends_initial_events ? "+" : "-";
      return true;
    };
    ASSERT_TRUE(decoder.Feed(text, deliver).ok());
    EXPECT_EQ(ends, "---+-");
  }
}

TEST(WatchDecoder, AnEventIsBoundedBeforeItIsWhole) {
  const std::string event = Event("ADDED", "a", 1);
  WatchDecoder fits(nullptr, event.size() - 1);
  EXPECT_TRUE(Decode(fits, event + event, 3).end.ok());
  for (const size_t piece : {size_t{1}, size_t{1000}}) {
    WatchDecoder decoder(nullptr, event.size() - 2);
    const Decoded decoded = Decode(decoder, event, piece);
    ASSERT_FALSE(decoded.end.ok());
    EXPECT_EQ(decoded.end.error().code, StatusCode::kResourceExhausted);
  }
}

TEST(WatchDecoder, ReadsOfObjectsWhatIsKeptAndOfErrorsAll) {
  const FieldFilter filter({"metadata.resourceVersion", "spec.a"});
  WatchDecoder decoder(&filter);
  std::string seen;
  const auto deliver = [&](const WatchEvent& event) {
    seen += WriteJson(event.object);
    return true;
  };
  ASSERT_TRUE(decoder
                  .Feed(R"({"object":{"metadata":{"name":"x","resourceVersion":"7","labels":{}},)"
                        R"("spec":{"b":1,"a":2}},"type":"ADDED"})"
                        "\n",
                        deliver)
                  .ok());
  EXPECT_EQ(seen, R"({"metadata":{"name":"x","resourceVersion":"7"},"spec":{"a":2}})");
  const ApiResult<WatchEnd> end =
      decoder.Feed(R"({"type":"ERROR","object":{"kind":"Status","message":"too old","code":410}})"
                   "\n",
                   deliver);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kOutOfRange);
  EXPECT_EQ(end.error().message, "too old");
}

}  // namespace
}  // namespace janus::control
