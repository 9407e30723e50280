package main

import "github.com/akrylysov/algnhsa"

// lambdaOptions reads the events of an HTTP API (payload 2.0). Bodies are compressed, so
// every one travels as binary.
func lambdaOptions() *algnhsa.Options {
	return &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2, BinaryContentTypes: []string{"*/*"}}
}
