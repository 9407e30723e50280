//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/registrytest"
)

// commandsOf returns the commands of one part of a page, or of the whole page if heading is
// empty. A command is a line of code that
// begins with "$ ", with the lines that a backslash joins to it.
func commandsOf(t *testing.T, page, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	part := string(text)
	if heading != "" {
		_, after, found := strings.Cut(part, "\n"+heading+"\n")
		if !found {
			t.Fatalf("%s has no %q", page, heading)
		}
		part, _, _ = strings.Cut(after, "\n## ")
	}
	part = strings.ReplaceAll(part, "\\\n", "")
	var commands []string
	for line := range strings.Lines(part) {
		if command, ok := strings.CutPrefix(line, "    $ "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// shell runs the commands of a page. Each command has the variables and functions of
// those before it. curl prints the status of its answer in a separate line.
type shell struct {
	dir, definitions string
	replace          map[string]string // from a text of the page to the test's value
}

const curlWithStatus = `curl() { command curl --max-time 20 -w '\n%{http_code}' "$@"; }` + "\n"

var definition = regexp.MustCompile(`^(\w+=|\w+\(\) )`)

// do runs a command. It returns the body and the status of the answer; "" without one.
func (s *shell) do(t *testing.T, command string) (body, status string) {
	t.Helper()
	for text, value := range s.replace {
		command = strings.ReplaceAll(command, text, value)
	}
	if definition.MatchString(command) {
		s.definitions += command + "\n"
		return "", ""
	}
	run := exec.CommandContext(t.Context(), "bash", "-euc", curlWithStatus+s.definitions+command)
	run.Dir = s.dir
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	text := strings.TrimSpace(string(out))
	cut := strings.LastIndexByte(text, '\n') + 1
	return text[:cut], text[cut:]
}

func needCurl(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("curl")
	browsertest.Need(t, err, "install curl")
}

// startDocumented starts a dashboard with a plan of 1,000 calls an hour and a route that
// settles. It returns a shell for the commands of a page.
func startDocumented(t *testing.T) (adminFunction, *shell) {
	t.Helper()
	needCurl(t)
	a := startAdmin(t, buildAdmin(t), nil)
	registrytest.Put(t, a.registry(t), byTest, policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: registrytest.Limits("1,000 per hour")}},
		Routes: []limits.Route{{Name: "chat", Match: []route.Pattern{{Path: "/chat"}}, Settle: true,
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 20}}}},
	})
	return a, &shell{dir: t.TempDir(), replace: map[string]string{
		"http://127.0.0.1:8082": a.url, "tga_…": strings.TrimPrefix(a.token(t), "Bearer "),
	}}
}

// The commands of docs/api.md work in the order in which it prints them, with the key that
// they create, and with a call of that key to settle.
func TestCommandsOfTheAPIPage(t *testing.T) {
	a, s := startDocumented(t)
	commands := commandsOf(t, "docs/api.md", "")
	if len(commands) < 10 {
		t.Fatalf("%d commands", len(commands))
	}
	secret, settled := "", false
	for _, command := range commands {
		if strings.Contains(command, "tgr_…") {
			s.replace["tgr_…"], settled = a.chat(t, secret), true
		}
		body, status := s.do(t, command)
		if status != "" && !strings.HasPrefix(status, "20") {
			t.Fatalf("%s: %s %s", command, status, body)
		}
		var created struct {
			Key struct {
				ID      string
				Version int64
			}
			Secret string
		}
		if json.Unmarshal([]byte(body), &created) == nil && created.Key.ID != "" {
			s.replace["8rF5qOfQUetu"], secret = created.Key.ID, created.Secret
			s.replace["VERSION=7"] = fmt.Sprintf("VERSION=%d", created.Key.Version)
		}
	}
	if s.replace["8rF5qOfQUetu"] == "" || !settled {
		t.Errorf("no key was created or no call settled: %v", s.replace)
	}
}

// chat checks a call of the route that settles, and returns the text to settle it by.
func (a adminFunction) chat(t *testing.T, key string) string {
	t.Helper()
	secret, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	result, err := enforce.NewChecker(a.client, apikey.Pepper(checkPepper)).Check(t.Context(), enforce.Call{
		Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
		Route: route.Call{Method: http.MethodPost, Path: "/chat"}})
	if err != nil || result.Settlement == "" {
		t.Fatalf("got %+v, %v, want a call to settle", result, err)
	}
	return result.Settlement
}

// Export, dry run and import work as docs/policies.md prints them. So does what it says
// of the version, the reason and the parts that a file leaves out.
func TestCommandsOfThePoliciesPage(t *testing.T) {
	a, s := startDocumented(t)
	s.definitions = fmt.Sprintf("DASHBOARD=%s TOKEN=%s\n", a.url, s.replace["tga_…"])
	commands := commandsOf(t, "docs/policies.md", "## YAML: import and export")
	if len(commands) != 3 {
		t.Fatalf("%d commands", len(commands))
	}
	export, dryRun, load := commands[0], commands[1], commands[2]
	file := filepath.Join(s.dir, "policy.yaml")
	edit := func(old, text string) {
		t.Helper()
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), old) {
			t.Fatalf("%q is not in the file: %v\n%s", old, err, content)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(content), old, text, 1)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(command, status, text string) {
		t.Helper()
		if body, got := s.do(t, command); got != status || !strings.Contains(body, text) {
			t.Fatalf("%s: %s %s, want %s with %s", command, got, body, status, text)
		}
	}
	want(export, "200", "")
	want(dryRun, "200", `"applied":false`)
	want(load, "200", `"applied":false`) // the same file
	edit("1,000 per hour", "2,000 per hour")
	want(dryRun, "200", "1,000 per hour → 2,000 per hour")
	want(strings.Replace(load, "?reason=more+room", "", 1), "422", "reason")
	want(load, "200", `"applied":true`)
	edit("2,000 per hour", "3,000 per hour")
	want(load, "412", "") // the file has the earlier version
	edit("version: 2", "# no version")
	want(load, "428", "If-Match")
	want(dryRun, "200", "2,000 per hour → 3,000 per hour")
	overwrite := strings.Replace(load, "-T ", "-H 'If-Match: *' -T ", 1)
	want(overwrite, "200", `"applied":true`)

	want("curl -sS -H \"Authorization: Bearer $TOKEN\" \"$DASHBOARD/api/v1/keys\" --json "+
		"'{\"name\":\"one\",\"plan\":\"free\"}'", "201", "")
	if err := os.WriteFile(file, []byte("plans: [{name: other, limits: [1 per hour]}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{dryRun, overwrite} { // the file leaves out the plan free
		want(command, "422", "Change their plan first")
	}
}

// The import of docs/start.md applies the first file of docs/policies.md, which a reader
// has written by hand.
func TestFirstPolicyOfStart(t *testing.T) {
	a, s := startDocumented(t)
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	if err := os.WriteFile(filepath.Join(s.dir, "policy.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := commandsOf(t, "docs/start.md", "## Try your own policy")
	if len(commands) != 1 {
		t.Fatalf("got %d commands, want 1", len(commands))
	}
	body, status := s.do(t, commands[0])
	if status != "200" || !strings.Contains(body, `"applied":true`) {
		t.Fatalf("got %s %s from %s, want 200 and the file applied", status, body, a.url)
	}
}

// The calls of the README end in two denials.
func TestTwelveCallsOfTheReadme(t *testing.T) {
	needCurl(t)
	p := start(t)
	calls := 0
	for _, command := range commandsOf(t, "README.md", "## Quick start") {
		if !strings.HasPrefix(command, "for i in ") {
			continue
		}
		calls++
		command = strings.ReplaceAll(command, "http://127.0.0.1:8080", p.url("rest"))
		out, err := exec.CommandContext(t.Context(), "bash", "-euc",
			"FREE="+p.key("free")+"\n"+command).CombinedOutput()
		if want := strings.Repeat("200 ", 10) + "429 429 "; err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", command, out, err, want)
		}
	}
	if calls != 1 {
		t.Errorf("the README has %d loops of calls, want 1", calls)
	}
}
