// Command admin is the Lambda function that serves the dashboard behind an HTTP API.
package main

import (
	"context"
	"log/slog"
	"os"
	_ "time/tzdata" // Lambda has none

	"github.com/akrylysov/algnhsa"

	"tidegate/web/static"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: &logLevel}))
	must := func(err error) {
		if err != nil {
			log.Error("cannot start", "error", err.Error())
			os.Exit(1)
		}
	}
	c, err := readConfig(os.Environ())
	must(err)
	bundle, err := static.Load()
	must(err)
	handler, err := newConnector(c, bundle, log)
	must(err)
	handler.handler(context.Background()) // so that the first request finds a connection
	algnhsa.ListenAndServe(handler, lambdaOptions())
}
