#include "dataplane/worker/supervise/fetch_pages.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "common/fd.h"
#include "rpc/page_server.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

using Answers = std::vector<std::optional<std::string>>;

TEST(FetchPages, GetsWholePagesFromAllThatAnswerInTime) {
  const TempFolder folder;
  const auto path = [&](const std::string& name) { return folder.path() + "/" + name; };
  const std::string large(1 << 20, 'x');
  const auto server =
      *PageServer::Create("unix:" + path("server"), {{"/small",
                                                      [] {
                                                        return Page{200, "small\n"};
                                                      }},
                                                     {"/large",
                                                      [&] {
                                                        return Page{200, large};
                                                      }},
                                                     {"/not", [] {
                                                        return Page{503, "not now\n"};
                                                      }}});
  // It accepts connections, as the kernel does for every listener, and never answers.
  const Fd hangs(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path("hangs").c_str());
  ASSERT_EQ(bind(hangs.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(hangs.get(), 8), 0);
  const auto within = Scaled(std::chrono::milliseconds(5000));
  EXPECT_EQ(FetchPages({path("server"), path("absent"), path("server")}, "/small", within),
            (Answers{"small\n", std::nullopt, "small\n"}));
  EXPECT_EQ(FetchPages({path("server")}, "/large", within), Answers{large});
  EXPECT_EQ(FetchPages({path("server")}, "/not", within), Answers{std::nullopt});
  EXPECT_EQ(FetchPages({path("server")}, "/absent", within), Answers{std::nullopt});
  EXPECT_EQ(FetchPages({path("hangs")}, "/small", std::chrono::milliseconds(20)),
            Answers{std::nullopt});
  EXPECT_EQ(FetchPages({}, "/small", within), Answers{});
}

}  // namespace
}  // namespace janus::dataplane
