// Package oidctest runs a real OpenID provider for tests: the npm package oidc-provider.
package oidctest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/waiting"
)

// Client is a registered client of the provider.
type Client struct {
	ID                     string   `json:"client_id"`
	Secret                 string   `json:"client_secret"`
	RedirectURIs           []string `json:"redirect_uris"`
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
}

// Options configure the provider.
type Options struct {
	Clients       []Client `json:"clients"`
	IDTokenClaims bool     `json:"idTokenClaims"` // in the id token, not only at the userinfo endpoint
}

// Start runs a provider until the test ends and returns its issuer. Without Node.js or
// the package the test is skipped, but fails with CI=true. A test that calls it belongs
// to tier 2.
func Start(t testing.TB, o Options) (issuer string) {
	t.Helper()
	tier.Two(t, "starts an OpenID provider of npm")
	_, file, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(file), "testdata", "provider")
	const install = "install it: npm ci --ignore-scripts --prefix internal/testing/oidctest/testdata/provider"
	_, err := os.Stat(filepath.Join(folder, "node_modules", "oidc-provider"))
	browsertest.Need(t, err, install)
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	options, err := json.Marshal(struct {
		Options
		Key jose.JSONWebKey `json:"key"`
	}{o, jose.JSONWebKey{Key: key, KeyID: "test", Algorithm: string(jose.ES256), Use: "sig"}})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(node, "provider.js", string(options))
	command.Dir = folder
	return run(t, command)
}

// run starts the program and returns the first line that it prints. The program ends when
// its input is closed, so a killed test leaves no process behind. run kills the program
// if it prints nothing, or does not end, within waiting.Timeout.
func run(t testing.TB, command *exec.Cmd) string {
	t.Helper()
	var log strings.Builder
	command.Stderr = &log
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	kill := func() { _ = command.Process.Kill() }
	deadline := time.AfterFunc(waiting.Timeout, kill)
	lines := bufio.NewScanner(output)
	lines.Scan()
	line := lines.Text()
	deadline.Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, output)
	}()
	t.Cleanup(func() {
		_ = input.Close()
		deadline := time.AfterFunc(waiting.Timeout, kill)
		defer deadline.Stop()
		<-drained
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the provider wrote:\n%s", &log)
		}
	})
	if !strings.HasPrefix(line, "http://") {
		t.Fatalf("the provider printed %q within %s: want its address", line, waiting.Timeout)
	}
	return line
}

// Person is a user whose browser follows only the provider's own redirects.
type Person struct {
	t      testing.TB
	client *http.Client
	issuer string
}

// NewPerson returns a user who has not logged in yet.
func NewPerson(t testing.TB, issuer string) *Person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Person{t: t, issuer: issuer, client: &http.Client{
		Timeout:       waiting.Timeout,
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Login opens the provider's address, logs in under the name if the provider requires it,
// and returns the address outside of the provider that it redirects to.
func (p *Person) Login(address, name string) *url.URL {
	p.t.Helper()
	at := p.do(http.MethodGet, address, nil)
	for range 10 {
		switch {
		case at.location == "":
			at = p.submit(at, name)
			continue
		case at.status < http.StatusMultipleChoices:
			p.t.Fatalf("%s: %d to %s", at.url, at.status, at.location)
		}
		next, err := at.url.Parse(at.location)
		if err != nil {
			p.t.Fatal(err)
		}
		if !strings.HasPrefix(next.String(), p.issuer+"/") {
			return next
		}
		at = p.do(http.MethodGet, next.String(), nil)
	}
	p.t.Fatal("the provider redirects or asks for a log-in again and again")
	return nil
}

// submit fills in the form of a page and posts it to the page's address.
func (p *Person) submit(at page, name string) page {
	p.t.Helper()
	if at.status != http.StatusOK || !strings.Contains(at.body, `name="login"`) {
		p.t.Fatalf("%s: %d without a form:\n%s", at.url, at.status, at.body)
	}
	return p.do(http.MethodPost, at.url.String(), url.Values{"login": {name}, "password": {"x"}})
}

// page is a response of the provider.
type page struct {
	url            *url.URL
	status         int
	location, body string
}

func (p *Person) do(method, address string, form url.Values) page {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return page{url: res.Request.URL, status: res.StatusCode, location: res.Header.Get("Location"),
		body: string(body)}
}
