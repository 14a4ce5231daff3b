#include "cli/load/http_client.h"

#include <httplib.h>

namespace janus::cli {
namespace {

constexpr size_t kMaxErrorBody = 64 << 10;

// An error of the library in words for the caller.
std::string Why(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "cannot connect; check that the server runs and listens at this address";
    case httplib::Error::ConnectionTimeout:
      return "cannot connect within the time limit";
    case httplib::Error::Read:
      return "the server closed the connection, or sent nothing within the time limit, before the "
             "answer was complete";
    case httplib::Error::Write:
      return "the server closed the connection before it had the whole request";
    default:
      return httplib::to_string(error);
  }
}

}  // namespace

struct HttpClient::Connection {
  Connection(const std::string& url, Seconds timeout) : client(url) {
    const auto whole = static_cast<time_t>(timeout.count());
    client.set_connection_timeout(whole);
    client.set_read_timeout(whole);
    client.set_write_timeout(whole);
    client.set_keep_alive(true);
    // Without Nagle's algorithm, which would delay a request: the reply's first byte is timed.
    client.set_tcp_nodelay(true);
  }
  httplib::Client client;
  std::string url;
};

HttpClient::HttpClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::Create(const std::string& url, Seconds timeout,
                                                       const std::string& key) {
  if (!url.starts_with("http://") || url.size() <= 7 || url.find('/', 7) != std::string::npos) {
    return InvalidArgument("'" + url + "' is not an endpoint; want http://host:port");
  }
  auto connection = std::make_unique<Connection>(url, timeout);
  if (!connection->client.is_valid()) {
    return InvalidArgument("'" + url + "' is not an endpoint; want http://host:port");
  }
  if (!key.empty()) connection->client.set_bearer_token_auth(key);
  connection->url = url;
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(connection)));
}

Result<HttpReply> HttpClient::Get(const std::string& path) {
  const httplib::Result result = connection_->client.Get(path);
  if (!result) {
    return Unavailable(connection_->url + path + ": " + Why(result.error()));
  }
  return HttpReply{result->status, result->body};
}

Result<HttpReply> HttpClient::PostStream(const std::string& path, const std::string& json,
                                         const std::function<bool(std::string_view)>& on_bytes) {
  HttpReply reply;
  bool left = false;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
  request.body = json;
  request.response_handler = [&](const httplib::Response& response) {
    reply.status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* data, size_t length, uint64_t, uint64_t) {
    const std::string_view bytes(data, length);
    if (reply.status == 200) {
      left = !on_bytes(bytes);
      return !left;
    }
    reply.body += bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, reply.body.size()));
    return true;
  };
  const httplib::Result result = connection_->client.send(request);
  if (left) return Cancelled("this client stopped reading the answer");
  if (!result) {
    return Unavailable(connection_->url + path + ": " + Why(result.error()));
  }
  reply.status = result->status;
  if (reply.status != 200 && reply.body.empty()) reply.body = result->body;
  return reply;
}

}  // namespace janus::cli
