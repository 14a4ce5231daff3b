// Warning headers, one a line: the parsed text reads as itself when it is written again.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "operator/kube/warnings.h"

namespace janus::control {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "299 - \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace
}  // namespace janus::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> headers;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    headers.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const std::vector<std::string> texts = janus::control::WarningTexts(headers);
  JANUS_CHECK(texts.size() <= 64);
  std::vector<std::string> again;
  std::string one;
  for (const std::string& text : texts) {
    again.push_back(janus::control::Quoted(text));
    one += (one.empty() ? "" : ", ") + again.back();
  }
  JANUS_CHECK(janus::control::WarningTexts(again) == texts);
  JANUS_CHECK(janus::control::WarningTexts({one}) == texts);
  return 0;
}
