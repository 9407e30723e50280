package awscli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/tier"
)

const parseTimeout = time.Minute

// span matches code on a page: an indented line, or text between backquotes on two lines
// at most.
var span = regexp.MustCompile("(?m)^ {4,}.*$|`[^`\n]+\n?[^`\n]*`")

// documented returns the commands of the AWS CLI on the pages. A command ends where the
// shell ends it, and backslashes join its lines. Those in prose without options are names.
func documented(t *testing.T) (commands []string) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md", "../../local/verify/rows.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(text), "")
		for _, code := range span.FindAllString(joined, -1) {
			for _, at := range regexp.MustCompile(`\baws [a-z]`).FindAllStringIndex(code, -1) {
				if command := firstCommand(code[at[0]:]); strings.Contains(command, " --") {
					commands = append(commands, strings.Join(strings.Fields(command), " "))
				}
			}
		}
	}
	return commands
}

// firstCommand cuts a text where the shell ends its first command.
func firstCommand(text string) string {
	var quote rune
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.ContainsRune("|>;&)`", c):
			return text[:i]
		}
	}
	return text
}

// cli is an installed AWS CLI.
type cli struct{ path, version string }

// knows reports whether the CLI can know the service. Serverless caches are newer than the
// CLI 2 of Debian 12.
func (c cli) knows(command string) bool {
	return !strings.HasPrefix(c.version, "2.9.") || !strings.Contains(command, "describe-serverless-cache")
}

// installed returns the AWS CLIs by their major version.
func installed(ctx context.Context) map[string]cli {
	found := map[string]cli{}
	for _, name := range []string{"aws", "/usr/bin/aws", "/usr/local/bin/aws", os.Getenv("AWS_CLI")} {
		out, err := exec.CommandContext(ctx, name, "--version").CombinedOutput() // 1 writes to standard error
		version, isCLI := strings.CutPrefix(string(out), "aws-cli/")
		if err == nil && isCLI && found[version[:1]].path == "" {
			found[version[:1]] = cli{name, version}
		}
	}
	return found
}

// Both versions of the AWS CLI parse every command on the pages: each sends a request.
func TestDocumentedCommands(t *testing.T) {
	tier.Two(t, "starts the AWS CLI for every command of the pages")
	commands := documented(t)
	if len(commands) < 20 {
		t.Fatalf("the pages have only %d commands: %q", len(commands), commands)
	}
	var requests atomic.Int64
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.Error(w, "{}", http.StatusBadRequest)
	}))
	defer aws.Close()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"FILE":                   `{"Resources": {}}`,
		"tidegate.template.json": `{"Resources": {}}`,
		"build/check.zip":        "zip",
		"check-arm64.zip":        "zip",
		"build/restore.zip":      "PK\x05\x06" + strings.Repeat("\x00", 18), // without entries
		"build/payload.json":     `"-dry-run"`,
		"build/restore.json":     `{"FunctionName": "a", "Role": "arn:aws:iam::123456789012:role/a", "Code": {}}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	clis := installed(t.Context())
	for _, version := range []string{"1", "2"} {
		t.Run("version "+version, func(t *testing.T) {
			cli := clis[version]
			if cli.path == "" {
				t.Skipf("AWS CLI %s is not found: AWS_CLI can name it", version)
			}
			for _, command := range commands {
				if !cli.knows(command) {
					t.Logf("AWS CLI %s is too old for %s", strings.Fields(cli.version)[0], command)
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), parseTimeout)
				before := requests.Load()
				script := cli.path + " --endpoint-url " + aws.URL + " " + strings.TrimPrefix(command, "aws ")
				cmd := exec.CommandContext(ctx, "sh", "-c", script)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=a",
					"AWS_REGION=eu-central-1", "AWS_DEFAULT_REGION=eu-central-1", "AWS_MAX_ATTEMPTS=1",
					"AWS_PAGER=", "AWS_CONFIG_FILE=none", "plan=PLAN", "f=check")
				out, _ := cmd.CombinedOutput() // fails: the server refuses all
				cancel()
				if requests.Load() == before {
					t.Errorf("%s: %s", command, lastLine(string(out)))
				}
			}
		})
	}
}
