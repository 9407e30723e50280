package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// IfMatch has the header fields with the versions that a change is based on, as RFC 9110
// defines them.
type IfMatch struct {
	IfMatch     string `header:"If-Match" maxLength:"1000" example:"\"7\"" doc:"ETag of the version that the change is based on, or a list of them; * for any version. A weak one matches nothing"`
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"The change is refused if one of these ETags is the current one, or for *"`
}

// IfNoneMatch is the header field with the versions that the caller has.
type IfNoneMatch struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"ETags of versions that the caller has: 304 if one of them is the current one"`
}

// NotModified reports whether the caller has the current version.
func (m IfNoneMatch) NotModified(current int64) bool {
	return m.IfNoneMatch != "" && slices.ContainsFunc(tagsOf(m.IfNoneMatch), func(t tag) bool {
		return t.any || t.version == current
	})
}

// Cached is an answer that is the same for one version: 304 without a body for a caller who
// has it.
type Cached[T any] struct {
	Status      int
	ETag        string `header:"ETag"`
	ContentType string `header:"Content-Type"`
	Body        T
}

// CachedAs returns an answer for a version.
func CachedAs[T any](m IfNoneMatch, version int64, body T) *Cached[T] {
	c := &Cached[T]{Status: http.StatusOK, ETag: ETag(version)}
	if m.NotModified(version) {
		c.Status = http.StatusNotModified
		return c
	}
	c.Body = body
	return c
}

// ETag returns the entity tag of a version.
func ETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// tag is an entity tag of a request.
type tag struct {
	any     bool // *
	weak    bool
	version int64 // -1 for a tag that this API never sends
}

// tagsOf reads a list of entity tags; what is none is a tag that this API never sends.
func tagsOf(list string) []tag {
	var tags []tag
	for list = strings.Trim(list, ", \t"); list != ""; list = strings.TrimLeft(list, ", \t") {
		if list == "*" {
			return append(tags, tag{any: true, version: -1})
		}
		rest, weak := strings.CutPrefix(list, "W/")
		opaque, after, closed := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
		after = strings.TrimLeft(after, " \t")
		if !strings.HasPrefix(rest, `"`) || !closed || after != "" && after[0] != ',' {
			return append(tags, tag{version: -1})
		}
		version, err := strconv.ParseInt(opaque, 10, 64)
		if err != nil || strconv.FormatInt(version, 10) != opaque {
			version = -1
		}
		tags, list = append(tags, tag{weak: weak, version: version}), after
	}
	return tags
}

// Missing returns the problem of a change without If-Match, or nil.
func (m IfMatch) Missing() error {
	if m.IfMatch != "" {
		return nil
	}
	return NewProblem(http.StatusPreconditionRequired,
		"Send If-Match with the ETag that you read, or * to change any version.")
}

// Any reports whether the change applies to any version.
func (m IfMatch) Any() bool { return m.IfMatch == "" || m.IfMatch == "*" }

// Version returns the version that the change is based on. Its error is a Problem with
// status 412 if that is not current. Weak and unknown tags match nothing in If-Match; weak
// ones match in If-None-Match.
func (m IfMatch) Version(current int64) (int64, error) {
	if (IfNoneMatch{m.IfNoneMatch}).NotModified(current) {
		return 0, stale(current, nil, "If-None-Match has it")
	}
	if m.Any() {
		return current, nil
	}
	var given *int64
	reason := "If-Match is not an ETag of this API"
	for _, t := range tagsOf(m.IfMatch) {
		switch {
		case t.any || t.version < 0:
		case t.weak:
			reason = "If-Match has a weak ETag, which matches nothing: send it without W/"
		case t.version == current:
			return current, nil
		case given == nil:
			given = &t.version
		}
	}
	if given != nil {
		return 0, Stale(current, given)
	}
	return 0, stale(current, nil, reason)
}

// Stale returns the 412 problem of a change that is based on another version than the
// current one.
func Stale(current int64, given *int64) *Problem {
	return stale(current, given, fmt.Sprintf("the change is based on version %d", *given))
}

func stale(current int64, given *int64, reason string) *Problem {
	p := NewProblem(http.StatusPreconditionFailed, fmt.Sprintf(
		"The current version is %d, but %s. Nothing was changed. Read the current version and try again.",
		current, reason))
	p.Current, p.Given = &current, given
	p.header.Set("ETag", ETag(current))
	return p
}
