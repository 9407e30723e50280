package valkeytest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"
)

// userPassword is the password of every user that As creates.
const userPassword = "only-for-this-test"

// As creates a user on every server behind a URL of this package, and returns the URL
// that logs in as that user. rules are arguments of ACL SETUSER. The embedded server has
// no users; As returns its URL unchanged.
func As(t testing.TB, rawURL, user string, rules []string) string {
	t.Helper()
	for _, node := range root(t, rawURL).Nodes() {
		words := append([]string{"ACL", "SETUSER", user, "reset", ">" + userPassword}, rules...)
		err := node.Do(t.Context(), node.B().Arbitrary(words...).Build()).Error()
		if err != nil && strings.Contains(err.Error(), "unknown command") {
			return rawURL
		}
		if err != nil {
			t.Fatalf("create user %s: %v", user, err)
		}
	}
	return strings.Replace(rawURL, "://", "://"+user+":"+userPassword+"@", 1)
}

// Refused returns the commands that the servers behind a URL refused to users, from
// ACL LOG: a line with user, reason, context and object each.
func Refused(t testing.TB, rawURL string) []string {
	t.Helper()
	var refused []string
	for _, node := range root(t, rawURL).Nodes() {
		entries, err := node.Do(t.Context(), node.B().Arbitrary("ACL", "LOG").Build()).ToArray()
		if err != nil {
			t.Fatalf("read ACL LOG: %v", err)
		}
		for _, entry := range entries {
			e, err := entry.AsStrMap()
			if err != nil {
				t.Fatalf("read ACL LOG: %v", err)
			}
			refused = append(refused, strings.Join([]string{e["username"], e["reason"], e["context"],
				e["object"]}, " "))
		}
	}
	return refused
}

// root returns a client with every right.
func root(t testing.TB, rawURL string) valkey.Client {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{u.Host}, ForceSingleClient: u.Query().Get("cluster") != "true",
		DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
