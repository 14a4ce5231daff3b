module janus.invalid/e2e/monitoring

go 1.26.8

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
