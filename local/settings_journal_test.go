//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// noJournal is the address of a bucket that never answers.
const noJournal = "s3://bucket?region=eu-west-1&endpoint=http://127.0.0.1:1"

// journalRows returns the rows of the journal's variables.
func journalRows(t *testing.T) map[string]setting[administered] {
	t.Helper()
	status := func(t *testing.T, a administered) string {
		t.Helper()
		return fmt.Sprint(a.send(t, http.MethodGet, "/api/v1/journal", "", "Authorization",
			a.token(t)).status)
	}
	return map[string]setting[administered]{
		"JOURNAL": {nil, map[string]string{"": "404", t.TempDir(): "200"}, status},
		"JOURNAL_AWAY": {map[string]string{"JOURNAL": noJournal},
			map[string]string{"refuse": "503", "queue": "201"}, creating},
		"JOURNAL_RESTORE": {map[string]string{"JOURNAL": writtenJournal(t)},
			map[string]string{"ask": "behind", "always": "restored"}, restored},
		"AUDIT_RETENTION": {
			map[string]string{"JOURNAL": oldJournal(t), "JOURNAL_RESTORE": "always"},
			map[string]string{"": "all stay", "744h": "some left"}, trimmed,
		},
	}
}

// creating returns the status of creating a key.
func creating(t *testing.T, a administered) string {
	t.Helper()
	savePlan(t, registry.NewStore(a.client, apikey.Pepper(checkPepper)))
	return fmt.Sprint(a.send(t, http.MethodPost, "/api/v1/keys", `{"name":"a key","env":"test","plan":"two"}`,
		"Content-Type", "application/json", "Authorization", a.token(t)).status)
}

// restored reports whether Valkey has the journal's changes.
func restored(t *testing.T, a administered) string {
	t.Helper()
	answer := a.send(t, http.MethodGet, "/api/v1/journal", "", "Authorization", a.token(t))
	var status struct{ Behind *int }
	if err := json.Unmarshal([]byte(answer.body), &status); err != nil || status.Behind == nil {
		t.Fatalf("%s: %v", answer.body, err)
	}
	return map[bool]string{true: "behind", false: "restored"}[*status.Behind > 0]
}

// writtenJournal returns a folder with the changes of another Valkey.
func writtenJournal(t *testing.T) string {
	t.Helper()
	keys, _, folder := journalled(t)
	savePlan(t, keys)
	return folder
}

// journalled returns a registry on its own Valkey, with a journal in a folder.
func journalled(t *testing.T) (keys *registry.Store, client valkey.Client, folder string) {
	t.Helper()
	folder = t.TempDir()
	kept, err := journal.OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	client = storetest.Connect(t, valkeytest.Start(t))
	keys = registry.NewStore(client, apikey.Pepper(checkPepper))
	log := slog.New(slog.DiscardHandler)
	keys.Audit().UseJournal(journal.New(kept, client, audit.NewKey([]byte(checkPepper)), false, log))
	return keys, client, folder
}

// oldEntries is the number of entries about one subject in oldJournal.
const oldEntries = 150

// oldJournal returns a folder with entries of 60 days ago.
func oldJournal(t *testing.T) string {
	t.Helper()
	keys, client, folder := journalled(t)
	text := strings.Replace(audit.AppendFunction, "'*'", "ARGV[6]", 1)
	old := valkey.NewLuaScript(text + "return append(KEYS[1], KEYS[2], KEYS[3], unpack(ARGV)) and 1 or 0")
	ms := time.Now().Add(-60 * 24 * time.Hour).UnixMilli()
	b := keyspace.BucketOf(audit.JournalSubject)
	for i := range oldEntries {
		id := fmt.Sprintf("%d-%d", ms, i)
		err := keys.Audit().Commit(t.Context(), audit.Step{
			Bucket: b,
			Entry: audit.Entry{Time: time.UnixMilli(ms), Action: audit.JournalRestore,
				Subject: audit.JournalSubject},
			Run: func(args []string) (stale bool, err error) {
				return false, old.Exec(t.Context(), client, audit.Names(b), append(args, id)).Error()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// trimmed reports whether Valkey no longer has the oldest entries that the start
// restored. It makes no token: that would be in the journal, which the next start reads.
func trimmed(t *testing.T, a administered) string {
	t.Helper()
	a.send(t, http.MethodGet, "/healthz", "") // the start is over
	stream := audit.Stream(keyspace.BucketOf(audit.JournalSubject))
	length, err := a.client.Do(t.Context(), a.client.B().Xlen().Key(stream).Build()).AsInt64()
	if err != nil || length == 0 {
		t.Fatalf("%d entries, %v", length, err)
	}
	return map[bool]string{true: "all stay", false: "some left"}[length >= oldEntries]
}
