// Package telemetry writes metrics and logs of checks: counts as CloudWatch metrics,
// denials and errors as structured logs with the trace id and without credentials. It
// writes to the function's standard output, which Lambda passes to CloudWatch, so it
// never waits for a network.
package telemetry
