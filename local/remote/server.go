// Package remote runs Lambda functions in separate containers. A Server is one
// environment: it runs in the function's container and takes invocations over HTTP, at
// the path of AWS's Runtime Interface Emulator. A Pool is the client: it sends each
// invocation to a free environment, as Lambda's front end does.
//
// The function itself uses a Runtime API on its container's loopback interface. So an
// environment can be frozen, disconnected from Valkey, or restarted separately.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"tidegate/local/lambda"
)

// Paths of an environment.
const (
	invocationPath = "/2015-03-31/functions/function/invocations"
	healthPath     = "/healthz"
)

// functionError is the header of answers that are errors of the function, as in Lambda's
// Invoke API.
const functionError = "X-Amz-Function-Error"

// Invoker runs a function. An error that the function itself reported is a
// *lambda.FunctionError.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Server is an environment: an http.Handler for a function.
type Server struct {
	function Invoker
	draining atomic.Bool
}

// NewServer serves function.
func NewServer(function Invoker) *Server { return &Server{function: function} }

// Drain refuses new invocations. Started ones continue.
func (s *Server) Drain() { s.draining.Store(true) }

// ServeHTTP runs an invocation or reports the health. It reads the body only of an
// invocation that it accepts, so a client that expects 100 Continue knows whether its
// invocation started.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.draining.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == healthPath:
		w.WriteHeader(http.StatusOK)
	case r.URL.Path == invocationPath && r.Method == http.MethodPost:
		s.invoke(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) invoke(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(io.LimitReader(r.Body, lambda.MaxPayload+1))
	if err != nil {
		http.Error(w, "the payload is incomplete", http.StatusBadRequest)
		return
	}
	// A started invocation runs to its end, even if the client disconnects.
	answer, err := s.function.Invoke(context.WithoutCancel(r.Context()), payload)
	var reported *lambda.FunctionError
	switch {
	case err == nil:
		_, _ = w.Write(answer)
	case errors.As(err, &reported):
		w.Header().Set(functionError, "Unhandled")
		_ = json.NewEncoder(w).Encode(reported)
	case errors.Is(err, lambda.ErrThrottled): // an invocation runs whose client has gone
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}
