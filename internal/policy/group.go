package policy

import (
	"fmt"
	"strings"

	"tidegate/internal/limiter"
)

// MaxGroupLen bounds the name of a group, in bytes.
const MaxGroupLen = 64

// GroupProblem says what is wrong with the name of a group; it is empty when nothing is.
// A name fits into a path, and JSON and Valkey hold it as it is.
func GroupProblem(name string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	other := func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-:@", r) }
	if name == "" || len(name) > MaxGroupLen || !plain(rune(name[0])) ||
		strings.ContainsFunc(name, other) {
		return fmt.Sprintf("must be 1 to %d letters, digits and . _ - : @, and begin with a letter or digit",
			MaxGroupLen)
	}
	return ""
}

// groupErrors checks a plan's limits per group. The keys of a group share them.
func groupErrors(field string, limits []limiter.Limit, routes []Route) []FieldError {
	fields := append(limitErrors(field, limits, false), costErrors(field, limits, routes)...)
	for i, l := range limits {
		if l.CountDenied && l.Algorithm == limiter.Log {
			at := fmt.Sprintf("%s[%d].countDenied", field, i)
			fields = append(fields, FieldError{at, sharedCountDenied})
		}
	}
	return fields
}
