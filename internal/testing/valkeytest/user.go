package valkeytest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"
)

// userPassword is that of every user that As makes.
const userPassword = "only-for-this-test"

// As makes a user with these rules, the arguments of ACL SETUSER, on every server behind
// a URL of this package, and returns the URL that logs in as that user. The embedded
// server has no users: its URL comes back as it is.
func As(t testing.TB, rawURL, user string, rules []string) string {
	t.Helper()
	for _, node := range root(t, rawURL).Nodes() {
		words := append([]string{"ACL", "SETUSER", user, "reset", ">" + userPassword}, rules...)
		err := node.Do(t.Context(), node.B().Arbitrary(words...).Build()).Error()
		if err != nil && strings.Contains(err.Error(), "unknown command") {
			return rawURL
		}
		if err != nil {
			t.Fatalf("make user %s: %v", user, err)
		}
	}
	return strings.Replace(rawURL, "://", "://"+user+":"+userPassword+"@", 1)
}

// Refused lists what the servers behind a URL refused their users, as ACL LOG has it:
// one line of user, context and object each.
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

// root is a client with every right.
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
