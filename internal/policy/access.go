package policy

import (
	"fmt"

	"tidegate/internal/route"
)

// MaxAllow bounds the patterns that a plan or a key opens.
const MaxAllow = 20

// allowErrors checks a list of patterns; at is the name of what has it.
func allowErrors(at string, allow []route.Pattern) []FieldError {
	if len(allow) > MaxAllow {
		return []FieldError{{at, fmt.Sprintf("%d given: must be at most %d", len(allow), MaxAllow)}}
	}
	var fields []FieldError
	for i, p := range allow {
		for _, e := range p.Errors() {
			fields = append(fields, FieldError{fmt.Sprintf("%s[%d].%s", at, i, e.Field), e.Message})
		}
	}
	return fields
}

// AccessProblem says why a key may not call a route: its own list or its plan's does not
// open it. It is empty when both do.
func AccessProblem(k Key, plan Plan, call route.Call) string {
	switch {
	case !opens(k.Allow, call):
		return "the key does not open this route"
	case !opens(plan.Allow, call):
		return "the plan does not open this route"
	}
	return ""
}

// opens reports whether a list, when there is one, has a pattern that matches the call. A
// list that is not valid opens nothing.
func opens(allow []route.Pattern, call route.Call) bool {
	if len(allow) == 0 {
		return true
	}
	list, err := route.NewList(allow)
	return err == nil && list.Matches(call)
}
