#include "hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "common/read_file.h"

namespace janus::hub {
namespace {

constexpr int64_t kMaxTokenFileBytes = 4096;
constexpr int kMaxPatience = 3600;
constexpr const char* kPublicHub = "https://huggingface.co";

class Reader {
 public:
  explicit Reader(FunctionRef<std::string(const char*)> variable) : variable_(variable) {}

  Result<Settings> Read() {
    Settings out;
    JANUS_ASSIGN_OR_RETURN(const std::string home, Path("HF_HOME", [this]() -> Result<std::string> {
                             JANUS_ASSIGN_OR_RETURN(const std::string caches,
                                                    Path("XDG_CACHE_HOME", [this] {
                                                      return Below(InHome("~"), ".cache");
                                                    }));
                             return caches + "/huggingface";
                           }));
    JANUS_ASSIGN_OR_RETURN(
        out.cache, Path("HF_HUB_CACHE", [&]() -> Result<std::string> { return home + "/hub"; }));
    std::string endpoint = variable_("HF_ENDPOINT");
    if (endpoint.empty()) endpoint = kPublicHub;
    Result<Url> url = ParseUrl(endpoint);
    if (!url.ok()) return std::move(url).status().Annotate("HF_ENDPOINT");
    out.endpoint = *std::move(url);
    if (out.endpoint.target.find('?') != std::string::npos) {
      return InvalidArgument("HF_ENDPOINT: '" + endpoint + "' has a query; want https://host:port");
    }
    while (out.endpoint.target.ends_with('/')) out.endpoint.target.pop_back();
    out.offline = IsTrue("HF_HUB_OFFLINE");
    JANUS_RETURN_IF_ERROR(ReadPatience(out));
    JANUS_RETURN_IF_ERROR(ReadToken(home, out));
    return out;
  }

 private:
  static Result<std::string> Below(Result<std::string> folder, const std::string& name) {
    if (!folder.ok()) return folder;
    return *folder + "/" + name;
  }

  Result<std::string> InHome(const std::string& path) {
    if (!path.starts_with('~') || (path.size() > 1 && path[1] != '/')) return path;
    const std::string home = variable_("HOME");
    if (home.empty()) {
      return FailedPrecondition(
          "no folder for models: HOME is not set; set HF_HUB_CACHE to a folder");
    }
    return home + path.substr(1);
  }

  // The absolute path in a variable; if the variable is not set, `otherwise`.
  Result<std::string> Path(const char* name, FunctionRef<Result<std::string>()> otherwise) {
    const std::string value = variable_(name);
    JANUS_ASSIGN_OR_RETURN(std::string path, value.empty() ? otherwise() : InHome(value));
    std::error_code error;
    path = std::filesystem::absolute(path, error).lexically_normal().string();
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
  }

  bool IsTrue(const char* name) {
    std::string value = variable_(name);
    std::ranges::transform(value, value.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
  }

  Status ReadPatience(Settings& out) {
    const std::string text = variable_("HF_HUB_DOWNLOAD_TIMEOUT");
    if (text.empty()) return OkStatus();
    int seconds = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, seconds);
    if (read.ec != std::errc() || read.ptr != end || seconds < 1 || seconds > kMaxPatience) {
      return InvalidArgument("HF_HUB_DOWNLOAD_TIMEOUT is '" + text + "'; want seconds, 1.." +
                             std::to_string(kMaxPatience));
    }
    out.patience = Seconds(seconds);
    return OkStatus();
  }

  Status ReadToken(const std::string& home, Settings& out) {
    out.token = variable_("HF_TOKEN");
    out.token_from = "HF_TOKEN";
    if (out.token.empty()) {
      JANUS_ASSIGN_OR_RETURN(
          const std::string file,
          Path("HF_TOKEN_PATH", [&]() -> Result<std::string> { return home + "/token"; }));
      Result<std::string> text = ReadFile(file, kMaxTokenFileBytes);
      if (text.status().code() == StatusCode::kNotFound) {
        out.token_from.clear();
        return OkStatus();
      }
      JANUS_RETURN_IF_ERROR(text.status());
      out.token = *std::move(text);
      out.token_from = file;
    }
    constexpr std::string_view kSpace = " \t\r\n";
    out.token.erase(0, std::min(out.token.find_first_not_of(kSpace), out.token.size()));
    while (!out.token.empty() && kSpace.find(out.token.back()) != kSpace.npos) out.token.pop_back();
    if (out.token.empty()) out.token_from.clear();
    if (std::ranges::all_of(out.token, [](char c) { return c > ' ' && c <= '~'; })) {
      return OkStatus();
    }
    return InvalidArgument(out.token_from +
                           ": holds spaces or control characters; want one access token");
  }

  FunctionRef<std::string(const char*)> variable_;
};

}  // namespace

Result<Settings> ReadSettings(FunctionRef<std::string(const char* name)> variable) {
  return Reader(variable).Read();
}

Result<Settings> ReadSettings() {
  return ReadSettings([](const char* name) -> std::string {
    const char* const value = getenv(name);
    return value == nullptr ? "" : value;
  });
}

}  // namespace janus::hub
