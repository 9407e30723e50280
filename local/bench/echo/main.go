// Command echo is a minimal function with aws-lambda-go that returns its event.
// Benchmarks compare the check function and the admin function with it.
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	lambda.Start(func(_ context.Context, event json.RawMessage) (json.RawMessage, error) {
		return event, nil
	})
}
