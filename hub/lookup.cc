#include "hub/lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <ctime>
#include <memory>

#include "common/mutex.h"

namespace janus::hub {
namespace {

// What the C library works on until the lookup has ended.
struct Request {
  explicit Request(std::string of) : host(std::move(of)) {
    hints.ai_socktype = SOCK_STREAM;
    work.ar_name = host.c_str();
    work.ar_request = &hints;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() {
    if (work.ar_result != nullptr) freeaddrinfo(work.ar_result);
  }

  const std::string host;
  addrinfo hints = {};
  gaicb work = {};
};

// A lookup that has begun cannot be stopped. The C library writes to its request later, maybe while
// the process exits, so the request is never freed.
void KeepForever(std::unique_ptr<Request> request) {
  static Mutex mu;
  static auto& kept = *new std::vector<std::unique_ptr<Request>>();
  const MutexLock lock(mu);
  kept.push_back(std::move(request));
}

std::vector<std::string> AddressesOf(const addrinfo* found) {
  std::vector<std::string> out;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
        0) {
      out.emplace_back(text);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> LookUp(const std::string& host, const std::stop_token& stop) {
  auto request = std::make_unique<Request>(host);
  gaicb* list[] = {&request->work};
  if (getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr) != 0) return {};
  constexpr timespec kLook = {0, 50'000'000};  // how soon a stop is noticed
  while (gai_error(&request->work) == EAI_INPROGRESS) {
    if (stop.stop_requested()) {
      if (gai_cancel(&request->work) == EAI_NOTCANCELED) KeepForever(std::move(request));
      return {};
    }
    gai_suspend(list, 1, &kLook);
  }
  return gai_error(&request->work) == 0 ? AddressesOf(request->work.ar_result)
                                        : std::vector<std::string>();
}

}  // namespace janus::hub
