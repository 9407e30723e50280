package authorizer

import (
	"fmt"
	"strings"

	"tidegate/internal/route"
)

// connectRoute is the route of a WebSocket handshake. It stands in the ARN's method
// field.
const connectRoute = "$connect"

// parseARN reads the called API, stage, method and path from
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

// isConnect reports whether the ARN is that of a WebSocket handshake, API/STAGE/$connect.
// An ARN with a further path that ends in $connect belongs to another kind of API.
func isConnect(arn string) bool {
	c, err := parseARN(arn)
	return err == nil && c.Method == connectRoute && c.Path == "/"
}
