// janus-operator with other workers: lines of the file $JANUS_FENCE_BOOK, which all operators of a
// test share. They do at once what the operator asks. All have the demo model.

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/check.h"
#include "common/model/config.h"
#include "operator/program/run_operator.h"
#include "tests/support/paths.h"
#include "tests/support/reconcile/prompt_members.h"

namespace janus::control {
namespace {

class PromptAnswers final : public ModelQuestions {
 public:
  std::unique_ptr<ModelQuestion> Ask(const std::string&, const std::string&, Wake wake) override {
    wake();
    return std::make_unique<Answered>();
  }

 private:
  class Answered final : public ModelQuestion {
   public:
    bool done() const override { return true; }
    Result<ModelReport> result() const override {
      ModelReport out;
      JANUS_ASSIGN_OR_RETURN(out.config_json,
                             ReadModelConfig(test::SourceDir() + "/examples/demo-model"));
      out.digest = "demo";
      out.room = {int64_t{8} << 30, true, 2, true};
      return out;
    }
  };
};

}  // namespace
}  // namespace janus::control

int main(int argc, char** argv) {
  using namespace janus::control;
  const char* const file = std::getenv("JANUS_FENCE_BOOK");
  JANUS_CHECK(file != nullptr, "JANUS_FENCE_BOOK is not set");
  FenceBook book(file, std::to_string(getpid()));
  return RunOperator(
      argc, argv, [&](const OperatorOptions&, const Timeline& timeline, const CertificateKeeper&) {
        return WorkerCalls{std::make_unique<PromptMembers>(book, timeline),
                           std::make_unique<PromptAnswers>(), nullptr};
      });
}
