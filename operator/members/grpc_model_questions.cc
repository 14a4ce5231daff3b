#include "operator/members/grpc_model_questions.h"

#include <chrono>
#include <utility>

#include "operator/members/grpc_question.h"
#include "proto/control.grpc.pb.h"

namespace janus::control {
namespace {

// A worker reads some kilobytes of each model file, perhaps from slow remote storage.
constexpr std::chrono::seconds kAnswer{30};

using Question = GrpcQuestion<ModelQuestion, v1::Control, v1::DescribeModelRequest,
                              v1::DescribeModelReply, ModelReport>;

}  // namespace

std::unique_ptr<ModelQuestion> GrpcModelQuestions::Ask(const std::string& service_uid,
                                                       const std::string& address, Wake wake) {
  const Connections::Security security =
      security_ ? security_(service_uid) : Connections::Security{};
  v1::DescribeModelRequest request;
  request.set_service_uid(service_uid);
  return std::make_unique<Question>(
      address, security.Credentials(), std::move(request), kAnswer, std::move(wake),
      [](auto& stub, auto... call) { stub.DescribeModel(std::move(call)...); });
}

}  // namespace janus::control
