#include <memory>

#include "operator/members/grpc_fetch_questions.h"
#include "operator/members/grpc_member_calls.h"
#include "operator/members/grpc_model_questions.h"
#include "operator/members/member_security.h"
#include "operator/program/run_operator.h"

int main(int argc, char** argv) {
  using namespace janus::control;
  return RunOperator(argc, argv,
                     [](const OperatorOptions& options, const Timeline& timeline,
                        const CertificateKeeper& certificates) {
                       GrpcMemberCallsOptions calls;
                       calls.most_connections = static_cast<size_t>(options.worker_connections);
                       calls.security = MemberSecurity(certificates, timeline);
                       return WorkerCalls{std::make_unique<GrpcMemberCalls>(calls),
                                          std::make_unique<GrpcModelQuestions>(calls.security),
                                          std::make_unique<GrpcFetchQuestions>()};
                     });
}
