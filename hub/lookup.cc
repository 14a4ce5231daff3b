#include "hub/lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace janus::hub {
namespace {

std::vector<std::string> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> out;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return out;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
        0) {
      out.emplace_back(text);
    }
  }
  freeaddrinfo(found);
  return out;
}

struct Answer {
  std::mutex mu;
  std::condition_variable_any changed;
  bool is_there = false;
  std::vector<std::string> addresses;
};

}  // namespace

std::vector<std::string> LookUp(const std::string& host, const std::stop_token& stop) {
  const auto answer = std::make_shared<Answer>();
  std::thread([answer, host] {
    std::vector<std::string> addresses = Resolve(host);
    const std::lock_guard lock(answer->mu);
    answer->addresses = std::move(addresses);
    answer->is_there = true;
    answer->changed.notify_all();
  }).detach();
  std::unique_lock lock(answer->mu);
  answer->changed.wait(lock, stop, [&] { return answer->is_there; });
  return answer->addresses;
}

}  // namespace janus::hub
