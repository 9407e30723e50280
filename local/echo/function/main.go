// Command function is the echo backend as a Lambda function, for a container of its own.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"tidegate/local/echo"
)

func main() { lambda.Start(echo.Backend{}) }
