#include "operator/program/metrics_certificate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "operator/certificates/issuer.h"
#include "rpc/credentials/certificate.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

using std::chrono::hours;

KeyPair NewPair() {
  return *MakeAuthority("spiffe://test/metrics", {WallTime(), WallTime(hours(24 * 365 * 100))});
}

class MetricsCertificateTest : public testing::Test {
 protected:
  void Put(const std::string& certificate, const std::string& key) {
    folder_.Write("tls.crt", certificate);
    folder_.Write("tls.key", key);
  }

  TempFolder folder_;
  SimulatedTimeline timeline_;
  const Logger log_{2, LogLevel::kError};
};

TEST_F(MetricsCertificateTest, WithoutAFolderItIsOurOwnAndAnewAfterThirtyDays) {
  MetricsCertificate own("", timeline_, log_);
  const auto first = own.Now();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(CheckKeyPair(first->chain, first->key).ok());
  const auto validity = ValidityOf(first->chain);
  ASSERT_TRUE(validity);
  EXPECT_LT(validity->begin, timeline_.WallNow());
  EXPECT_GT(validity->end, timeline_.WallNow() + hours(24 * 31));
  EXPECT_EQ(own.Now(), first);
  timeline_.Pass(hours(24 * 30));
  EXPECT_NE(own.Now()->chain, first->chain);
}

TEST_F(MetricsCertificateTest, AFolderIsReadAgainAndABadPairChangesNothing) {
  MetricsCertificate mounted(folder_.path(), timeline_, log_);
  EXPECT_EQ(mounted.Now(), nullptr) << "nothing is there yet";
  const KeyPair one = NewPair(), two = NewPair();
  Put(one.certificate, one.key);
  const auto first = mounted.Now();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->chain, one.certificate);
  EXPECT_EQ(mounted.Now(), first);
  Put(two.certificate, one.key);
  EXPECT_EQ(mounted.Now(), first) << "half of a new pair";
  Put(two.certificate, two.key);
  EXPECT_EQ(mounted.Now()->chain, two.certificate);
}

}  // namespace
}  // namespace janus::control
