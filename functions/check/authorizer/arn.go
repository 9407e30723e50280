package authorizer

import (
	"fmt"
	"strings"

	"tidegate/internal/route"
)

// connectRoute is the route of a WebSocket's handshake. It stands where others have their
// method.
const connectRoute = "$connect"

// parseARN reads what is called out of
// arn:PARTITION:execute-api:REGION:ACCOUNT:API/STAGE/METHOD/PATH.
func parseARN(arn string) (route.Call, error) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" || parts[2] != "execute-api" {
		return route.Call{}, fmt.Errorf("%w: no method or route ARN", errEvent)
	}
	resource := strings.SplitN(parts[5], "/", 4)
	if len(resource) < 3 || resource[0] == "" || resource[1] == "" || resource[2] == "" {
		return route.Call{}, fmt.Errorf("%w: ARN without API, stage and method", errEvent)
	}
	c := route.Call{API: resource[0], Stage: resource[1], Method: resource[2], Path: "/"}
	if len(resource) == 4 {
		c.Path += resource[3]
	}
	return c, nil
}

// isConnect reports whether the ARN is that of a handshake, API/STAGE/$connect. A path
// that ends so belongs to another kind of API.
func isConnect(arn string) bool {
	c, err := parseARN(arn)
	return err == nil && c.Method == connectRoute && c.Path == "/"
}

// callPath returns the path in the API. An event's own path may have a stage in front, or
// the base path of a custom domain; the ARN's has neither, so that a call has one path
// whichever domain it came to. How AWS spells an ARN's path is not documented: where one
// of the two is percent-encoded and the other is not, the encoded one counts, for what
// was decoded may hide a slash. Where they differ otherwise, a REST API's ARN counts.
// That of an HTTP API's $default route may have no path, so there the event's own counts,
// without the stage.
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

// isRoot reports whether API Gateway matched the root. Its resource is then /, or the key
// of its route "GET /".
func (e event) isRoot() bool {
	return e.call.Path == "/" && (e.resource == "/" || strings.HasSuffix(e.resource, " /"))
}

// tail returns the end of given that is the path named, in the spelling of the two that
// is encoded.
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
