#pragma once

#include <string_view>

namespace janus::gateway {

// A client's X-Request-Id that is taken as it is: 1 to 128 visible ASCII characters.
bool IsRequestId(std::string_view id);

// A traceparent of W3C Trace Context, version 00: 00-<32 hex>-<16 hex>-<2 hex>, in lower case and
// with neither id all zero.
bool IsTraceParent(std::string_view text);

}  // namespace janus::gateway
