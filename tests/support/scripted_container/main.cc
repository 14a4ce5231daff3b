// A container's program for tests of the local node: it serves probes, and files control it.
//
// Probes are /startup, /live, /ready at the address of --metrics, or else of --listen. The folder
// $SCRIPT has a file for each behaviour. The program checks the first two files when it starts, and
// the others at each request:
//   fails           writes the file's text and ends with status 3
//   ignores-sigterm
//   not-started, not-live, not-ready    answers this probe with 503
//   hung            never answers a probe
// Before it serves it writes the files "pid" and "arguments" there, with one argument per line.

#include <httplib.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

namespace {

namespace fs = std::filesystem;

std::string FlagOf(int argc, char** argv, std::string_view flag) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view one(argv[i]);
    if (one.starts_with(flag)) return std::string(one.substr(flag.size()));
  }
  return "";
}

// Atomically: a reader sees the whole file.
void Write(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";
  std::ofstream(fresh) << text;
  fs::rename(fresh, path);
}

// The address where it listens now; empty: it cannot.
std::string Bind(httplib::Server& server, const std::string& address) {
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) {
    constexpr int kIgnored = 80;
    server.set_address_family(AF_UNIX);
    return server.bind_to_port(address.substr(kUnix.size()), kIgnored) ? address : "";
  }
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  int port = std::atoi(address.c_str() + colon + 1);
  if (port == 0) {
    port = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  return port > 0 ? host + ":" + std::to_string(port) : "";
}

}  // namespace

int main(int argc, char** argv) {
  const char* const script = std::getenv("SCRIPT");
  if (script == nullptr) {
    std::cerr << "error: $SCRIPT must name a folder\n";
    return 2;
  }
  const fs::path folder(script);
  if (std::ifstream why(folder / "fails"); why) {
    std::cerr << why.rdbuf() << std::endl;
    return 3;
  }
  if (fs::exists(folder / "ignores-sigterm")) signal(SIGTERM, SIG_IGN);

  httplib::Server server;
  const auto serve = [&](const char* path, const char* unless) {
    server.Get(path, [&folder, unless](const httplib::Request&, httplib::Response& reply) {
      while (fs::exists(folder / "hung")) pause();
      reply.status = fs::exists(folder / unless) ? 503 : 200;
    });
  };
  serve("/startup", "not-started");
  serve("/live", "not-live");
  serve("/ready", "not-ready");

  std::string address = FlagOf(argc, argv, "--metrics=");
  if (address.empty()) address = FlagOf(argc, argv, "--listen=");
  const std::string bound = Bind(server, address);
  if (bound.empty()) {
    std::cerr << "error: cannot listen at '" << address << "'\n";
    return 1;
  }
  std::string arguments;
  for (int i = 1; i < argc; ++i) arguments += std::string(argv[i]) + "\n";
  Write(folder / "arguments", arguments);
  Write(folder / "pid", std::to_string(getpid()));
  std::cout << "scripted-container ready " << bound << std::endl;
  return server.listen_after_bind() ? 0 : 1;
}
