//go:build linux

package crashes

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

var writeForms = flag.String("write-forms", "",
	"`name` of a new file in testdata/forms with the stored forms of this release")

// forms are the stored forms of a release: the whole Valkey and journal of a small
// installation.
type forms struct {
	Token   string            `json:"token"`
	Callers []storedCaller    `json:"callers"`
	Valkey  []stored          `json:"valkey"`
	Journal map[string][]byte `json:"journal"`
	Entries int64             `json:"entries"` // of the audit
}

// storedCaller is a key, its secret, and the status that a call with it gets.
type storedCaller struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Secret string `json:"secret"`
	Status int    `json:"status"`
}

// stored is one key of Valkey; the command Words creates it.
type stored struct {
	Words [][]byte `json:"words"`
}

// installation is a registry with a journal in a folder.
type installation struct {
	client valkey.Client
	url    string
	folder string
	*journal.Journal
	keys   *registry.Store
	tokens *token.Store
}

func newInstallation(t *testing.T) installation {
	t.Helper()
	i := installation{url: valkeytest.Start(t), folder: t.TempDir()}
	i.client = dial(t, i.url)
	store, err := journal.OpenStore(i.folder)
	if err != nil {
		t.Fatal(err)
	}
	i.keys, i.tokens = registry.NewStore(i.client, pepper), token.NewStore(i.client, pepper)
	i.Journal = journal.New(store, i.client, audit.NewKey(pepper), false, slog.New(slog.DiscardHandler))
	i.keys.Audit().UseJournal(i.Journal)
	i.tokens.Audit().UseJournal(i.Journal)
	return i
}

// This release reads what every earlier release stored. Calls get the same answers, the
// token is valid, the audit verifies, a restore is complete, and keys can be changed. A
// change of a stored form adds a file: go test ./local/crashes -run TestForms
// -write-forms NAME.
func TestForms(t *testing.T) {
	if *writeForms != "" {
		newInstallation(t).write(t, filepath.Join("testdata", "forms", *writeForms+".json"))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "forms", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no forms: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var f forms
			if err := json.Unmarshal(text, &f); err != nil {
				t.Fatal(err)
			}
			i := newInstallation(t)
			i.load(t, f)
			i.checkReads(t, f)
			if err := i.client.Do(t.Context(), i.client.B().Flushall().Build()).Error(); err != nil {
				t.Fatal(err)
			}
			if _, err := i.RestoreAll(t.Context(), i.keys, journal.Options{}, nil, nil); err != nil {
				t.Fatal(err)
			}
			i.checkReads(t, f)
			for _, c := range f.Callers {
				k, err := i.keys.Get(t.Context(), c.ID)
				if err == nil {
					_, err = i.keys.Update(t.Context(), k.ID, k.Version, audit.KeyEdit, byTest,
						func(k *policy.Key) { k.Name += " 2" })
				}
				if err != nil {
					t.Errorf("edit %s: %v", c.Name, err)
				}
			}
		})
	}
}

// checkReads fails the test unless this release reads the stored forms.
func (i installation) checkReads(t *testing.T, f forms) {
	t.Helper()
	callers := map[string][]caller{}
	check := startCheck(t, i.url, callers)
	for _, c := range f.Callers {
		k, err := i.keys.Get(t.Context(), c.ID)
		if err != nil || k.Name != c.Name {
			t.Errorf("%s: %+v, %v", c.Name, k, err)
		}
		if status, degraded := call(t, check, c.Secret); status != c.Status || degraded {
			t.Errorf("%s: got %d, degraded %v, want %d", c.Name, status, degraded, c.Status)
		}
	}
	if list, err := i.tokens.List(t.Context()); err != nil || len(list) != 1 || list[0].Name != f.Token {
		t.Errorf("tokens %+v, %v", list, err)
	}
	if v, err := i.keys.Audit().Verify(t.Context()); err != nil || !v.Good() || v.Entries != f.Entries {
		t.Errorf("the audit: %+v, %v, want %d entries", v, err, f.Entries)
	}
}

// load fills Valkey and the journal with the stored forms of a release.
func (i installation) load(t *testing.T, f forms) {
	t.Helper()
	for _, s := range f.Valkey {
		words := make([]string, len(s.Words))
		for n, word := range s.Words {
			words[n] = string(word)
		}
		if err := i.client.Do(t.Context(), i.client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%q: %v", words[:2], err)
		}
	}
	for name, content := range f.Journal {
		path := filepath.Join(i.folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// write fills the installation with a key of every kind, and writes all that is then
// stored to a file.
func (i installation) write(t *testing.T, path string) {
	t.Helper()
	plan := policy.Plan{Name: "free", Limits: []limiter.Limit{{Requests: 1_000_000, Window: time.Hour}}}
	if _, err := i.keys.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
	f := forms{Token: "a machine", Journal: map[string][]byte{}}
	far := time.Now().Add(50 * 365 * 24 * time.Hour).UTC().Truncate(time.Second)
	if _, _, err := i.tokens.Create(t.Context(), token.New{Name: f.Token, Scope: token.Read,
		Expires: time.Now().Add(365 * 24 * time.Hour), By: byTest.By}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name   string
		status int
		edit   func(*policy.Key)
	}{
		{"active", http.StatusOK, func(k *policy.Key) { k.Tags = []string{"a", "b"} }},
		{"revoked", http.StatusUnauthorized, func(k *policy.Key) { k.Status = policy.Revoked }},
		{"banned", http.StatusTooManyRequests, func(k *policy.Key) { k.Banned = far }},
		{"overridden", http.StatusOK, func(k *policy.Key) {
			k.Override = &policy.Override{Limits: plan.Limits, Mode: policy.Enforce, Until: far,
				Reason: "a test"}
		}},
	} {
		n := policy.NewKey{Name: kind.name, Env: "test", Plan: "free"}
		k, secret, err := i.keys.Create(t.Context(), n, byTest)
		if err == nil {
			k, err = i.keys.Update(t.Context(), k.ID, k.Version, audit.KeyEdit, byTest, kind.edit)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Callers = append(f.Callers, storedCaller{k.ID, kind.name, secret.Reveal(), kind.status})
	}
	const entries = 105 // so many that Upkeep moves one segment to the journal
	for n := range entries {
		if err := i.keys.Audit().Append(t.Context(), audit.Entry{By: byTest.By, Action: audit.KeyReset,
			Subject: f.Callers[0].ID, Reason: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Upkeep(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if err := i.Checkpoint(t.Context(), keyspace.BucketOf(f.Callers[1].ID)); err != nil {
		t.Fatal(err)
	}
	v, err := i.keys.Audit().Verify(t.Context())
	if err != nil || !v.Good() {
		t.Fatal(v, err)
	}
	f.Entries = v.Entries
	i.dump(t, &f)
	text, err := json.Marshal(f)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
	}
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dump reads the whole Valkey and journal into f.
func (i installation) dump(t *testing.T, f *forms) {
	t.Helper()
	ask := func(words ...string) valkey.ValkeyResult {
		return i.client.Do(t.Context(), i.client.B().Arbitrary(words...).Build())
	}
	keys, err := ask("KEYS", "*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	add := func(words ...string) {
		s := stored{}
		for _, word := range words {
			s.Words = append(s.Words, []byte(word))
		}
		f.Valkey = append(f.Valkey, s)
	}
	for _, key := range keys {
		kind, _ := ask("TYPE", key).ToString()
		switch kind {
		case "string":
			value, _ := ask("GET", key).ToString()
			add("SET", key, value)
		case "hash":
			fields, _ := ask("HGETALL", key).AsStrMap()
			for name, value := range fields {
				add("HSET", key, name, value)
			}
		case "zset":
			members, _ := ask("ZRANGE", key, "0", "-1").AsStrSlice()
			for _, member := range members {
				add("ZADD", key, "0", member)
			}
		case "stream":
			entries, _ := ask("XRANGE", key, "-", "+").AsXRange()
			for _, x := range entries {
				add("XADD", key, x.ID, "e", x.FieldValues["e"], "h", x.FieldValues["h"])
			}
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
	}
	err = filepath.WalkDir(i.folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(i.folder, path)
		if err == nil {
			f.Journal[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
