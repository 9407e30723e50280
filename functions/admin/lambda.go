package main

import "github.com/akrylysov/algnhsa"

// lambdaOptions are those for events of an HTTP API (payload 2.0). Bodies are compressed,
// so all of them are sent as binary.
func lambdaOptions() *algnhsa.Options {
	return &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2, BinaryContentTypes: []string{"*/*"}}
}
