#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "operator/kube/object_api.h"

namespace janus::control {

// An HTTP request for objects, without the parts that do not matter.
struct ObjectRequest {
  std::string method;
  std::string path;  // decoded
  std::string content_type;
  std::string body;
  // Value of a query parameter, decoded; empty: absent.
  std::function<std::string(std::string_view name)> query;
};

struct ObjectReply {
  int status = 200;
  std::string body;  // JSON: an object, a list, or a v1 Status
};

// Answers like an API server, from `api`, which writes under the field manager name that the caller
// gave. Thread-safe.
ObjectReply AnswerObjectCall(ObjectApi& api, const ObjectRequest& request);

}  // namespace janus::control
