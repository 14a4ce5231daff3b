// kube-bench COMMAND ...: the program that bench/informer.py runs. See commands.h.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/informer/commands.h"

int main(int argc, char** argv) {
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  const std::string_view command = argc < 2 ? "" : argv[1];
  if (command == "fill" && argc == 3) {
    janus::bench::Fill(number(2));
  } else if (command == "thin" && argc == 4) {
    janus::bench::Thin(number(2), number(3));
  } else if (command == "record" && argc == 5) {
    janus::bench::Record(argv[2], number(3), number(4));
  } else if (command == "churn" && argc == 6) {
    janus::bench::Churn(number(2), number(3), number(4), argv[5]);
  } else if (command == "follow" && argc == 3) {
    janus::bench::Follow(number(2));
  } else if (command == "play" && argc == 7) {
    janus::bench::Play(argv[2], argv[3], number(4), number(5), argv[6]);
  } else if (command == "hear" && argc == 5) {
    janus::bench::Hear(number(2), number(3), argv[4]);
  } else {
    std::fputs(
        "usage: kube-bench fill COUNT | thin COUNT STEP | record FILE RUNNING DELETED |\n"
        "       churn COUNT STEP WRITES LOG | follow COUNT |\n"
        "       play JSON PROTOBUF RATE PORT LOG | hear PORT COUNT LOG\n",
        stderr);
    return 2;
  }
  return 0;
}
