//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	neturl "net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

var variableName = regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")

// documentedVariables returns a function's variables in docs/configuration.md.
func documentedVariables(t *testing.T, function string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[2]) != function &&
			strings.TrimSpace(cells[2]) != "both" {
			continue
		}
		for _, name := range variableName.FindAllStringSubmatch(cells[1], -1) {
			names = append(names, name[1])
		}
	}
	if len(names) < 15 {
		t.Fatalf("docs/configuration.md has %d variables of %s", len(names), function)
	}
	slices.Sort(names)
	return names
}

// setting has the wanted behaviour of a built function for each value of a variable, and
// how to observe it. At least two values with different behaviour show that the function
// uses the variable.
type setting[F any] struct {
	variables map[string]string // set beside the tested one
	want      map[string]string
	observe   func(*testing.T, F) string
}

// testVariables runs the function with each value of each documented variable. It fails
// for a variable without a row, and for a row without a documented variable.
func testVariables[F any](t *testing.T, documented []string, rows map[string]setting[F],
	start func(*testing.T, map[string]string) F) {
	t.Helper()
	for name := range rows {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/configuration.md", name)
		}
	}
	for _, name := range documented {
		row, ok := rows[name]
		if !ok {
			t.Errorf("no row changes %s", name)
			continue
		}
		seen := map[string]bool{}
		// Rows run in order: a run with AUDIT_RETENTION moves entries that the run
		// without it restores.
		for _, value := range slices.Sorted(maps.Keys(row.want)) {
			want := row.want[value]
			t.Run(name+"="+value, func(t *testing.T) {
				variables := map[string]string{}
				maps.Copy(variables, row.variables)
				variables[name] = value
				if got := row.observe(t, start(t, variables)); got != want {
					t.Errorf("%s=%s: %s, want %s", name, value, got, want)
				}
			})
			seen[want] = true
		}
		if len(seen) < 2 {
			t.Errorf("%s: every value has the same effect", name)
		}
	}
}

const publicURL = "https://admin.example.com"

// provider starts an OpenID provider, and returns the variables with which the dashboard
// uses it, with changes.
func provider(t *testing.T) (issuer string, with func(changes ...string) map[string]string) {
	t.Helper()
	issuer = oidctest.Start(t, oidctest.Options{Clients: []oidctest.Client{
		{ID: "dashboard", Secret: "dashboard-secret",
			RedirectURIs: []string{publicURL + "/login/oidc/callback"}},
	}})
	return issuer, func(changes ...string) map[string]string {
		all := map[string]string{
			"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": "dashboard", "OIDC_CLIENT_SECRET": "dashboard-secret",
			"OIDC_SCOPES":        "openid profile groups",
			"OIDC_EDITOR_VALUES": "ops", "ADMIN_URL": publicURL,
		}
		for i := 0; i+1 < len(changes); i += 2 {
			all[changes[i]] = changes[i+1]
		}
		return all
	}
}

// authorizationParameter returns a parameter of the address to which the dashboard sends
// users for the log-in.
func authorizationParameter(parameter string) func(*testing.T, adminFunction) string {
	return func(t *testing.T, a adminFunction) string {
		t.Helper()
		r := a.send(t, http.MethodGet, "/login/oidc", "")
		to, err := neturl.Parse(r.location)
		if err != nil || r.status != http.StatusSeeOther {
			return fmt.Sprint(r.status)
		}
		return to.Query().Get(parameter)
	}
}

// role returns the role of a user in the group ops who logs in at the provider.
func role(t *testing.T, a adminFunction) string {
	t.Helper()
	begun := a.send(t, http.MethodGet, "/login/oidc", "")
	issuer, _, _ := strings.Cut(begun.location, "/auth?")
	back := oidctest.NewPerson(t, issuer).Login(begun.location, "olga:ops")
	in := a.send(t, http.MethodGet, back.RequestURI(), "", "Cookie", cookieOf(begun))
	if in.status != http.StatusSeeOther {
		return "not in"
	}
	me := a.send(t, http.MethodGet, "/api/v1/me", "", "Cookie", cookieOf(in))
	var who struct{ Role string }
	if err := json.Unmarshal([]byte(me.body), &who); err != nil {
		t.Fatalf("%v: %s", err, me.body)
	}
	return who.Role
}

// Every documented variable of the OpenID provider changes what the built function does.
func TestAdminProviderVariables(t *testing.T) {
	issuer, oidc := provider(t)
	testAdminVariables(t, true, map[string]setting[adminFunction]{
		"ADMIN_URL": {oidc(), map[string]string{
			publicURL:           publicURL + "/login/oidc/callback",
			"https://x.example": "https://x.example/login/oidc/callback",
		}, authorizationParameter("redirect_uri")},
		"OIDC_ISSUER": {oidc(), map[string]string{issuer: "303", "http://127.0.0.1:1": "502"},
			status("/login/oidc")},
		"OIDC_CLIENT_ID": {oidc(), map[string]string{"dashboard": "dashboard", "other": "other"},
			authorizationParameter("client_id")},
		"OIDC_CLIENT_SECRET": {oidc(),
			map[string]string{"dashboard-secret": "editor", "another-secret": "not in"}, role},
		"OIDC_SCOPES": {oidc(), map[string]string{"openid profile": "openid profile",
			"openid": "openid"}, authorizationParameter("scope")},
		"OIDC_ROLE_CLAIM":    {oidc(), map[string]string{"groups": "editor", "teams": "not in"}, role},
		"OIDC_EDITOR_VALUES": {oidc(), map[string]string{"ops": "editor", "leads": "not in"}, role},
		"OIDC_VIEWER_VALUES": {oidc("OIDC_EDITOR_VALUES", "leads"),
			map[string]string{"ops": "viewer", "staff": "not in"}, role},
	})
}

// noJournal is the address of a bucket that never answers.
const noJournal = "s3://bucket?region=eu-west-1&endpoint=http://127.0.0.1:1"

// journalRows returns the rows of the journal's variables.
func journalRows(t *testing.T) map[string]setting[adminFunction] {
	t.Helper()
	status := func(t *testing.T, a adminFunction) string {
		t.Helper()
		return fmt.Sprint(a.send(t, http.MethodGet, "/api/v1/journal", "", "Authorization",
			a.token(t)).status)
	}
	return map[string]setting[adminFunction]{
		"JOURNAL": {nil, map[string]string{"": "404", t.TempDir(): "200"}, status},
		"JOURNAL_AWAY": {map[string]string{"JOURNAL": noJournal},
			map[string]string{"refuse": "503", "queue": "201"}, createKeyStatus},
		"JOURNAL_RESTORE": {map[string]string{"JOURNAL": writtenJournal(t)},
			map[string]string{"ask": "behind", "always": "restored"}, restored},
		"AUDIT_RETENTION": {
			map[string]string{"JOURNAL": oldJournal(t), "JOURNAL_RESTORE": "always"},
			map[string]string{"": "all stay", "744h": "some left"}, trimmed,
		},
	}
}

// createKeyStatus returns the status of creating a key.
func createKeyStatus(t *testing.T, a adminFunction) string {
	t.Helper()
	savePlan(t, registry.NewStore(a.client, apikey.Pepper(checkPepper)))
	return fmt.Sprint(a.send(t, http.MethodPost, "/api/v1/keys", `{"name":"a key","env":"test","plan":"two"}`,
		"Content-Type", "application/json", "Authorization", a.token(t)).status)
}

// restored reports whether Valkey has the journal's changes.
func restored(t *testing.T, a adminFunction) string {
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
	keys, _, folder := newJournaledStore(t)
	savePlan(t, keys)
	return folder
}

// newJournaledStore returns a registry on its own Valkey, with a journal in a folder.
func newJournaledStore(t *testing.T) (keys *registry.Store, client valkey.Client, folder string) {
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
	keys, client, folder := newJournaledStore(t)
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
func trimmed(t *testing.T, a adminFunction) string {
	t.Helper()
	a.send(t, http.MethodGet, "/healthz", "") // waits for the end of the start
	stream := audit.Stream(keyspace.BucketOf(audit.JournalSubject))
	length, err := a.client.Do(t.Context(), a.client.B().Xlen().Key(stream).Build()).AsInt64()
	if err != nil || length == 0 {
		t.Fatalf("%d entries, %v", length, err)
	}
	return map[bool]string{true: "all stay", false: "some left"}[length >= oldEntries]
}
