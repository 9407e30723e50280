// Command check is the Lambda authorizer. It decides one API call per event.
package main

import (
	"log/slog"
	"os"
	_ "time/tzdata" // Lambda has none

	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/internal/telemetry"
)

func main() {
	extension := registerExtension()
	a, err := assemble(os.Environ(), os.Stdout)
	if err != nil {
		slog.New(telemetry.NewHandler(os.Stderr, nil)).Error("check cannot start", "cause", err)
		os.Exit(1)
	}
	if err := extension.onShutdown(a.end); err != nil {
		a.log.Warn("the last usage records will be lost when the environment ends", "cause", err)
	}
	beforeNextEvent(os.Getenv("AWS_LAMBDA_RUNTIME_API"), a.checker.afterAnswer)
	lambda.Start(a)
}
