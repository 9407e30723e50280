// Command forward is the Lambda function that sends an event for each crossed limit.
// CloudWatch Logs delivers the other functions' log lines of crossed limits, and forward
// sends them to an event bus or a topic.
package main

import (
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/internal/telemetry"
)

func main() {
	log := slog.New(telemetry.NewHandler(os.Stdout, slog.LevelInfo))
	f, err := newForwarder(os.Environ(), log)
	if err != nil {
		log.Error("forward cannot start", "cause", err)
		os.Exit(1)
	}
	lambda.Start(f.Forward)
}
