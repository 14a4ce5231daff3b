#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "common/status.h"
#include "hub/http_get.h"
#include "hub/listing.h"
#include "hub/names.h"
#include "hub/retry.h"
#include "hub/settings.h"

namespace janus::hub {

// Where the bytes of a reply go, over several attempts. Called on the caller's thread only.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // How many bytes it holds: the next attempt asks for those behind them.
  virtual int64_t held() const = 0;
  // The server sends the whole again: drop what is held.
  virtual Status Restart() = 0;
  // An error ends the request, and is returned.
  virtual Status Take(std::string_view bytes) = 0;
};

// Asks a hub. Follows redirects, sends the token to the endpoint's origin only, and retries what
// may work later. Thread-safe; calls block until they end or `stop` ends them (Cancelled).
//
// Errors, one sentence each: PermissionDenied (a token or a licence is missing), NotFound (no such
// model, revision or file), ResourceExhausted (too many requests), Unavailable (the hub fails or
// breaks connections), FailedPrecondition (its certificate, its redirects), InvalidArgument (its
// replies).
class HubClient {
 public:
  explicit HubClient(Settings settings)
      : settings_(std::move(settings)), rule_{.patience = settings_.patience} {}

  Result<Listing> List(const ModelId& model, const std::stop_token& stop);

  // Sends the content of a file from receiver.held() to file.size to the receiver. DataLoss: the
  // hub sends more bytes than it lists.
  Status Fetch(const ModelId& model, const std::string& commit, const RemoteFile& file,
               Receiver& receiver, const std::stop_token& stop);

  // Whether List or Fetch failed before the hub ever replied, so that its cause may be this
  // machine's network.
  bool was_never_reached() const { return !was_reached_; }

 private:
  struct Attempt {
    Status status;  // OK: the reply was read to its end
    bool may_retry = false;
    std::optional<Seconds> retry_after = {};
  };

  // What is asked, for messages.
  struct Question {
    const ModelId& model;
    std::string what;   // a file; empty: the listing
    int64_t size = -1;  // of the file
  };

  Status GetWhole(const Question& question, const std::string& path, Receiver& receiver,
                  const std::stop_token& stop);
  Attempt TryOnce(const Question& question, const Url& start, Receiver& receiver,
                  const std::stop_token& stop);
  Attempt Judge(const Question& question, const HttpHead& head, const Url& from) const;
  Attempt Judge(const HttpFailure& failure) const;
  bool IsOwn(const Url& url) const { return url.Origin() == settings_.endpoint.Origin(); }

  const Settings settings_;
  const RetryRule rule_;
  std::atomic<bool> was_reached_ = false;
};

}  // namespace janus::hub
