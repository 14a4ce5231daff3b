#pragma once

#include <string_view>

namespace janus::gateway {

// Whether a client's X-Request-Id is used unchanged: 1 to 128 visible ASCII characters.
bool IsRequestId(std::string_view id);

// Whether `text` is a traceparent of W3C Trace Context, version 00: 00-<32 hex>-<16 hex>-<2 hex>,
// in lower case, with neither id all zero.
bool IsTraceParent(std::string_view text);

}  // namespace janus::gateway
