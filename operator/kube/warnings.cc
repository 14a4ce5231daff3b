#include "operator/kube/warnings.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace janus::control {
namespace {

constexpr size_t kMostTexts = 64;

// Parses a header. After an error it returns no more warnings.
class WarningReader {
 public:
  explicit WarningReader(std::string_view header) : rest_(header) {}

  // The next warning's text, empty if it is not the API's; nothing: no more warnings.
  std::optional<std::string> Next() {
    SkipSpace();
    const std::string_view code = Word();
    const std::string_view agent = Word();
    const bool is_code = code.size() == 3 && std::all_of(code.begin(), code.end(), [](char c) {
                           return c >= '0' && c <= '9';
                         });
    if (!is_code || agent.empty()) return std::nullopt;
    std::optional<std::string> text = Quoted();
    if (!text) return std::nullopt;
    SkipSpace();
    if (rest_.starts_with('"') && !Quoted()) return std::nullopt;  // a date
    SkipSpace();
    // Without a comma this is the last one.
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
    } else {
      rest_ = {};
    }
    return code == "299" ? text : "";
  }

 private:
  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  // Reads up to the next space, and skips that.
  std::string_view Word() {
    const size_t end = rest_.find(' ');
    if (end == rest_.npos) return {};
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return word;
  }
  std::optional<std::string> Quoted() {
    if (!rest_.starts_with('"')) return std::nullopt;
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) return std::nullopt;
      const auto c = static_cast<unsigned char>(rest_[i]);
      if (c < 0x20 || c == 0x7f) return std::nullopt;
      text += rest_[i];
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

}  // namespace

std::vector<std::string> WarningTexts(const std::vector<std::string>& headers) {
  std::vector<std::string> out;
  for (const std::string& header : headers) {
    WarningReader reader(header);
    while (std::optional<std::string> text = reader.Next()) {
      if (out.size() == kMostTexts) return out;
      if (!text->empty()) out.push_back(*std::move(text));
    }
  }
  return out;
}

void ServerWarnings::Tell(std::string_view text, std::string_view method, std::string_view path) {
  const std::string shown(text.substr(0, kMostShown));
  {
    const MutexLock lock(mu_);
    if (std::find(told_.begin(), told_.end(), shown) != told_.end()) return;
    if (told_.size() == kMostRemembered) told_.pop_front();
    told_.push_back(shown);
  }
  log_.Warning("the API server warns", {{"text", shown}, {"method", method}, {"path", path}});
}

}  // namespace janus::control
