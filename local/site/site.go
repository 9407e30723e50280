// Package site builds a dashboard in this process, as functions/admin does, with an account
// whose password is cheap to check. Benchmarks and screenshots use it.
package site

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/store"
)

// The account, an editor.
const (
	User     = "ada"
	Password = "a password of a dashboard that only looks at samples"
)

// New returns a dashboard for a registry on the client.
func New(keys *registry.Store, client valkey.Client, pepper apikey.Pepper) (http.Handler, error) {
	hash, err := cheapHash()
	if err != nil {
		return nil, err
	}
	logins := throttle.New(client)
	sessions := session.NewStore(client, time.Hour)
	checker := enforce.NewChecker(client, pepper)
	return server.New(
		server.Config{Users: []password.User{{Name: User, Role: auth.Editor, Hash: hash}},
			SessionLifetime: time.Hour, Stage: "dev"},
		server.Services{
			Keys:    app.NewRegistry(keys, records.NewReader(client, time.Now), checker),
			Checker: checker,
			Records: records.NewReader(client, time.Now), Sessions: sessions,
			Crossings: crossing.NewStore(client, slog.New(slog.DiscardHandler)),
			Tokens:    token.NewStore(keys, client, pepper), Logins: logins, Pepper: pepper,
			Ready:        keys.Writable,
			StoreVersion: func(ctx context.Context) (string, error) { return store.Version(ctx, client) },
			Log: slog.New(slog.NewTextHandler(os.Stderr,
				&slog.HandlerOptions{Level: slog.LevelError})),
		})
}

func cheapHash() (password.Hash, error) {
	text, err := argon2id.CreateHash(Password,
		&argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		return password.Hash{}, err
	}
	return password.ParseHash(text)
}
