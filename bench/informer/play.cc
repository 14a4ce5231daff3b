#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/informer/commands.h"
#include "common/check.h"
#include "common/fd.h"
#include "common/read_file.h"

namespace janus::bench {
namespace {

constexpr std::string_view kProtobufMediaType = "application/vnd.kubernetes.protobuf";

void SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    JANUS_CHECK(sent > 0, "the client has gone");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

// The head of one request; empty: the client has disconnected.
std::string ReadHead(int socket) {
  std::string head;
  char c = 0;
  while (head.find("\r\n\r\n") == head.npos) {
    if (recv(socket, &c, 1, 0) != 1) return std::string();
    head += c;
  }
  return head;
}

std::string Reply(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string Chunk(std::string_view bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + std::string(bytes) + "\r\n";
}

std::vector<std::string> ReadLines(const std::string& file) {
  std::vector<std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) out.push_back(line + "\n");
  JANUS_CHECK(!out.empty(), file, "holds no events");
  return out;
}

// Events in protobuf; each follows its size.
std::vector<std::string> ReadFrames(const std::string& file) {
  const Result<std::string> bytes = ReadFile(file, int64_t{1} << 30);
  JANUS_CHECK(bytes.ok(), bytes.status().ToString());
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes->size();) {
    size_t size = 4;
    JANUS_CHECK(bytes->size() - at >= size, file, "ends inside an event");
    for (size_t i = 0; i < 4; ++i) {
      size += size_t{static_cast<unsigned char>((*bytes)[at + i])} << (24 - 8 * i);
    }
    JANUS_CHECK(bytes->size() - at >= size, file, "ends inside an event");
    out.push_back(bytes->substr(at, size));
    at += size;
  }
  return out;
}

struct Events {
  std::vector<std::string> json;
  std::vector<std::string> protobuf;
};

// Sends each event when it is due, as a server does: one chunk each. A slow client delays the
// events; its lateness counts from the time when an event was due.
void Tell(int socket, const std::vector<std::string>& events, double rate, const std::string& log) {
  std::vector<MonotonicTime> due;
  due.reserve(events.size());
  const MonotonicTime begin = MonotonicClock::now() + std::chrono::milliseconds(500);
  for (size_t i = 0; i < events.size(); ++i) {
    const Seconds after(static_cast<double>(i) / rate);
    due.push_back(begin + std::chrono::duration_cast<MonotonicClock::duration>(after));
    std::this_thread::sleep_until(due[i]);
    SendAll(socket, Chunk(events[i]));
  }
  std::ofstream out(log);
  for (const MonotonicTime time : due) {
    out << std::chrono::nanoseconds(time.time_since_epoch()).count() << '\n';
  }
}

void Serve(const Fd& socket, const Events& events, double rate, const std::string& log) {
  for (;;) {
    const std::string head = ReadHead(socket.get());
    if (head.empty()) return;
    if (head.find("sendInitialEvents=") != head.npos) {
      SendAll(socket.get(), Reply("422 Unprocessable Entity",
                                  R"({"kind":"Status","apiVersion":"v1","code":422,)"
                                  R"("reason":"Invalid","message":"no initial events here"})"));
      continue;
    }
    if (head.find("watch=") == head.npos) {
      SendAll(socket.get(), Reply("200 OK", R"({"kind":"PodList","apiVersion":"v1",)"
                                            R"("metadata":{"resourceVersion":"1"},"items":[]})"));
      continue;
    }
    const bool in_protobuf = head.find(kProtobufMediaType) != head.npos;
    const std::string type =
        in_protobuf ? std::string(kProtobufMediaType) + ";stream=watch" : "application/json";
    SendAll(socket.get(),
            "HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nTransfer-Encoding: chunked\r\n\r\n");
    Tell(socket.get(), in_protobuf ? events.protobuf : events.json, rate, log);
    ReadHead(socket.get());  // until the client has enough events and disconnects
    return;
  }
}

}  // namespace

void Play(const std::string& json, const std::string& protobuf, double rate, int port,
          const std::string& log) {
  const Events events{ReadLines(json), ReadFrames(protobuf)};
  JANUS_CHECK(events.json.size() == events.protobuf.size(), events.json.size(),
              events.protobuf.size());
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  JANUS_CHECK(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                  listen(listener.get(), 16) == 0,
              "port", port, "is taken");
  std::printf("serving\n");
  std::fflush(stdout);
  std::vector<std::jthread> connections;
  for (;;) {
    Fd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    setsockopt(socket.get(), IPPROTO_TCP, 1 /* TCP_NODELAY */, &yes, sizeof yes);
    connections.emplace_back(
        [&events, rate, &log, socket = std::move(socket)] { Serve(socket, events, rate, log); });
  }
}

}  // namespace janus::bench
