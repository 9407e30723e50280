// Command check is the Lambda authorizer. It decides one API call per event. With -listen it
// serves direct calls on this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	_ "time/tzdata" // Lambda has none

	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/internal/telemetry"
)

func main() {
	address, err := listenAddress(os.Args[1:], os.Stdout)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(2)
		}
		return
	}
	var extension *extension
	if address == "" {
		extension = registerExtension()
	}
	a, err := assemble(os.Environ(), os.Stdout)
	if err != nil {
		slog.New(telemetry.NewHandler(os.Stderr, nil)).Error("check cannot start", "cause", err)
		os.Exit(1)
	}
	if address != "" {
		if err := serve(a, address); err != nil {
			a.log.Error("check stopped", "cause", err)
			os.Exit(1)
		}
		return
	}
	if err := extension.onShutdown(a.end); err != nil {
		a.log.Warn("the last records of calls will be lost when the environment ends", "cause", err)
	}
	beforeNextEvent(os.Getenv("AWS_LAMBDA_RUNTIME_API"), a.checker.afterAnswer)
	lambda.Start(a)
}
