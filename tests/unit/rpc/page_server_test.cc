#include "rpc/page_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "tests/support/contains.h"
#include "tests/support/pages_certificate.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus {
namespace {

std::unique_ptr<PageServer> Serve(const std::string& address = "127.0.0.1:0",
                                  const PageServer::OtherPages& others = nullptr) {
  auto server = PageServer::Create(address,
                                   {{"/healthz",
                                     [] {
                                       return Page{200, "ok\n"};
                                     }},
                                    {"/readyz",
                                     [] {
                                       return Page{503, "not yet\n"};
                                     }},
                                    {"/large",
                                     [] {
                                       return Page{200, std::string(4 << 20, 'x')};
                                     }}},
                                   others);
  EXPECT_TRUE(server.ok()) << server.status().message();
  return std::move(*server);
}

httplib::Client ClientOf(const PageServer& server) {
  httplib::Client client("http://" + server.address());
  client.set_read_timeout(Scaled(std::chrono::seconds(20)));
  return client;
}

// A connection that the server has, or is about to have.
Fd Connect(const PageServer& server) {
  Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(
      static_cast<uint16_t>(std::stoi(server.address().substr(server.address().rfind(':') + 1))));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  return socket;
}

TEST(PageServer, AnswersEachPathWithItsPage) {
  const auto server = Serve();
  httplib::Client client = ClientOf(*server);
  const httplib::Result health = client.Get("/healthz?verbose=1");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  EXPECT_EQ(health->body, "ok\n");
  EXPECT_EQ(health->get_header_value("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(client.Get("/readyz")->status, 503);
  EXPECT_EQ(client.Get("/readyz")->body, "not yet\n");
  EXPECT_EQ(client.Get("/else")->status, 404);
  EXPECT_EQ(client.Get("/large")->body.size(), size_t{4} << 20);
  EXPECT_EQ(client.Post("/healthz")->status, 405);
  const httplib::Result head = client.Head("/healthz");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
}

TEST(PageServer, AsksForOtherPagesWithTheHost) {
  const auto server = Serve("127.0.0.1:0", [](const std::string& path, const std::string& host) {
    return Page{200, path + " of " + host};
  });
  httplib::Client client = ClientOf(*server);
  EXPECT_EQ(client.Get("/a/b?c=d")->body, "/a/b of " + server->address());
  EXPECT_EQ(client.Get("/healthz")->body, "ok\n");
}

TEST(PageServer, SilentClientsDelayNobody) {
  const auto server = Serve();
  std::vector<Fd> silent;
  httplib::Client client = ClientOf(*server);
  for (int i = 0; i < 500; ++i) {
    silent.push_back(Connect(*server));
    EXPECT_EQ(send(silent.back().get(), "G", 1, MSG_NOSIGNAL), 1);
    // One after the other, they would take minutes.
    if (i % 100 == 99) {
      EXPECT_EQ(client.Get("/healthz")->status, 200) << i;
    }
  }
  // The server ends while they are there.
}

TEST(PageServer, ASlowReaderDelaysNobody) {
  const auto server = Serve();
  const Fd slow = Connect(*server);
  const std::string request = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(slow.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  httplib::Client client = ClientOf(*server);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.Get("/healthz")->status, 200);
}

TEST(PageServer, ClosesASilentConnection) {
  const auto server = Serve();
  const Fd silent = Connect(*server);
  char byte = 0;
  EXPECT_EQ(recv(silent.get(), &byte, 1, 0), 0) << "within PageServer::kSilence";
}

TEST(PageServer, NoiseIsNoRequest) {
  const auto server = Serve();
  for (const std::string& noise :
       {std::string("\x16\x03\x01 not HTTP\r\n\r\n"), std::string(100'000, 'a'),
        std::string("GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")}) {
    const Fd socket = Connect(*server);
    static_cast<void>(send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL));
    shutdown(socket.get(), SHUT_WR);
    std::string answer(4096, '\0');
    const ssize_t got = recv(socket.get(), answer.data(), answer.size(), MSG_WAITALL);
    EXPECT_FALSE(
        Contains(answer.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0))), " 200 "))
        << noise.substr(0, 40);
  }
  EXPECT_EQ(ClientOf(*server).Get("/healthz")->status, 200);
}

TEST(PageServer, ListensAtASocketFileAndLeavesNoneBehind) {
  const TempFolder folder;
  const std::string path = folder.path() + "/pages";
  {
    const auto server = Serve("unix:" + path);
    EXPECT_EQ(server->address(), "unix:" + path);
    httplib::Client client(path);
    client.set_address_family(AF_UNIX);
    EXPECT_EQ(client.Get("/healthz")->body, "ok\n");
    EXPECT_EQ(PageServer::Create("unix:" + path, {}).status().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(std::filesystem::exists(path)) << "the file of the first";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PageServer, SaysWhyItCannotListen) {
  const auto server = Serve();
  for (const std::string& taken : {server->address(), std::string("unix:/nowhere/x")}) {
    EXPECT_EQ(PageServer::Create(taken, {}).status(),
              Unavailable("cannot listen at '" + taken +
                          "'; check that it is free and that its host or folder exists"));
  }
  for (const char* const bad : {"8080", ":8080", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"}) {
    EXPECT_EQ(PageServer::Create(bad, {}).status(),
              InvalidArgument("'" + std::string(bad) +
                              "' is not an address; want HOST:PORT, for example 0.0.0.0:8080, or "
                              "unix:/PATH"));
  }
}

class SecurePages : public testing::Test {
 protected:
  SecurePages() {
    // As the programs do: a client of this test writes after the server has closed.
    signal(SIGPIPE, SIG_IGN);
    PageAccess access;
    access.certificate = [this] { return pair_; };
    access.refuse = [](const std::string& authorization,
                       const std::string& path) -> std::optional<Page> {
      if (authorization == "Bearer good") return std::nullopt;
      return Page{401, "no right to " + path + "\n"};
    };
    auto server = PageServer::Create("127.0.0.1:0",
                                     {{"/metrics",
                                       [] {
                                         return Page{200, std::string(1 << 20, 'x')};
                                       }}},
                                     nullptr, std::move(access));
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }

  httplib::Client Client() const {
    httplib::Client client("https://" + server_->address());
    client.enable_server_certificate_verification(false);
    client.set_read_timeout(Scaled(std::chrono::seconds(20)));
    return client;
  }

  std::shared_ptr<const PageCertificate> pair_ =
      std::make_shared<PageCertificate>(PageCertificate{test::kPagesCertificate, test::kPagesKey});
  std::unique_ptr<PageServer> server_;
};

TEST_F(SecurePages, AreReadOverTlsByCallersThatAreNotRefused) {
  httplib::Client client = Client();
  const httplib::Result refused = client.Get("/metrics");
  ASSERT_TRUE(refused) << httplib::to_string(refused.error());
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(refused->body, "no right to /metrics\n");
  EXPECT_EQ(refused->get_header_value("WWW-Authenticate"), "Bearer");
  client.set_bearer_token_auth("good");
  EXPECT_EQ(client.Get("/metrics")->body.size(), size_t{1} << 20);
  EXPECT_EQ(client.Get("/else")->status, 404);
}

TEST_F(SecurePages, AreNotServedInPlainText) {
  httplib::Client plain = ClientOf(*server_);
  plain.set_bearer_token_auth("good");
  EXPECT_FALSE(plain.Get("/metrics"));
}

TEST_F(SecurePages, NeedACertificate) {
  pair_ = nullptr;
  EXPECT_FALSE(Client().Get("/else"));
}

TEST_F(SecurePages, AClientThatSaysNothingDelaysNoOther) {
  std::vector<Fd> silent;
  for (int i = 0; i < 2 * PageServer::kMostConnections; ++i) silent.push_back(Connect(*server_));
  httplib::Client client = Client();
  client.set_bearer_token_auth("good");
  const httplib::Result page = client.Get("/metrics");
  ASSERT_TRUE(page) << httplib::to_string(page.error());
  EXPECT_EQ(page->status, 200);
}

}  // namespace
}  // namespace janus
