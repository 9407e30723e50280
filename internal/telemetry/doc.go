// Package telemetry writes metrics and logs of checks: counts as CloudWatch metrics,
// denials and errors as structured logs with the trace id and without credentials. It
// writes to the function's standard output, which Lambda passes to CloudWatch, so it
// never waits for a network.
package telemetry

// LimitCrossed is the attribute event of lines that say that a limit was crossed. The
// forwarder and its subscription filters select lines by it.
const LimitCrossed = "limit_crossed"
