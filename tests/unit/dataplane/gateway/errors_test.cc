#include "dataplane/gateway/answers/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace janus::gateway {
namespace {

using nlohmann::json;

TEST(ErrorForm, IsChosenByThePath) {
  EXPECT_EQ(ErrorFormOf("/v1/messages"), ErrorForm::kAnthropic);
  EXPECT_EQ(ErrorFormOf("/v1/messages/count_tokens"), ErrorForm::kAnthropic);
  EXPECT_EQ(ErrorFormOf("/v1/chat/completions"), ErrorForm::kOpenAi);
  EXPECT_EQ(ErrorFormOf(""), ErrorForm::kOpenAi);
}

TEST(ErrorJson, NamesNullForWhatIsEmpty) {
  const json error =
      json::parse(ToJson(RequestError{400, "t", "", "", "m\xff"}, ErrorForm::kOpenAi))["error"];
  EXPECT_EQ(error["message"], "m\uFFFD");
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_TRUE(error["code"].is_null());
}

TEST(ErrorReply, CarriesRetryAfter) {
  const HttpReply reply = ToReply(Overloaded("full", 7), ErrorForm::kOpenAi);
  EXPECT_EQ(reply.status, 429);
  ASSERT_EQ(reply.headers.size(), 1u);
  EXPECT_EQ(reply.headers[0], (std::pair<std::string, std::string>("Retry-After", "7")));
}

TEST(ErrorReply, HasAnthropicsTypesAndItsStatusForATimeWithoutInstances) {
  const std::pair<int, std::string> kTypes[] = {{400, "invalid_request_error"},
                                                {401, "authentication_error"},
                                                {404, "not_found_error"},
                                                {405, "invalid_request_error"},
                                                {413, "request_too_large"},
                                                {429, "rate_limit_error"},
                                                {500, "api_error"},
                                                {502, "api_error"},
                                                {504, "timeout_error"}};
  for (const auto& [status, type] : kTypes) {
    const HttpReply reply =
        ToReply(RequestError{status, "t", "c", "p", "why"}, ErrorForm::kAnthropic);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(json::parse(reply.body),
              json({{"type", "error"}, {"error", {{"type", type}, {"message", "why"}}}}));
  }
  const HttpReply none = ToReply(NoWorkers("none"), ErrorForm::kAnthropic);
  EXPECT_EQ(none.status, 529);
  EXPECT_EQ(json::parse(none.body)["error"]["type"], "overloaded_error");
  EXPECT_EQ(none.headers.size(), 1u);
}

}  // namespace
}  // namespace janus::gateway
