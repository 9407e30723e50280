// Command check is the Lambda authorizer: one sliding-window step per API call.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
)

func main() {
	c, err := readConfig(os.Environ())
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).Error("check cannot start", "cause", err)
		os.Exit(1)
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: c.LogLevel}))
	c.sources.JWT.Log = log
	identities, err := identity.New(c.sources)
	if err != nil {
		log.Error("check cannot start", "cause", err)
		os.Exit(1)
	}
	checker := newConnector(c)
	go func() { _, _ = checker.connected(context.Background()) }() // while the runtime asks for the first event; the first check sees the outcome
	go identities.Warm(context.Background())
	lambda.StartWithOptions(authorizer.New(checker, identities, c.Format, log), lambda.WithEnableSIGTERM(func() {
		checker.Close()
		os.Exit(0)
	}))
}
