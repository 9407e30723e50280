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

// assembled is the function, ready for events.
type assembled struct {
	*authorizer.Authorizer
	checker *checker
	watch   *monitor
	log     *slog.Logger
}

// assemble reads the environment, NAME=value strings, and begins to connect: the first
// check sees what comes of it. Logs and metrics go to out.
func assemble(variables []string, out io.Writer) (*assembled, error) {
	c, err := readConfig(variables)
	if err != nil {
		return nil, err
	}
	log := slog.New(telemetry.NewHandler(out, c.LogLevel))
	watch, err := newMonitor(out, c.Stage, log, time.Now)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	c.sources.JWT.Log = log
	identities, err := identity.New(c.sources)
	if err != nil {
		return nil, fmt.Errorf("identities: %w", err)
	}
	a := &assembled{checker: newChecker(c, log, watch), watch: watch, log: log}
	go a.checker.connectInBackground(context.Background())
	go identities.Warm(context.Background())
	a.Authorizer = authorizer.New(a.checker, identities, c.answers(), log)
	a.Refused = watch.Refused
	go a.Warm()
	return a, nil
}

// end writes and sends what was recorded last.
func (a *assembled) end() {
	a.watch.Flush()
	a.checker.Close()
}
