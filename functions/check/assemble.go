package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/direct"
	"tidegate/functions/check/identity"
	"tidegate/internal/telemetry"
)

// assembled is the function, ready to handle events.
type assembled struct {
	*authorizer.Authorizer
	direct  *direct.Handler // nil unless DIRECT_CALLS is on
	checker *checker

	identities *identity.Resolver
	metrics    *callMetrics
	log        *slog.Logger
}

// assemble reads the environment, NAME=value strings, and starts to connect. The first
// check waits for the connection. Logs and metrics go to out.
func assemble(variables []string, out io.Writer) (*assembled, error) {
	c, err := readConfig(variables)
	if err != nil {
		return nil, err
	}
	log := slog.New(telemetry.NewHandler(out, c.LogLevel))
	metrics, err := newCallMetrics(out, c.Stage, log, time.Now)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	c.sources.JWT.Log = log
	identities, err := identity.New(c.sources)
	if err != nil {
		return nil, fmt.Errorf("identities: %w", err)
	}
	a := &assembled{checker: newChecker(c, log, metrics, time.Now), metrics: metrics, log: log,
		identities: identities}
	a.checker.start()
	go identities.Warm(context.Background())
	a.Authorizer = authorizer.New(a.checker, identities, c.answers(), log)
	a.Refused = a.checker.Refused
	if c.DirectCalls == "on" {
		a.direct = a.handler()
	}
	go a.Warm()
	return a, nil
}

// handler returns a handler of direct calls.
func (a *assembled) handler() *direct.Handler {
	return &direct.Handler{Checker: a.checker, Identities: a.identities, Refused: a.checker.Refused}
}

// Invoke answers an event of API Gateway or a direct call.
func (a *assembled) Invoke(ctx context.Context, raw []byte) (response []byte, err error) {
	if a.direct == nil || !direct.Is(raw) {
		return a.Authorizer.Invoke(ctx, raw)
	}
	defer func() {
		if r := recover(); r != nil {
			a.log.ErrorContext(ctx, "direct call panicked", "panic", fmt.Sprintf("%T", r), "stack",
				string(debug.Stack()))
			response, err = nil, errors.New("the call cannot be answered")
		}
	}()
	return a.direct.Invoke(ctx, raw)
}

// end writes the last metrics and sends the last records of calls.
func (a *assembled) end() {
	a.metrics.Flush()
	a.checker.afterAnswer()
	a.checker.Close()
}
