#pragma once

#include <memory>
#include <string>
#include <utility>

#include "operator/members/connections.h"
#include "operator/planner/model_questions.h"

namespace janus::control {

// DescribeModel over gRPC, with a new connection for each question: a worker is asked once, and it
// need not be the one that relays. Thread-safe.
class GrpcModelQuestions final : public ModelQuestions {
 public:
  // As in Connections: without it all questions use plain text.
  explicit GrpcModelQuestions(Connections::SecurityOf security = nullptr)
      : security_(std::move(security)) {}

  std::unique_ptr<ModelQuestion> Ask(const std::string& service_uid, const std::string& address,
                                     Wake wake) override;

 private:
  const Connections::SecurityOf security_;
};

}  // namespace janus::control
