// Command admin is the Lambda function that serves the dashboard behind an HTTP API.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	_ "time/tzdata" // Lambda has none

	"github.com/akrylysov/algnhsa"
	"github.com/aws/aws-lambda-go/lambda"

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
	go handler.site(context.Background()) // begins to connect before the first request
	lambda.Start(function{algnhsa.New(c.onlyFrom(c.client(handler)), lambdaOptions()), handler.minute})
}

// function handles the events of the HTTP API and the event of each minute.
type function struct {
	requests lambda.Handler
	minute   func(context.Context) error
}

// Invoke implements lambda.Handler.
func (f function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var event struct {
		Tidegate string `json:"tidegate"`
	}
	if json.Unmarshal(payload, &event) == nil && event.Tidegate == "minute" {
		return []byte("null"), f.minute(ctx) // an answer is JSON
	}
	return f.requests.Invoke(ctx, payload)
}

// lambdaOptions are those for events of an HTTP API (payload 2.0). Bodies are compressed,
// so all of them are sent as binary.
func lambdaOptions() *algnhsa.Options {
	return &algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2, BinaryContentTypes: []string{"*/*"}}
}
