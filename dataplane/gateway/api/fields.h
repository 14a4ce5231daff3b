#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/api/parameters.h"
#include "dataplane/gateway/request_error.h"

// How the readers of this folder parse a JSON object. Private to it.
namespace janus::gateway {

// Objects keep the order of their keys: a chat template prints what it gets.
using Json = nlohmann::ordered_json;

// Thrown within this folder only, and caught where a body is parsed. So each of thirty checks takes
// one line.
struct Refused {
  RequestError error;
};

// "'param' must be WANTED, got ...", with at most 100 bytes of the value.
[[noreturn]] void Refuse(std::string_view param, std::string_view wanted, const Json& got);

// The body as JSON. Throws Refused if it nests too deeply, has objects with too many keys, is not
// JSON or is not an object.
Json ParseBody(std::string_view body);

// Reads the parameters of one body by their rows in Parameters(), which hold the bounds.
class Fields {
 public:
  Fields(const Json& root, Endpoint endpoint) : root_(root), endpoint_(endpoint) {}

  // Null when absent or null.
  const Json* Find(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  std::optional<int64_t> Integer(std::string_view name);
  std::optional<double> Number(std::string_view name);
  std::optional<std::string> String(std::string_view name);

  // Refuses every parameter that was not read, unless it is null, has a value that changes nothing,
  // or has no effect here. Unknown ones are refused, or returned.
  std::vector<std::string> Rest(UnknownParameters unknown) const;

 private:
  const Json& root_;
  const Endpoint endpoint_;
  std::vector<std::string_view> seen_;
};

}  // namespace janus::gateway
