/* The first process of every machine and every pod of the test cluster: reaps what is orphaned, and
 * ends when told to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGTERM);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGCHLD);
  sigprocmask(SIG_BLOCK, &watched, 0);
  for (;;) {
    int signal = 0;
    if (sigwait(&watched, &signal) != 0) return 1;
    if (signal != SIGCHLD) return 0;
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
  }
}
