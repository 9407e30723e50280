package rest

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// IfMatch is the version that a change is based on.
type IfMatch struct {
	IfMatch string `header:"If-Match" maxLength:"100" example:"\"7\"" doc:"ETag of the version that the change is based on; * for whichever there is"`
}

// ETag is the tag of a version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

var etagPattern = regexp.MustCompile(`^"([0-9]{1,18})"$`)

// Missing is the answer to a change that is based on nothing.
func (m IfMatch) Missing() error {
	if m.IfMatch != "" {
		return nil
	}
	return NewProblem(http.StatusPreconditionRequired,
		"Send If-Match with the ETag that you read, so that nobody's change is lost; * to change whatever "+
			"is there.")
}

// Any reports whether the change goes on top of whichever version there is.
func (m IfMatch) Any() bool { return m.IfMatch == "" || m.IfMatch == "*" }

// Version is the one that the change is based on, given the current one. It fails with
// 412 when they differ. Weak and unknown tags match nothing.
func (m IfMatch) Version(current int64) (int64, error) {
	if m.Any() {
		return current, nil
	}
	found := etagPattern.FindStringSubmatch(m.IfMatch)
	if found == nil {
		return 0, Stale(current, nil)
	}
	given, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil || given != current {
		return 0, Stale(current, &given)
	}
	return given, nil
}

// Stale is the answer to a change that is based on another version than the current one.
func Stale(current int64, given *int64) *Problem {
	based := "on no version of this API"
	if given != nil {
		based = fmt.Sprintf("on version %d", *given)
	}
	p := NewProblem(http.StatusPreconditionFailed,
		fmt.Sprintf("There is version %d by now; the change was based %s. Nothing was written: read it "+
			"again.", current, based))
	p.Current, p.Given = &current, given
	p.header.Set("ETag", ETag(current))
	return p
}
