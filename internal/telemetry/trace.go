package telemetry

import (
	"context"
	"os"
	"strings"
)

const (
	traceKey      = "x-amzn-trace-id" // aws-lambda-go's key of the header in a call's context
	traceVariable = "_X_AMZN_TRACE_ID"
)

// TraceID returns the id of the call's X-Ray trace, such as
// 1-5759e988-bd862e3fe1be46a994272793, or "". It reads the context, or else the Lambda
// runtime's variable.
func TraceID(ctx context.Context) string {
	if header, ok := ctx.Value(traceKey).(string); ok {
		return ParseTrace(header)
	}
	return ParseTrace(os.Getenv(traceVariable))
}

// ParseTrace returns the Root of an X-Amzn-Trace-Id header, or "" if it has no valid one.
func ParseTrace(header string) string {
	for field := range strings.SplitSeq(header, ";") {
		if root, ok := strings.CutPrefix(strings.TrimSpace(field), "Root="); ok {
			if validRoot(root) {
				return root
			}
			return ""
		}
	}
	return ""
}

// validRoot reports whether root is 1-, the time in 8 hexadecimal digits, -, and 24 more
// digits.
func validRoot(root string) bool {
	const timeEnd, length = 10, 35
	if len(root) != length || root[:2] != "1-" || root[timeEnd] != '-' {
		return false
	}
	return strings.Trim(root[2:timeEnd]+root[timeEnd+1:], "0123456789abcdef") == ""
}
