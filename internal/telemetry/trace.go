package telemetry

import (
	"context"
	"os"
	"strings"
)

const (
	traceKey      = "x-amzn-trace-id" // under which aws-lambda-go puts the header into a call's context
	traceVariable = "_X_AMZN_TRACE_ID"
)

// TraceID returns the id of the X-Ray trace that the call belongs to, such as
// 1-5759e988-bd862e3fe1be46a994272793, or "" when there is none. The context of a call
// has it; without one the Lambda runtime's variable of the call that runs has.
func TraceID(ctx context.Context) string {
	if header, ok := ctx.Value(traceKey).(string); ok {
		return ParseTrace(header)
	}
	return ParseTrace(os.Getenv(traceVariable))
}

// ParseTrace returns the Root of an X-Amzn-Trace-Id header, or "" unless it has the form
// of one.
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

// validRoot: 1-, the time in 8 hexadecimal digits, -, 24 more.
func validRoot(root string) bool {
	const timeEnd, length = 10, 35
	if len(root) != length || root[:2] != "1-" || root[timeEnd] != '-' {
		return false
	}
	return strings.Trim(root[2:timeEnd]+root[timeEnd+1:], "0123456789abcdef") == ""
}
