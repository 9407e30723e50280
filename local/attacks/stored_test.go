//go:build unix

package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// script is markup for every context in a page. A page that escapes it contains none of
// rawScripts.
const script = `"><img src=x onerror=alert(1)><script>alert(2)</script>" onfocus=alert(3) '`

// rawScripts are parts of script that no page may contain.
var rawScripts = []string{"<img src=x", "<script>alert(2)", `" onfocus=alert(3)`, "onerror=alert(1)>"}

// storeText stores a text in every text field of a key and a token, and returns the key's
// id.
func (i *installation) storeText(t *testing.T, header []string, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	tag, _ := json.Marshal(text[:min(len(text), 40)]) // a text always encodes
	post := func(method, path, body string, want int) reply {
		t.Helper()
		got := i.site.send(t, method, path, body, header...)
		if got.status != want {
			t.Fatalf("%s %s: %d %.500s", method, path, got.status, got.body)
		}
		return got
	}
	var made struct{ Key struct{ ID string } }
	got := post(http.MethodPost, "/api/v1/keys",
		fmt.Sprintf(`{"name":%s,"plan":"wide","env":"test","tags":[%s]}`, quoted, tag), http.StatusCreated)
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || made.Key.ID == "" {
		t.Fatalf("%v %s", err, got.body)
	}
	key := i.site.get(t, "/api/v1/keys/"+made.Key.ID, header...)
	override := fmt.Sprintf(`{"limits":[{"requests":20000000,"window":"1h"}],"reason":%s}`, quoted)
	withMatch := append([]string{"If-Match", key.header.Get("ETag")}, header...)
	if got := i.site.send(t, http.MethodPut, "/api/v1/keys/"+made.Key.ID+"/override", override,
		withMatch...); got.status != http.StatusOK {
		t.Fatalf("override: %d %.500s", got.status, got.body)
	}
	expires := time.Now().Add(time.Hour).Format(time.RFC3339)
	post(http.MethodPost, "/api/v1/tokens",
		fmt.Sprintf(`{"name":%s,"scope":"read","expires":%q}`, tag, expires), http.StatusCreated)
	return made.Key.ID
}

// Stored texts of one user run no script in another user's browser.
func TestAttackStoredScripts(t *testing.T) {
	a, i := attack(t, "scripts in stored texts",
		"markup as name, tag and reason of a key, name of a token, of a plan and of a rule, and in "+
			"queries, on every page that a GET shows")
	header := i.page(t)
	id := i.storeText(t, header, script)
	quoted, _ := json.Marshal(script) // a text always encodes
	policy := i.site.get(t, "/api/v1/policy", header...)
	var set map[string]any
	if err := json.Unmarshal([]byte(policy.body), &set); err != nil {
		t.Fatal(err)
	}
	delete(set, "version")
	plans, _ := set["plans"].([]any)
	set["plans"] = append(plans, map[string]any{"name": script,
		"limits": []any{map[string]any{"requests": 10_000_000, "window": "1h"}}})
	rules, _ := set["routes"].([]any)
	set["routes"] = append(rules, map[string]any{"name": script,
		"pattern": map[string]any{"path": "/scripts"}})
	body, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	withMatch := append([]string{"If-Match", policy.header.Get("ETag")}, header...)
	got := i.site.send(t, http.MethodPut, "/api/v1/policy?reason=%3Cscript%3Ealert(2)",
		string(body), withMatch...)
	if got.status != http.StatusOK {
		t.Fatalf("save the policy with %s: %d %.500s", quoted, got.status, got.body)
	}
	seen := 0
	for _, e := range pages(t, id) {
		if e.method != http.MethodGet || strings.HasPrefix(e.path, "/static") {
			continue
		}
		for _, query := range []string{"",
			"?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&name=%3Cscript%3Ealert(2)&next=%22%3E%3Cimg&key=" +
				id} {
			a.probe()
			page := i.site.get(t, e.path+query, header...)
			if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
				continue
			}
			if strings.Contains(page.body, "onerror=alert(1)") {
				seen++
			}
			for _, raw := range rawScripts {
				if strings.Contains(page.body, raw) {
					t.Errorf("%s%s has %q", e.pattern, query, raw)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d pages show the stored texts", seen)
	}
}
