#pragma once

namespace janus::test {

// A self-signed certificate and its key, for servers in tests.
inline constexpr const char* kPagesCertificate = R"(-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUQ09WRPnGBne7lm+FVNWDGtGlpfwwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFcGFnZXMwIBcNMjYxMTI5MDcxODI5WhgPMjEyNjExMDUwNzE4
MjlaMBAxDjAMBgNVBAMMBXBhZ2VzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
Q+ECj3GGtveRKn2zVlav/nzcdJJQRjUKT7tFtOrv3chScGYi5NnFSaHRokyMoDLs
oOrYPytJVhmX8giIgdacCqNTMFEwHQYDVR0OBBYEFEobDFwDeyYmaClsaP3ExPg/
jbzbMB8GA1UdIwQYMBaAFEobDFwDeyYmaClsaP3ExPg/jbzbMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhALndtbmigdpz7igDjyPYcTE9DCo25xd0
FO2a+VsJ2ZdzAiA9M9Ywi2VcwkAKYdXknybPJ3A5dlL5lc5k0pnUip6Ibg==
-----END CERTIFICATE-----
)";
inline constexpr const char* kPagesKey = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgv4NomOsSvoaw/sx6
dIZ54lShKT+VpHoa786lhEDCMrehRANCAARD4QKPcYa295EqfbNWVq/+fNx0klBG
NQpPu0W06u/dyFJwZiLk2cVJodGiTIygMuyg6tg/K0lWGZfyCIiB1pwK
-----END PRIVATE KEY-----
)";

}  // namespace janus::test
