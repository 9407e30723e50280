// Command function is the echo backend as a Lambda function, for a container of its own.
// CORS_ORIGIN in its environment is echo.Backend's Origin.
package main

import (
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/local/echo"
)

func main() { lambda.Start(echo.Backend{Origin: os.Getenv("CORS_ORIGIN")}) }
