//go:build unix

package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"

	"github.com/alexedwards/argon2id"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/store/keyspace"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// loginPage is the event of an HTTP API for the log-in page.
const loginPage = `{"version": "2.0", "routeKey": "$default", "rawPath": "/login",
	"headers": {"host": "dashboard.example"}, "requestContext": {"stage": "$default",
	"domainName": "dashboard.example",
	"http": {"method": "GET", "path": "/login", "sourceIp": "192.0.2.1"}}}`

// coldStarts measures the cold starts of the built admin function, with a journal too if
// the options have its address.
func coldStarts(ctx context.Context, o options, server *harness.Server) ([]figures.Figure, error) {
	hash, err := argon2id.CreateHash("a password", argon2id.DefaultParams)
	if err != nil {
		return nil, fmt.Errorf("hash the password: %w", err)
	}
	functions := []harness.Function{{Name: "admin", Binary: o.admin, Valid: isPage,
		Env: map[string]string{"VALKEY_URL": server.URL, "KEY_PEPPER": harness.Pepper, "ADMIN_USER": "bench",
			"ADMIN_PASSWORD_HASH": hash}}}
	if o.journal != "" {
		if err := fillJournal(ctx, server, o.journal); err != nil {
			return nil, fmt.Errorf("fill the journal: %w", err)
		}
		functions = append(functions, withJournal(functions[0], o.journal))
	}
	times, err := harness.ColdStarts(ctx, o.starts, [][]byte{[]byte(loginPage)}, functions...)
	if err != nil {
		return nil, err
	}
	cold := figures.Median(times[0])
	all := []figures.Figure{figures.InMillis("admin.coldstart_ms", cold)}
	if o.journal != "" {
		with := figures.Median(times[1])
		all = append(all, figures.InMillis("admin.journal.coldstart_ms", with),
			figures.Ratio("admin.journal.coldstart_vs_none", with, cold))
	}
	return all, nil
}

var errPage = errors.New("not status 200")

func isPage(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"statusCode":200`)) {
		return errPage
	}
	return nil
}

// withJournal returns the function with a journal at an address.
func withJournal(f harness.Function, address string) harness.Function {
	f.Env = maps.Clone(f.Env)
	f.Env["JOURNAL"] = address
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		f.Env[name] = os.Getenv(name)
	}
	return f
}

// fillJournal fills a journal with a checkpoint and an entry of each bucket, since a
// start reads them all.
func fillJournal(ctx context.Context, server *harness.Server, address string) error {
	objects, err := journal.OpenStore(address)
	if err != nil {
		return err
	}
	key := audit.NewKey(apikey.Pepper(harness.Pepper))
	log := audit.NewLog(server.Client, key)
	log.UseJournal(journal.New(objects, server.Client, key, false, slog.New(slog.DiscardHandler)))
	filled := map[keyspace.Bucket]bool{}
	for i := 0; len(filled) < keyspace.Buckets; i++ {
		subject := fmt.Sprint("subject", i)
		bucket := keyspace.BucketOf(subject)
		if filled[bucket] {
			continue
		}
		if err := log.Append(ctx, audit.Entry{By: server.By.By, Action: audit.KeyReset,
			Subject: subject}); err != nil {
			return err
		}
		filled[bucket] = true
	}
	return nil
}
