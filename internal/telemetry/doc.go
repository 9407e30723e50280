// Package telemetry shows operators how checks go: counts as CloudWatch metrics, denials
// and errors as structured logs that carry the trace and hide credentials. It writes to
// the function's standard output, which Lambda hands to CloudWatch, so nothing here waits
// for a network.
package telemetry
