#pragma once

#include <memory>
#include <string>

#include "operator/reconcile/model/fetch_questions.h"

namespace janus::control {

// The calls of proto/fetch.proto, in plain text: a Job's pod has no certificate. Thread-safe.
class GrpcFetchQuestions final : public FetchQuestions {
 public:
  std::unique_ptr<FetchQuestion> Ask(const std::string& address, Wake wake) override;
};

}  // namespace janus::control
