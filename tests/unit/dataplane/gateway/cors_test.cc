#include "dataplane/gateway/cors.h"

#include <gtest/gtest.h>

#include "dataplane/gateway/trace_ids.h"

namespace janus::gateway {
namespace {

const CorsOptions kOne{{"https://ui.example"}};

std::string HeaderOf(const HttpHeaders& headers, const std::string& name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

std::string AllowedOrigin(const CorsOptions& options, const std::string& origin) {
  return HeaderOf(CorsHeaders(options, {.origin = origin}), "Access-Control-Allow-Origin");
}

TEST(Cors, AllowsTheGivenOriginsOnly) {
  EXPECT_EQ(AllowedOrigin(kOne, "https://ui.example"), "https://ui.example");
  EXPECT_EQ(AllowedOrigin(kOne, "https://ui.example.evil"), "");
  EXPECT_EQ(AllowedOrigin(kOne, "http://ui.example"), "");
  EXPECT_EQ(AllowedOrigin({}, "https://ui.example"), "");
  EXPECT_EQ(AllowedOrigin({{"*"}}, "https://other.example"), "*");
}

TEST(Cors, TellsCachesThatAnswersDifferByOrigin) {
  EXPECT_EQ(HeaderOf(CorsHeaders(kOne, {}), "Vary"), "Origin");
  EXPECT_EQ(HeaderOf(CorsHeaders({}, {}), "Vary"), "");
}

TEST(Cors, AnswersAPreflightWithTheHeadersThatItNames) {
  const HttpHead head{.method = "OPTIONS",
                      .origin = "https://ui.example",
                      .requested_headers = "authorization,x-stainless-os"};
  const std::optional<HttpReply> reply = AnswerPreflight(kOne, head);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 204);
  EXPECT_EQ(HeaderOf(reply->headers, "Access-Control-Allow-Headers"),
            "authorization,x-stainless-os");
  EXPECT_EQ(HeaderOf(reply->headers, "Access-Control-Allow-Methods"), "GET, POST, OPTIONS");
  EXPECT_FALSE(AnswerPreflight({}, head)) << "CORS is off";
  EXPECT_FALSE(AnswerPreflight(kOne, {.method = "POST"}));
}

TEST(Cors, RepeatsNothingButHeaderNames) {
  const std::optional<HttpReply> reply =
      AnswerPreflight(kOne, {.method = "OPTIONS",
                             .origin = "https://ui.example",
                             .requested_headers = "x\r\nSet-Cookie: a=b"});
  EXPECT_EQ(HeaderOf(reply->headers, "Access-Control-Allow-Headers"), "");
}

TEST(Cors, KnowsAnOrigin) {
  for (const char* good : {"*", "https://ui.example", "http://localhost:3000"}) {
    EXPECT_TRUE(IsOrigin(good)) << good;
  }
  for (const char* bad :
       {"", "ui.example", "https://", "https://ui.example/", "https://*.example"}) {
    EXPECT_FALSE(IsOrigin(bad)) << bad;
  }
}

TEST(TraceIds, TakesAClientsIdOnlyWhenItIsHarmless) {
  EXPECT_TRUE(IsRequestId("abc-123"));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\r\nb"));
  EXPECT_TRUE(IsRequestId(std::string(128, 'x')));
  EXPECT_FALSE(IsRequestId(std::string(129, 'x')));
}

TEST(TraceIds, KnowsATraceParent) {
  EXPECT_TRUE(IsTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  for (const char* bad : {"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                          "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                          "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                          "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(IsTraceParent(bad)) << bad;
  }
}

}  // namespace
}  // namespace janus::gateway
