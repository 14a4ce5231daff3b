#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "operator/kube/object_api.h"

namespace janus::control {

// An HTTP request for objects, as far as it decides.
struct ObjectRequest {
  std::string method;
  std::string path;  // decoded
  std::string content_type;
  std::string body;
  // Of the query, decoded; empty: it is not there.
  std::function<std::string(std::string_view name)> query;
};

struct ObjectReply {
  int status = 200;
  std::string body;  // JSON: an object, a list, or a v1 Status
};

// What an API server answers, out of `api`. Fields are owned by who the caller says it is.
// Thread-safe.
ObjectReply AnswerObjectCall(ObjectApi& api, const ObjectRequest& request);

}  // namespace janus::control
