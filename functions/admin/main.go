// Command admin is the Lambda function that serves the dashboard behind an HTTP API.
package main

import (
	"context"
	"log/slog"
	"os"
	_ "time/tzdata" // Lambda has none

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/telemetry"
)

func main() {
	log := slog.New(telemetry.NewHandler(os.Stderr, &logLevel))
	must := func(err error) {
		if err != nil {
			log.Error("admin cannot start", "cause", err)
			os.Exit(1)
		}
	}
	c, err := readConfig(os.Environ())
	must(err)
	handler, err := newConnector(c, log)
	must(err)
	go handler.handler(context.Background()) // begins to connect before the first request
	algnhsa.ListenAndServe(c.onlyFrom(c.client(handler)), lambdaOptions())
}

// lambdaOptions are those for events of an HTTP API (payload 2.0). Bodies are compressed,
// so all of them are sent as binary.
func lambdaOptions() *algnhsa.Options {
	return &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2, BinaryContentTypes: []string{"*/*"}}
}
