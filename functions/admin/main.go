// Command admin is the Lambda function that serves the dashboard behind an HTTP API.
package main

import (
	"context"
	"log/slog"
	"os"
	"time"
	_ "time/tzdata" // Lambda has none

	"github.com/akrylysov/algnhsa"

	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/session"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/web/static"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: &logLevel}))
	must := func(err error) {
		if err != nil {
			log.Error("cannot start", "error", err.Error())
			os.Exit(1)
		}
	}
	c, err := readConfig(os.Environ())
	must(err)
	bundle, err := static.Load()
	must(err)
	client, err := store.Open(context.Background(), c.ValkeyURL, store.Options{Dial: time.Second, Write: time.Second})
	must(err)
	keys, sessions := policy.NewStore(client, c.pepper), session.NewStore(client, c.SessionIdle)
	handler, err := dashboard.New(c.dashboard(), dashboard.Services{Keys: keys, Sessions: sessions, Bundle: bundle, Ready: sessions.Ping, Log: log})
	must(err)
	algnhsa.ListenAndServe(handler, lambdaOptions())
}
