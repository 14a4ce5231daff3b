// Preloaded into a process, makes accept(2) fail: with the error number that the file named by
// FAILING_ACCEPT holds, as long as there is such a file. The connection stays in the listen queue.

#include <dlfcn.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

// The error number to fail with; 0: none.
int Wanted() {
  const char* path = std::getenv("FAILING_ACCEPT");
  FILE* file = path != nullptr ? std::fopen(path, "re") : nullptr;
  if (file == nullptr) return 0;
  int number = 0;
  if (std::fscanf(file, "%d", &number) != 1) number = 0;
  std::fclose(file);
  return number;
}

}  // namespace

extern "C" int accept(int fd, sockaddr* address, socklen_t* length) {
  if (const int number = Wanted(); number != 0) {
    errno = number;
    return -1;
  }
  using Accept = int (*)(int, sockaddr*, socklen_t*);
  static const auto next = reinterpret_cast<Accept>(dlsym(RTLD_NEXT, "accept"));
  return next(fd, address, length);
}
