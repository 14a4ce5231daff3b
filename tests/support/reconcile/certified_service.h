#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/base64.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "rpc/credentials/certificate.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {

// A service in the namespace "janus"; its operator issues short-lived certificates.
struct CertifiedDemo : SimulatedService {
  explicit CertifiedDemo(Seconds authority = Seconds(600), Seconds leaf = Seconds(120)) {
    CertificateOptions certificates;
    certificates.ns = "janus";
    certificates.lifetimes.authority = authority;
    certificates.lifetimes.leaf = leaf;
    certificates.lifetimes.spread = Seconds(60);
    keeper.emplace(certificates);
    Node ns = Node::Map();
    SetAt(ns, {"apiVersion"}, Node::String("v1"));
    SetAt(ns, {"kind"}, Node::String("Namespace"));
    SetAt(ns, {"metadata", "name"}, Node::String("janus"));
    const Resource namespaces{"", "v1", "namespaces", "Namespace", false};
    EXPECT_TRUE(user.Create(namespaces, ns, {}, {}).ok());
    options.certificates = &*keeper;
    options.defaults.certificates = true;
    RestartOperator();
  }
  std::string Field(const std::string& role, const std::string& name) {
    const std::optional<Node> secret = Get(kSecrets, TlsSecretName("demo", role));
    if (!secret) return "";
    return DecodeBase64(TextAt(*secret, {"data", name})).value();
  }
  PeerVerdict Judge(const std::string& role, const std::string& bundle) {
    return TrustBundle::Parse(bundle).value()->Judge(Field(role, "tls.crt"), timeline.WallNow());
  }
  size_t Authorities() {
    ListOptions all;
    all.selection.namespace_ = "janus";
    return user.List(kSecrets, all, {}).value().items.size();
  }
  std::string Uid() { return std::string(UidOf(Service())); }
  std::optional<CertificateKeeper> keeper;
};

}  // namespace janus::control
