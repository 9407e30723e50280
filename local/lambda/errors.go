package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrClosed is returned by Invoke after Close.
var ErrClosed = errors.New("function is closed")

// ErrThrottled is returned by Invoke while as many invocations are unanswered as the
// function may have environments. Lambda answers 429 TooManyRequestsException then, and a
// client of API Gateway gets 500.
var ErrThrottled = errors.New("rate exceeded: all environments are busy")

// FunctionError is an error that the function reported: the returned error of its
// handler, or its panic.
type FunctionError struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *FunctionError) Error() string {
	return fmt.Sprintf("function error %s: %s", e.Type, e.Message)
}

// parseFunctionError parses the payload of the Runtime API's error calls. Any other
// payload gives a FunctionError too.
func parseFunctionError(payload []byte) *FunctionError {
	var e FunctionError
	if err := json.Unmarshal(payload, &e); err != nil {
		return &FunctionError{Type: "Runtime.MalformedError",
			Message: "the function reported an error that is not JSON"}
	}
	return &e
}

// TimeoutError means that an invocation did not answer in time; its environment was
// killed.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("function timed out after %s", e.After) }

// CrashError means that the process ended before it answered.
type CrashError struct{ Err error }

func (e *CrashError) Error() string {
	return fmt.Sprintf("function exited before it answered: %s", exitText(e.Err))
}

// Unwrap returns how the process ended; nil is exit status 0.
func (e *CrashError) Unwrap() error { return e.Err }

// InitError means that an environment did not become ready: the process reported an
// initialisation error, ended, or took too long.
type InitError struct{ Err error }

func (e *InitError) Error() string { return fmt.Sprintf("function did not start: %s", e.Err) }

// Unwrap returns the *FunctionError, *CrashError or *TimeoutError that stopped the
// initialisation.
func (e *InitError) Unwrap() error { return e.Err }

// ResponseError means that the function's answer is not JSON, or over MaxPayload.
type ResponseError struct{ Reason string }

func (e *ResponseError) Error() string { return "function's response is refused: " + e.Reason }

// PayloadError means that the payload of Invoke was over MaxPayload; nothing was invoked.
type PayloadError struct{ Size int }

func (e *PayloadError) Error() string {
	return fmt.Sprintf("payload of %d bytes is over the limit of %d", e.Size, MaxPayload)
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
