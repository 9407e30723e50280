package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// chains is a Log, with the client that the test writes with.
type chains struct {
	*Log
	client valkey.Client
}

func open(t testing.TB, url string) *chains {
	t.Helper()
	address, query, _ := strings.Cut(strings.TrimPrefix(url, "valkey://"), "?")
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{address}, DisableCache: true, ForceSingleClient: query == "",
		ConnWriteTimeout: time.Minute, BlockingPoolSize: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &chains{NewLog(client, NewKey([]byte("a secret of this test"))), client}
}

// onSingleServers runs a test on a real Valkey and on the embedded server.
func onSingleServers(t *testing.T, test func(*testing.T, *chains)) {
	t.Helper()
	storetest.OnSingleServers(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// onEveryServer runs a test on a cluster too.
func onEveryServer(t *testing.T, test func(*testing.T, *chains)) {
	t.Helper()
	storetest.OnEveryServer(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// appendOnly appends an entry without a change.
var appendOnly = valkey.NewLuaScript(AppendFunction +
	"return append(KEYS[1], KEYS[2], KEYS[3], unpack(ARGV)) and 1 or 0")

// tryAppend appends a sealed entry, and reports false if another entry came first.
func (c *chains) tryAppend(t tester, b keyspace.Bucket, s Sealed) bool {
	t.Helper()
	done, err := appendOnly.Exec(t.Context(), c.client, Names(b), s.Args()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return done == 1
}

// record appends an entry to its subject's chain. It retries if another entry came first.
func (c *chains) record(t tester, e Entry) {
	t.Helper()
	b := keyspace.BucketOf(e.Subject)
	for {
		head, err := c.Head(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := c.key.Seal(b, head, e)
		if err != nil {
			t.Fatal(err)
		}
		if c.tryAppend(t, b, sealed) {
			return
		}
	}
}

// entryOf returns the nth entry of a subject.
func entryOf(subject string, n int) Entry {
	return Entry{
		Time: time.Unix(1_800_000_000+int64(n), 0).UTC(), By: Actor{"user", fmt.Sprintf("user %d", n%3)},
		Subject: subject, Version: int64(n),
		Action: []string{"key.create", "key.edit", "key.override", "key.override.end"}[n%4],
		Name:   "name of " + subject,
		Reason: "<reason> \x00 \u202e", Before: json.RawMessage(`{"n":1}`), After: json.RawMessage(`{"n":2}`),
	}
}

func (c *chains) do(t tester, words ...string) valkey.ValkeyResult {
	t.Helper()
	result := c.client.Do(t.Context(),
		c.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err := result.Error(); err != nil && !valkey.IsValkeyNil(err) {
		t.Fatalf("%s: %v", words[0], err)
	}
	return result
}

func (c *chains) verified(t tester) Verified {
	t.Helper()
	v, err := c.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// all returns every entry of a query, read page by page.
func (c *chains) all(t tester, q Query) []Entry {
	t.Helper()
	var entries []Entry
	for {
		page, err := c.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, page.Entries...)
		if q.After = page.Next; q.After == "" {
			return entries
		}
	}
}

// tester is what testing.TB and rapid.T have in common.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
