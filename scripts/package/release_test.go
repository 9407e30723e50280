package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/testing/tier"
)

const (
	testVersion = "v1.2.3-rc.1"
	testModule  = "example.com/Acme/tidegate"
)

// command runs a program in a folder and returns its standard output.
func command(t *testing.T, dir string, variables []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errOut.String())
	}
	return string(out)
}

// checkout copies the repository's files to a new folder, a repository too.
func checkout(t *testing.T) string {
	t.Helper()
	root, dir := filepath.Join("..", ".."), t.TempDir()
	list := command(t, root, nil, "git", "ls-files", "-coz", "--exclude-standard")
	for name := range strings.SplitSeq(list, "\x00") {
		from := filepath.Join(root, name)
		info, err := os.Lstat(from)
		if name == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name), content, info.Mode())
	}
	command(t, dir, nil, "git", "init", "--quiet")
	command(t, dir, nil, "git", "add", "--all")
	return dir
}

func put(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		t.Fatal(err)
	}
}

// unpack puts the files of a .tar.gz into a folder.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	packed, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, header.Name), content, header.FileInfo().Mode())
	}
}

// Two checkouts, in folders of different names and modes, give the same bytes. What they
// give installs into empty projects, and works there.
func TestRelease(t *testing.T) {
	tier.Two(t, "builds all programs for two architectures")
	first, second := checkout(t), checkout(t)
	release := "exec ./scripts/release -version " + testVersion + " -module " + testModule
	command(t, first, nil, "sh", "-c", release)
	settings := []string{"TZ=Asia/Tokyo", "GOFLAGS=-v", "GOAMD64=v3"}
	command(t, second, settings, "sh", "-c", "umask 077 && "+release)
	dist := filepath.Join(first, "dist")
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(second, "dist", "SHA256SUMS"))
	if err != nil || !bytes.Equal(again, sums) {
		t.Errorf("the second checkout gives other bytes: %v\n%s\n%s", err, sums, again)
	}
	checkSums(t, dist, string(sums))
	t.Run("bill of materials", func(t *testing.T) { checkBOM(t, dist) })
	t.Run("template", func(t *testing.T) { checkTemplate(t, dist) })
	t.Run("npm", func(t *testing.T) { checkNPM(t, dist) })
	t.Run("pip", func(t *testing.T) { checkPip(t, dist) })
	t.Run("go", func(t *testing.T) { checkGo(t, dist) })
	t.Run("image", func(t *testing.T) { checkImage(t, dist) })
}

// checkSums checks that SHA256SUMS names every other file once.
func checkSums(t *testing.T, dist, sums string) {
	t.Helper()
	entries, err := os.ReadDir(dist)
	if err != nil || strings.Count(sums, "\n") != len(entries)-1 || len(entries) < 15 {
		t.Errorf("%d files, %v, and these checksums:\n%s", len(entries), err, sums)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "SHA256SUMS" && strings.Count(sums, "  "+name+"\n") != 1 {
			t.Errorf("no checksum of %s in\n%s", name, sums)
		}
	}
	if _, err := exec.LookPath("sha256sum"); err == nil {
		command(t, dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	}
}

// The bill names what is in the programs and on the pages, and nothing that only tests use.
func checkBOM(t *testing.T, dist string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"pkg:golang/github.com/valkey-io/valkey-go@v1", "pkg:golang/std@1.",
		"pkg:npm/htmx.org@", `"name": "tidegate"`, `"version": "1.2.3-rc.1"`, `"alg": "SHA-256"`} {
		if !bytes.Contains(text, []byte(url)) {
			t.Errorf("%s is missing", url)
		}
	}
	if bytes.Contains(text, []byte("pgregory.net/rapid")) || bytes.Contains(text, []byte("2006-")) {
		t.Errorf("the bill has what is in no program:\n%s", text)
	}
}

// CloudFormation takes the template, as far as cfn-lint knows.
func checkTemplate(t *testing.T, dist string) {
	t.Helper()
	if _, err := exec.LookPath("cfn-lint"); err != nil {
		t.Skip("cfn-lint is not found")
	}
	command(t, dist, nil, "cfn-lint", "--ignore-checks", "W", "--regions", "us-east-1", "eu-central-1", "--",
		"tidegate.template.json")
}

// denied is an event of an HTTP API whose authorizer denied the call.
const denied = `{"version": "2.0", "rawPath": "/", "headers": {},
	"requestContext": {"http": {"method": "GET", "path": "/"}, "authorizer": {"lambda":
		{"denied": "true", "retryAfter": "7", "rateLimit": "\"a\";r=0;t=7", "message": "Wait."}}}}`

func checkNPM(t *testing.T, dist string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not found")
	}
	project := t.TempDir()
	put(t, filepath.Join(project, "package.json"), []byte(`{"private": true}`), 0o644)
	command(t, project, nil, "npm", "install", "--offline", "--no-audit", "--no-fund",
		filepath.Join(dist, "tidegate-1.2.3-rc.1.tgz"))
	out := command(t, project, nil, "node", "-e", `
		const { Limits } = require("tidegate");
		const { version } = require("tidegate/package.json");
		new Limits({ source: undefined }).lambda(async () => ({ statusCode: 200 }))(`+denied+`, {})
			.then((a) => console.log(version, a.statusCode, a.headers["Retry-After"]));`)
	if strings.TrimSpace(out) != "1.2.3-rc.1 429 7" {
		t.Errorf("got %s", out)
	}
	// npm itself packs the same files from the sources.
	listed := command(t, filepath.Join("..", "..", nodeFolder), nil, "npm", "pack", "--dry-run", "--json")
	for _, name := range []string{"tidegate.cjs", "tidegate.d.cts"} {
		if _, err := os.Stat(filepath.Join(project, "node_modules", "tidegate", name)); err != nil ||
			!strings.Contains(listed, `"path": "`+name+`"`) {
			t.Errorf("%s: %v in the package; npm pack has %s", name, err, listed)
		}
	}
}

func checkPip(t *testing.T, dist string) {
	t.Helper()
	python := ""
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import setuptools, pip, wheel").Run() == nil {
			python = cmp.Or(python, name)
		}
	}
	if python == "" {
		t.Skip("no python3 with pip, setuptools and wheel is found")
	}
	for _, name := range []string{"tidegate-1.2.3rc1-py3-none-any.whl", "tidegate-1.2.3rc1.tar.gz"} {
		project := t.TempDir()
		command(t, project, nil, python, "-m", "pip", "install", "--quiet", "--no-index",
			"--no-build-isolation", "--disable-pip-version-check", "--root-user-action", "ignore",
			"--target", "packages", filepath.Join(dist, name))
		out := command(t, project, []string{"PYTHONPATH=packages"}, python, "-c", `
import importlib.metadata, json, sys, tidegate
handler = tidegate.Limits().lambda_handler(lambda event, context, call: {"statusCode": 200})
answer = handler(json.loads(sys.argv[1]), None)
about = importlib.metadata.metadata("tidegate")
print(about["Version"], about["Requires-Python"], answer["statusCode"], answer["headers"]["Retry-After"])
print(about["Summary"])`, denied)
		if !strings.HasPrefix(out, "1.2.3rc1 >=3.10 429 7\nApplies Tidegate's") {
			t.Errorf("%s: got %s", name, out)
		}
	}
}

// checkGo gets the renamed module from files alone, and runs a backend with it. The check
// function finds all that it imports.
func checkGo(t *testing.T, dist string) {
	t.Helper()
	proxy, project := t.TempDir(), t.TempDir()
	unpack(t, filepath.Join(dist, "go-"+testVersion+".tar.gz"), proxy)
	cached := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOMODCACHE")) + "/cache/download"
	variables := []string{"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(cached),
		"GOFLAGS=-modcacherw", "GONOSUMDB=*", "GOMODCACHE=" + filepath.Join(t.TempDir(), "modules")}
	put(t, filepath.Join(project, "main.go"), []byte(`package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"`+testModule+`/web/middleware"
)

func main() {
	limits := middleware.Middleware{Source: func(*http.Request) map[string]any {
		return map[string]any{"denied": true, "retryAfter": 7}
	}}
	answer := httptest.NewRecorder()
	limits.Wrap(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(answer.Code, answer.Header().Get("Retry-After"))
}
`), 0o644)
	command(t, project, variables, "go", "mod", "init", "example.org/backend")
	command(t, project, variables, "go", "get", testModule+"/web/middleware@"+testVersion)
	if out := command(t, project, variables, "go", "run", "."); out != "429 7\n" {
		t.Errorf("got %s", out)
	}
	mod, err := os.ReadFile(filepath.Join(project, "go.mod"))
	if err != nil || strings.Contains(string(mod), "valkey") {
		t.Errorf("a backend requires more than the middleware: %v\n%s", err, mod)
	}
	command(t, project, variables, "go", "get", testModule+"/functions/check@"+testVersion)
	packages := command(t, project, variables, "go", "list", "-deps", testModule+"/functions/check")
	if !strings.Contains(packages, testModule+"/internal/limiter\n") ||
		strings.Contains(packages, "\ntidegate/") {
		t.Errorf("the check function imports\n%s", packages)
	}
}

// The image has both architectures, and everything can be read by its user.
func checkImage(t *testing.T, dist string) {
	t.Helper()
	context := t.TempDir()
	unpack(t, filepath.Join(dist, "image.tar.gz"), context)
	for _, arch := range []string{"amd64", "arm64"} {
		for _, name := range []string{"tidegate", "functions/check/bootstrap", "functions/admin/bootstrap"} {
			info, err := os.Stat(filepath.Join(context, "linux_"+arch, name))
			if err != nil || info.Mode() != 0o755 {
				t.Errorf("%s of %s: %v, %v", name, arch, info, err)
			}
		}
	}
	dockerfile, err := os.ReadFile(filepath.Join(context, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := os.ReadFile(filepath.Join(context, thirdParty))
	if err != nil || !bytes.Contains(licenses, []byte("==== github.com/valkey-io/valkey-go: LICENSE")) {
		t.Errorf("the licences of others: %v\n%.300s", err, licenses)
	}
	for _, copied := range regexp.MustCompile(`(?m)^COPY (?:--\S+ )?(\S+)`).FindAllStringSubmatch(string(dockerfile), -1) {
		name := strings.ReplaceAll(copied[1], "${TARGETARCH}", "arm64")
		if found, err := filepath.Glob(filepath.Join(context, name)); err != nil || len(found) == 0 {
			t.Errorf("the image copies %s: %v", copied[1], err)
		}
	}
}
