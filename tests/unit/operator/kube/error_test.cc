#include "operator/kube/error.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"
#include "tests/support/contains.h"

namespace janus::control {
namespace {

std::string StatusBody(int code, const std::string& reason, const std::string& details = "{}") {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"the words","reason":")" +
         reason + R"(","details":)" + details + R"(,"code":)" + std::to_string(code) + "}";
}

TEST(ApiError, EveryStatusHasTheCodeThatSaysWhatToDo) {
  struct Case {
    int http;
    std::string reason;
    StatusCode code;
  };
  for (const Case& c :
       {Case{400, "BadRequest", StatusCode::kInvalidArgument},
        Case{401, "Unauthorized", StatusCode::kPermissionDenied},
        Case{403, "Forbidden", StatusCode::kPermissionDenied},
        Case{404, "NotFound", StatusCode::kNotFound},
        Case{405, "MethodNotAllowed", StatusCode::kUnimplemented},
        Case{409, "Conflict", StatusCode::kAborted},
        Case{409, "AlreadyExists", StatusCode::kAlreadyExists},
        Case{410, "Expired", StatusCode::kOutOfRange}, Case{410, "Gone", StatusCode::kOutOfRange},
        Case{413, "RequestEntityTooLarge", StatusCode::kInvalidArgument},
        Case{422, "Invalid", StatusCode::kInvalidArgument},
        Case{429, "TooManyRequests", StatusCode::kResourceExhausted},
        Case{500, "InternalError", StatusCode::kUnavailable},
        Case{503, "ServiceUnavailable", StatusCode::kUnavailable},
        Case{504, "Timeout", StatusCode::kUnavailable}, Case{302, "", StatusCode::kDataLoss}}) {
    const ApiError error = ErrorOfReply(c.http, StatusBody(c.http, c.reason), std::nullopt);
    EXPECT_EQ(error.code, c.code) << c.http << " " << c.reason;
    EXPECT_EQ(error.reason, c.reason);
    EXPECT_EQ(error.http_status, c.http);
    // A server that failed in the middle may have written; a refusal wrote nothing.
    EXPECT_EQ(error.outcome_unknown, c.http >= 500) << c.http;
  }
}

TEST(ApiError, CarriesTheServersCausesWithTheirFieldPaths) {
  const ApiError error = ErrorOfReply(
      422,
      StatusBody(422, "Invalid",
                 R"({"causes":[{"reason":"FieldValueInvalid","message":"must be >= 1","field":)"
                 R"("spec.replicas"},{"reason":"FieldValueRequired","message":"needed"}]})"),
      std::nullopt);
  ASSERT_EQ(error.causes.size(), 2U);
  EXPECT_EQ(error.causes[0], (ApiCause{"FieldValueInvalid", "spec.replicas", "must be >= 1"}));
  EXPECT_EQ(error.causes[1].field, "");
  EXPECT_EQ(error.ToStatus().ToString(), "InvalidArgument: the words (422 Invalid)");
}

// With the texts of kube-apiserver 1.35.
TEST(ApiError, AnApplyThatNoSchemaKnowsIsRefusedAndNotTriedAgain) {
  for (const std::string_view words :
       {"failed to create typed patch object (ns/chat-gateway; apps/v1, Kind=Deployment): "
        ".spec.template.spec.containers[name=\\\"gateway\\\"].bogusField: field not declared in "
        "schema",
        "failed to convert new object (ns/chat-gateway; apps/v1, Kind=Deployment) to smd typed: "
        "errors"}) {
    const ApiError error =
        ErrorOfReply(500,
                     R"({"kind":"Status","status":"Failure","code":500,"message":")" +
                         std::string(words) + R"("})",
                     std::nullopt);
    EXPECT_EQ(error.code, StatusCode::kInvalidArgument) << words;
    EXPECT_FALSE(error.outcome_unknown) << words;
  }
}

TEST(ApiError, AnothersUidIsAConflictHoweverItIsTold) {
  const auto code = [](const std::string& field) {
    return ErrorOfReply(422,
                        StatusBody(422, "Invalid",
                                   R"({"causes":[{"reason":"FieldValueInvalid","message":)"
                                   R"("field is immutable","field":")" +
                                       field + R"("}]})"),
                        std::nullopt)
        .code;
  };
  EXPECT_EQ(code("metadata.uid"), StatusCode::kAborted);
  EXPECT_EQ(code("spec.selector"), StatusCode::kInvalidArgument);
}

TEST(ApiError, RetryAfterIsTheHeadersElseTheBodys) {
  const std::string body = StatusBody(429, "TooManyRequests", R"({"retryAfterSeconds":7})");
  EXPECT_EQ(ErrorOfReply(429, body, std::nullopt).retry_after, Seconds(7));
  EXPECT_EQ(ErrorOfReply(429, body, Seconds(3)).retry_after, Seconds(3));
  EXPECT_EQ(ErrorOfReply(503, "", std::nullopt).retry_after, std::nullopt);
  // A Retry-After of a year is not followed.
  EXPECT_EQ(ErrorOfReply(503, "", Seconds(31536000)).retry_after, Seconds(3600));
}

TEST(ApiError, WhatAProxySaysIsShownInPart) {
  const ApiError error =
      ErrorOfReply(502, "<html>\n\x1b[31mBad gateway" + std::string(1000, 'x'), std::nullopt);
  EXPECT_EQ(error.code, StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(error.message, "<html>  [31mBad gateway"));
  EXPECT_LT(error.message.size(), 300U);
}

TEST(ApiError, AnErrorEventOfAWatchIsJudgedByItsCode) {
  const Node expired = *ParseJson(StatusBody(410, "Expired"), "event");
  EXPECT_EQ(ErrorOfStatusObject(expired).code, StatusCode::kOutOfRange);
  const Node odd = *ParseJson(R"({"kind":"Status"})", "event");
  EXPECT_EQ(ErrorOfStatusObject(odd).code, StatusCode::kUnavailable);
  EXPECT_FALSE(ErrorOfStatusObject(odd).message.empty());
}

}  // namespace
}  // namespace janus::control
