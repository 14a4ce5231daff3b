#include "operator/local/machine.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace janus::control {
namespace {

TEST(Machine, NamesAPortInUse) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  const Status taken = FindPort("127.0.0.1", port).status();
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(taken.message().find("127.0.0.1:" + std::to_string(port) + ": the port is in use"),
            std::string::npos)
      << taken.message();
  close(fd);
  EXPECT_EQ(*FindPort("127.0.0.1", port), port);
  EXPECT_GT(*FindPort("127.0.0.1", 0), 0);
}

TEST(Machine, RefusesAnAddressThatIsNotHere) {
  EXPECT_EQ(
      FindPort("203.0.113.7", 8000).status(),
      InvalidArgument("203.0.113.7:8000: cannot listen: Cannot assign requested address; it is "
                      "not an address of this machine: give another --host, 0.0.0.0 for all "
                      "of them"));
  EXPECT_EQ(FindPort("127.0.0.1", 70'000).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace janus::control
