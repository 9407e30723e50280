//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// noJournal is the address of a bucket that never answers.
const noJournal = "s3://bucket?region=eu-west-1&endpoint=http://127.0.0.1:1"

// journalRows are the variables about the journal.
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
	}
}

// creating is the answer to the creation of a key.
func creating(t *testing.T, a administered) string {
	t.Helper()
	savePlan(t, registry.NewStore(a.client, apikey.Pepper(checkPepper)))
	return fmt.Sprint(a.send(t, http.MethodPost, "/api/v1/keys", `{"name":"a key","env":"test","plan":"two"}`,
		"Content-Type", "application/json", "Authorization", a.token(t)).status)
}

// restored is whether Valkey has what the journal has.
func restored(t *testing.T, a administered) string {
	t.Helper()
	answer := a.send(t, http.MethodGet, "/api/v1/journal", "", "Authorization", a.token(t))
	var status struct{ Behind *int }
	if err := json.Unmarshal([]byte(answer.body), &status); err != nil || status.Behind == nil {
		t.Fatalf("%s: %v", answer.body, err)
	}
	return map[bool]string{true: "behind", false: "restored"}[*status.Behind > 0]
}

// writtenJournal is a folder with the changes of another Valkey.
func writtenJournal(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	kept, err := journal.OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	client, err := store.Open(t.Context(), valkeytest.Start(t), store.Options{
		Dial: waiting.Patience, Write: waiting.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	keys := registry.NewStore(client, apikey.Pepper(checkPepper))
	log := slog.New(slog.DiscardHandler)
	keys.Audit().UseJournal(journal.New(kept, client, audit.NewKey([]byte(checkPepper)), false, log))
	savePlan(t, keys)
	return folder
}
