// janus-operator as it is, but for its workers: they are lines of the file $JANUS_FENCE_BOOK, which
// all operators of a test share, and do at once what they are told.

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/check.h"
#include "operator/program/run_operator.h"
#include "tests/support/reconcile/prompt_members.h"

int main(int argc, char** argv) {
  using namespace janus::control;
  const char* const file = std::getenv("JANUS_FENCE_BOOK");
  JANUS_CHECK(file != nullptr, "JANUS_FENCE_BOOK is not set");
  FenceBook book(file, std::to_string(getpid()));
  return RunOperator(
      argc, argv, [&](const OperatorOptions&, const Timeline& timeline, const CertificateKeeper&) {
        return std::make_unique<PromptMembers>(book, timeline);
      });
}
