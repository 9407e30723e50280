package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/telemetry"
)

// assembled is the function, ready to handle events.
type assembled struct {
	*authorizer.Authorizer
	checker *checker
	metrics *callMetrics
	log     *slog.Logger
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
	a := &assembled{checker: newChecker(c, log, metrics, time.Now), metrics: metrics, log: log}
	a.checker.start()
	go identities.Warm(context.Background())
	a.Authorizer = authorizer.New(a.checker, identities, c.answers(), log)
	a.Refused = a.checker.Refused
	go a.Warm()
	return a, nil
}

// end writes the last metrics and sends the last usage records.
func (a *assembled) end() {
	a.metrics.Flush()
	a.checker.afterAnswer()
	a.checker.Close()
}
