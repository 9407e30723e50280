// Command function is a Lambda function that does what each event says, for the tests
// of package lambda.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type event struct {
	Do      string `json:"do"`
	Text    string `json:"text"`
	Size    int    `json:"size"`
	Address string `json:"address"`
}

type answer struct {
	PID      int      `json:"pid"`
	Text     string   `json:"text,omitempty"`
	Env      []string `json:"env,omitempty"`
	Dir      string   `json:"dir,omitempty"`
	ARN      string   `json:"arn,omitempty"`
	Trace    string   `json:"trace,omitempty"`
	Deadline bool     `json:"deadline,omitempty"`
}

func main() {
	switch os.Getenv("INIT") {
	case "exit":
		fmt.Println("cannot start")
		os.Exit(3)
	case "hang":
		<-time.After(time.Hour) // an empty select would end the program as a deadlock
	}
	lambda.Start(handle)
}

func handle(ctx context.Context, e event) (any, error) {
	a := answer{PID: os.Getpid(), Text: e.Text}
	switch e.Do {
	case "env":
		a.Env = os.Environ()
		a.Dir, _ = os.Getwd()
		lc, _ := lambdacontext.FromContext(ctx)
		a.ARN = lc.InvokedFunctionArn
		a.Trace = os.Getenv("_X_AMZN_TRACE_ID")
		_, a.Deadline = ctx.Deadline()
	case "fail":
		return nil, errors.New(e.Text)
	case "panic":
		panic(e.Text)
	case "exit":
		os.Exit(7)
	case "hang":
		select {}
	case "big":
		return strings.Repeat("x", e.Size), nil
	case "log":
		fmt.Println("line on stdout")
		fmt.Fprint(os.Stderr, "line on stderr\nno end")
	case "meet":
		return a, meet(e.Address)
	case "tick":
		go func() {
			for range time.Tick(100 * time.Microsecond) {
			}
		}()
	case "later":
		go func() {
			<-time.After(time.Millisecond)
			_ = meet(e.Address)
		}()
	}
	return a, nil
}

// meet connects and waits until the other side closes.
func meet(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _ = conn.Read(make([]byte, 1))
	return nil
}
