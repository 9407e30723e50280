package store

import (
	"context"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// Eviction returns the server's maxmemory-policy if it lets the server evict values that
// do not expire, such as keys and policies. It returns "" for any other policy, and where
// it cannot be read: only the default user has that right, and a server notes each
// command that it refuses to others.
func Eviction(ctx context.Context, client valkey.Client, rawURL string) string {
	const setting = "maxmemory-policy"
	if option, err := parse(rawURL); err != nil || option.Username != "" || option.AuthCredentialsFn != nil {
		return ""
	}
	found, err := client.Do(ctx, client.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
	if err != nil || !strings.HasPrefix(found[setting], "allkeys-") {
		return ""
	}
	return found[setting]
}
