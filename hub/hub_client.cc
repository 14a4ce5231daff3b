#include "hub/hub_client.h"

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/format.h"

namespace janus::hub {
namespace {

constexpr int kMaxRedirects = 5;

// False: stopped.
bool Pause(Seconds time, const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The first byte of "bytes 100-199/200"; -1: another form.
int64_t FirstByteOf(std::string_view content_range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!content_range.starts_with(kUnit)) return -1;
  content_range.remove_prefix(kUnit.size());
  int64_t first = -1;
  const char* const end = content_range.data() + content_range.size();
  const auto read = std::from_chars(content_range.data(), end, first);
  return read.ec == std::errc() && read.ptr != end && *read.ptr == '-' ? first : -1;
}

class TextReceiver final : public Receiver {
 public:
  explicit TextReceiver(size_t most) : most_(most) {}

  // A listing is asked for as a whole each time.
  int64_t held() const override { return 0; }
  Status Restart() override {
    text_.clear();
    return OkStatus();
  }
  Status Take(std::string_view bytes) override {
    if (text_.size() + bytes.size() > most_) {
      return InvalidArgument("the listing has more than " + std::to_string(most_) + " bytes");
    }
    text_ += bytes;
    return OkStatus();
  }
  const std::string& text() const { return text_; }

 private:
  const size_t most_;
  std::string text_;
};

}  // namespace

HubClient::Attempt HubClient::Judge(const HttpFailure& failure) const {
  using Kind = HttpFailure::Kind;
  switch (failure.kind) {
    case Kind::kStopped:
      return {Cancelled("stopped")};
    case Kind::kUntrusted:
      return {FailedPrecondition(failure.message +
                                 "; install the certificate of its authority, or name its file in "
                                 "SSL_CERT_FILE")};
    case Kind::kUnknownHost:
    case Kind::kNotConnected:
      return {Unavailable(failure.message + "; check the network and HF_ENDPOINT, or set "
                                            "HF_HUB_OFFLINE=1 to use what the cache holds"),
              was_reached_};
    case Kind::kBroken:
    case Kind::kSinkHadEnough:
      break;
  }
  return {Unavailable(failure.message + "; the connection to the hub breaks off, try again later"),
          true};
}

HubClient::Attempt HubClient::Judge(const Question& question, const HttpHead& head,
                                    const Url& from) const {
  const std::string& repo = question.model.repo;
  const std::string said = from.host + " answers with status " + std::to_string(head.status);
  const std::string token = settings_.token.empty()
                                ? "set HF_TOKEN to the access token of an account that may read it"
                                : "check the token in " + settings_.token_from;
  const std::string& code = head.error_code;
  switch (head.status) {
    case 401:
    case 403:
      if (code == "GatedRepo") {
        return {PermissionDenied(repo + " is gated: accept its licence at " +
                                 settings_.endpoint.Text() + "/" + repo + ", and " +
                                 (settings_.token.empty() ? "set HF_TOKEN to" : "use") +
                                 " an access token of that account")};
      }
      if (code == "RepoNotFound") {
        return {NotFound(
            repo + ": the hub has no such model, or it is private; check the name, or " + token)};
      }
      return {PermissionDenied(repo + ": the hub refuses access (status " +
                               std::to_string(head.status) + "); " + token)};
    case 404:
      if (code == "RevisionNotFound") {
        if (IsCommit(question.model.revision)) {
          return {NotFound(repo + " has no commit " + question.model.revision +
                           " (any more); give a branch, a tag or another commit")};
        }
        return {NotFound(repo + " has no revision '" + question.model.revision +
                         "'; give a branch, a tag or a commit")};
      }
      if (!question.what.empty()) {
        return {NotFound(repo + ": the hub lists " + question.what + " but does not have it")};
      }
      return {NotFound(repo + ": the hub has no such model" +
                       (settings_.token.empty() ? ", or it is private; check the name, or " + token
                                                : "; check the name"))};
    case 429:
      return {ResourceExhausted(
                  "the hub gets too many requests from here (status 429); wait " +
                  (head.retry_after ? Format("%.0f s, as it asks", head.retry_after->count())
                                    : std::string("some minutes")) +
                  std::string(settings_.token.empty() ? ", or set HF_TOKEN, whose limits are higher"
                                                      : "")),
              true, head.retry_after};
    case 408:
    case 500:
    case 502:
    case 503:
    case 504:
      return {Unavailable(said + "; the hub has a fault, try again later"), true, head.retry_after};
    default:
      return {FailedPrecondition(said + "; is HF_ENDPOINT the address of a Hugging Face hub?")};
  }
}

HubClient::Attempt HubClient::TryOnce(const Question& question, const Url& start,
                                      Receiver& receiver, const std::stop_token& stop) {
  Url url = start;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    HttpGet request{url, {{"User-Agent", "janus/" JANUS_VERSION}}, rule_.patience};
    if (IsOwn(url) && !settings_.token.empty()) {
      request.headers.emplace_back("Authorization", "Bearer " + settings_.token);
    }
    const int64_t held = receiver.held();
    if (held > 0) {
      request.headers.emplace_back("Range", "bytes=" + std::to_string(held) + "-");
    }
    Status taken;
    const HttpSink sink{[&](const HttpHead& head) {
                          const bool continues = head.status == 206;
                          if (continues && FirstByteOf(head.content_range) != held) {
                            taken = InvalidArgument(url.host + " sends other bytes than asked for");
                          } else if (!continues) {
                            taken = receiver.Restart();
                          }
                          return taken.ok();
                        },
                        [&](std::string_view bytes) {
                          taken = receiver.Take(bytes);
                          return taken.ok();
                        }};
    const auto reply = SendGet(request, sink, stop);
    if (const auto* const failure = std::get_if<HttpFailure>(&reply)) {
      if (failure->kind == HttpFailure::Kind::kSinkHadEnough) return {taken};
      return Judge(*failure);
    }
    was_reached_ = true;
    const auto& head = std::get<HttpHead>(reply);
    if (head.status == 200 || head.status == 206) return {};
    if (!IsRedirect(head.status)) return Judge(question, head, url);
    Result<Url> next = ResolveLocation(url, head.location);
    if (!next.ok()) return {std::move(next).status().Annotate("a redirect of " + url.host)};
    if (url.use_tls && !next->use_tls) {
      return {FailedPrecondition(url.host + " redirects to " + next->Origin() +
                                 ", which is not encrypted")};
    }
    url = *std::move(next);
  }
  return {FailedPrecondition(start.host + ": redirects without end, the last one to " + url.host +
                             "; is HF_ENDPOINT the address of a Hugging Face hub?")};
}

Status HubClient::GetWhole(const Question& question, const std::string& path, Receiver& receiver,
                           const std::stop_token& stop) {
  Url start = settings_.endpoint;
  start.target += path;
  int fruitless = 0;  // attempts in a row without a new byte
  MonotonicTime progress = MonotonicClock::now();
  for (;;) {
    const int64_t before = receiver.held();
    Attempt attempt = TryOnce(question, start, receiver, stop);
    if (attempt.status.ok() && question.size >= 0 && receiver.held() < question.size) {
      attempt = {Unavailable(question.what + ": the hub ends its reply after " +
                             std::to_string(receiver.held()) + " of " +
                             std::to_string(question.size) + " bytes; try again later"),
                 true};
    }
    if (attempt.status.ok()) return OkStatus();
    if (stop.stop_requested()) return Cancelled("stopped");
    if (!attempt.may_retry) return attempt.status;
    const MonotonicTime now = MonotonicClock::now();
    const bool has_new_bytes = receiver.held() > before;
    fruitless = has_new_bytes ? 1 : fruitless + 1;
    if (has_new_bytes) progress = now;
    const std::optional<Seconds> pause =
        PauseBeforeRetry(rule_, fruitless, now - progress, attempt.retry_after);
    if (!pause) return attempt.status;
    if (!Pause(*pause, stop)) return Cancelled("stopped");
  }
}

Result<Listing> HubClient::List(const ModelId& model, const std::stop_token& stop) {
  TextReceiver text(kMaxListingBytes);
  const std::string path =
      "/api/models/" + model.repo + "/revision/" + PercentEncode(model.revision) + "?blobs=true";
  JANUS_RETURN_IF_ERROR(GetWhole({model, ""}, path, text, stop));
  Result<Listing> listing = ParseListing(text.text());
  if (!listing.ok()) return std::move(listing).status().Annotate(settings_.endpoint.host);
  if (IsCommit(model.revision) && listing->commit != model.revision) {
    return InvalidArgument(settings_.endpoint.host + " lists another commit than " +
                           model.revision);
  }
  return listing;
}

Status HubClient::Fetch(const ModelId& model, const std::string& commit, const RemoteFile& file,
                        Receiver& receiver, const std::stop_token& stop) {
  if (receiver.held() == file.size && file.size > 0) return OkStatus();
  const std::string path = "/" + model.repo + "/resolve/" + commit + "/" + PercentEncode(file.name);
  return GetWhole({model, file.name, file.size}, path, receiver, stop);
}

}  // namespace janus::hub
