package authorizer

import (
	"strings"

	"tidegate/internal/route"
)

// callPath returns the path in the API. The event's own path may begin with a stage or
// the base path of a custom domain. The ARN's path has neither, so it is the same for
// every domain.
//
// AWS does not document whether an ARN's path is percent-encoded. If only one of the two
// paths is, callPath returns that one, because a decoded path may hide a slash. Otherwise
// the ARN's path of a REST API decides. The ARN of an HTTP API's $default route may have
// no path; callPath then returns the event's path without its stage.
func callPath(e event, given string) string {
	named := e.call.Path
	if given == "" || e.isRoot() {
		return named
	}
	if named != "/" {
		if spelled, found := tail(given, named); found {
			return spelled
		}
	}
	if e.kind == restRequest {
		return named
	}
	if after, found := strings.CutPrefix(given, "/"+e.call.Stage); found && (after == "" || after[0] == '/') {
		return "/" + strings.TrimPrefix(after, "/")
	}
	return given
}

// isRoot reports whether API Gateway matched the root path. The event's resource is then
// /, or a route key such as "GET /".
func (e event) isRoot() bool {
	return e.call.Path == "/" && (e.resource == "/" || strings.HasSuffix(e.resource, " /"))
}

// tail returns the end of given that is the same path as named. Of the two spellings it
// returns the percent-encoded one.
func tail(given, named string) (spelled string, found bool) {
	if strings.HasSuffix(given, named) {
		return named, true
	}
	front, found := strings.CutSuffix(route.DecodeAll(given), route.DecodeAll(named))
	if !found || !strings.HasPrefix(given, front) {
		return "", false
	}
	spelled = given[len(front):]
	if len(named) > len(spelled) {
		spelled = named
	}
	return spelled, strings.HasPrefix(spelled, "/")
}
