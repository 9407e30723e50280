//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/web/middleware"
)

// recipes are the tests' deployment: the built check function behind Lambda's Invoke API.
type recipes struct {
	*checkFunction

	endpoint string
}

func startRecipes(t *testing.T) recipes {
	t.Helper()
	f := startCheck(t, valkeytest.Start(t), map[string]string{"DIRECT_CALLS": "on",
		"IDENTITY_SOURCES": "key"})
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Limits = nil
		set.Routes = []limits.Route{{Name: "limits", Match: []route.Pattern{{Method: "GET", Path: "/limits"}},
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 0}}}}
	})
	api := httptest.NewServer(invokeAPI(map[string]gateway.Invoker{"check": f}))
	t.Cleanup(api.Close)
	return recipes{f, api.URL}
}

// fence matches a block of code of a page.
var fence = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// documented returns the first block of code in a language below a heading of a page.
func documented(t *testing.T, page, heading, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %s", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	for _, block := range fence.FindAllStringSubmatch(below, -1) {
		if block[1] == language {
			return block[2]
		}
	}
	t.Fatalf("%s: no %s below %s", page, language, heading)
	return ""
}

// nodeDriver runs a handler once, with the event of standard input. verify is the user's.
const nodeDriver = `
const user = (id) => id && { id, plan: "two", tenant: "acme" };
globalThis.verify = async ({ headers }) => user(headers["X-User"]);
const event = JSON.parse(require("node:fs").readFileSync(0));
Promise.resolve().then(() => require("./recipe.cjs").handler(event, {})).then(
  (answer) => console.log(JSON.stringify(answer)),
  (error) => console.log(JSON.stringify({ errorType: error.name, errorMessage: error.message })));
`

const pythonDriver = `
import builtins, functools, json, os, sys
def verify(event):
    user = event["headers"].get("X-User")
    return user and {"id": user, "plan": "two", "tenant": "acme"}
builtins.verify = verify
import boto3
boto3.client = functools.partial(boto3.client, endpoint_url=os.environ["AWS_ENDPOINT_URL_LAMBDA"])
from recipe import handler
try:
    print(json.dumps(handler(json.load(sys.stdin), None)))
except Exception as error:
    print(json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}))
`

// script is a function in Node.js or Python: each invocation is a process.
type script struct {
	t       *testing.T
	folder  string
	command []string
	env     []string
	// edit, unless nil, changes the event, as what stands before the function does.
	edit func(event map[string]any)
}

// inNode returns a recipe of docs/direct.md in Node.js as a function.
func (r recipes) inNode(t *testing.T, heading string) script {
	t.Helper()
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	packages, err := filepath.Abs("../web/middleware/node/node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(packages, "@aws-sdk", "client-lambda"))
	}
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix web/middleware/node")
	s := r.script(t, map[string]string{"recipe.cjs": documented(t, "direct.md", heading, "js"),
		"driver.cjs": nodeDriver}, "../web/middleware/node/tidegate.cjs")
	s.command, s.env = []string{node, "driver.cjs"}, append(s.env, "NODE_PATH="+packages)
	return s
}

// inPython returns a recipe of docs/direct.md in Python as a function.
func (r recipes) inPython(t *testing.T, heading string) script {
	t.Helper()
	s := r.script(t, map[string]string{"recipe.py": documented(t, "direct.md", heading, "python"),
		"driver.py": pythonDriver}, "../web/middleware/python/tidegate.py")
	var err error
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		err = exec.CommandContext(t.Context(), python, "-c", "import boto3").Run()
		if err == nil {
			s.command = []string{python, "driver.py"}
			break
		}
	}
	browsertest.Need(t, err, "install boto3: scripts/install-test-tools python")
	return s
}

func (r recipes) script(t *testing.T, files map[string]string, library string) script {
	t.Helper()
	text, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	files[filepath.Base(library)] = string(text)
	s := script{t: t, folder: t.TempDir(), env: []string{"AWS_ENDPOINT_URL_LAMBDA=" + r.endpoint,
		"AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x",
		"AWS_SECRET_ACCESS_KEY=x", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Invoke implements gateway.Invoker.
func (s script) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if s.edit != nil {
		var event map[string]any
		if err := json.Unmarshal(payload, &event); err != nil {
			return nil, err
		}
		s.edit(event)
		payload, _ = json.Marshal(event)
	}
	command := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	command.Dir, command.Env, command.Stdin = s.folder, s.env, bytes.NewReader(payload)
	command.Stderr = s.t.Output()
	answer, err := command.Output()
	if err != nil {
		return nil, err
	}
	var failed struct{ ErrorType, ErrorMessage string }
	if json.Unmarshal(answer, &failed) == nil && failed.ErrorType != "" {
		return nil, &lambda.FunctionError{Type: failed.ErrorType, Message: failed.ErrorMessage}
	}
	return answer, nil
}

// The types and fields of the Go recipe.
type (
	authorizerEvent  = events.APIGatewayCustomAuthorizerRequestTypeRequest
	authorizerAnswer = events.APIGatewayCustomAuthorizerResponse
	user             struct{ id, plan, tenant string }

	authorizer struct {
		door   *middleware.Door
		verify func(authorizerEvent) (user, error)
	}
)

func byInvoke(client *awslambda.Client, function string) *middleware.Door {
	return middleware.ByInvoke(func(ctx context.Context, payload []byte) ([]byte, bool, error) {
		out, err := client.Invoke(ctx, &awslambda.InvokeInput{FunctionName: &function, Payload: payload})
		if err != nil {
			return nil, false, err
		}
		return out.Payload, out.FunctionError != nil, nil
	})
}

func (a *authorizer) handle(ctx context.Context, event authorizerEvent) (authorizerAnswer, error) {
	user, err := a.verify(event)
	if err != nil {
		return authorizerAnswer{}, errors.New("Unauthorized")
	}
	answer, err := a.door.Check(ctx, middleware.Call{Subject: user.id, Plan: user.plan,
		Method: event.HTTPMethod, Path: event.Path, Address: event.RequestContext.Identity.SourceIP})
	switch {
	case err != nil:
		return authorizerAnswer{}, err
	case answer.Status == http.StatusForbidden:
		return authorizerAnswer{}, errors.New("Unauthorized")
	}
	effect := "Deny"
	if answer.Allowed {
		effect = "Allow"
	}
	answer.Context["tenant"] = user.tenant
	return authorizerAnswer{PrincipalID: user.id, Context: answer.Context,
		PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{Version: "2012-10-17",
			Statement: []events.IAMPolicyStatement{{Action: []string{"execute-api:Invoke"}, Effect: effect,
				Resource: []string{event.MethodArn}}}}}, nil
}

// inGo returns the recipe in Go as a function.
func (r recipes) inGo(t *testing.T) gateway.Invoker {
	t.Helper()
	source, err := os.ReadFile("recipes_test.go")
	if err != nil || !strings.Contains(string(source), documented(t, "direct.md", keepAuthorizer, "go")) {
		t.Errorf("the page has other code than this file: %v", err)
	}
	client := awslambda.New(awslambda.Options{Region: "us-east-1", BaseEndpoint: &r.endpoint,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "x", SecretAccessKey: "x"}, nil
		})})
	a := &authorizer{door: byInvoke(client, "tidegate-prod-check"), verify: func(event authorizerEvent) (user,
		error) {
		if name := event.Headers["X-User"]; name != "" {
			return user{name, "two", "acme"}, nil
		}
		return user{}, errors.New("nobody")
	}}
	return invoker(func(ctx context.Context, payload []byte) ([]byte, error) {
		var event authorizerEvent
		if err := json.Unmarshal(payload, &event); err != nil {
			return nil, err
		}
		answer, err := a.handle(ctx, event)
		if err != nil {
			return nil, &lambda.FunctionError{Type: "errorString", Message: err.Error()}
		}
		return json.Marshal(answer)
	})
}

type invoker func(ctx context.Context, payload []byte) ([]byte, error)

// Invoke implements gateway.Invoker.
func (f invoker) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return f(ctx, payload) }

const keepAuthorizer = "Keep your Lambda authorizer"

// served starts a handler and returns its address.
func served(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// get sends a request with headers, name and value, and wants a status.
func get(t *testing.T, address string, status int, headers ...string) (http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("%s %v: %d %s, %v, want %d", address, headers, answer.StatusCode, body, err, status)
	}
	return answer.Header, string(body)
}

// An authorizer of one's own, in each language, asks with the real SDK: its REST API answers
// a true 429, and the backend gets both contexts.
func TestOwnAuthorizer(t *testing.T) {
	tier.Two(t, "needs Node.js, Python and their SDKs")
	r := startRecipes(t)
	for name, function := range map[string]func(*testing.T) gateway.Invoker{
		"Node.js": func(t *testing.T) gateway.Invoker { return r.inNode(t, keepAuthorizer) },
		"Python":  func(t *testing.T) gateway.Invoker { return r.inPython(t, keepAuthorizer) },
		"Go":      r.inGo,
	} {
		t.Run(name, func(t *testing.T) {
			apis, err := gateway.Deployed()
			if err != nil {
				t.Fatal(err)
			}
			apis.REST.Authorizer, apis.REST.Integration = function(t), echo.Backend{}
			api := served(t, apis.REST)
			for _, rest := range []string{`"remaining": "1"`, `"remaining": "0"`} {
				if _, body := get(t, api+"/orders", http.StatusOK, "X-User", name); !strings.Contains(body,
					rest) ||
					!strings.Contains(body, `"tenant": "acme"`) {
					t.Errorf("got %s, want %s and the tenant", body, rest)
				}
			}
			headers, body := get(t, api+"/orders", http.StatusTooManyRequests, "X-User", name)
			if headers.Get("Retry-After") == "" || !strings.Contains(body, `"2 per hour"`) {
				t.Errorf("got %v %s", headers, body)
			}
			get(t, api+"/orders", http.StatusUnauthorized)
		})
	}
}

// A backend behind an authorizer of API Gateway asks with its claims. The calls count
// together with those of the token's caller.
func TestBehindAnotherAuthorizer(t *testing.T) {
	tier.Two(t, "needs Node.js and its SDK")
	r := startRecipes(t)
	s := r.inNode(t, "Keep a Cognito, JWT or IAM authorizer")
	s.edit = func(event map[string]any) {
		claims := map[string]any{"sub": "user-42", "iss": "https://issuer.example", "plan": "two"}
		event["requestContext"].(map[string]any)["authorizer"] = map[string]any{
			"jwt": map[string]any{"claims": claims}}
	}
	api := served(t, &gateway.HTTP{Integration: s})
	r.direct(t, `"subject":"user-42","issuer":"https://issuer.example","plan":"two"`, http.StatusOK)
	if headers, body := get(t, api+"/orders", http.StatusOK); body != "hello two" ||
		!strings.Contains(headers.Get("RateLimit"), `"2 per hour";r=0`) {
		t.Errorf("got %v %s", headers, body)
	}
	if headers, _ := get(t, api+"/orders", http.StatusTooManyRequests); headers.Get("Retry-After") == "" {
		t.Errorf("got %v", headers)
	}
}

// direct makes a direct call and wants the status of its answer.
func (r recipes) direct(t *testing.T, members string, status int) {
	t.Helper()
	body, err := r.Invoke(t.Context(), []byte(`{"tidegate":"check",`+members+`}`))
	var answer struct{ Status int }
	if err != nil || json.Unmarshal(body, &answer) != nil || answer.Status != status {
		t.Fatalf("%s: %s, %v, want %d", members, body, err, status)
	}
}

// A function URL takes API keys.
func TestFunctionURL(t *testing.T) {
	tier.Two(t, "needs Python and boto3")
	r := startRecipes(t)
	s := r.inPython(t, "A function URL")
	api := served(t, &gateway.HTTP{Integration: s}) // a function URL's events have this form
	_, secret := r.newKey(t)
	get(t, api+"/orders", http.StatusUnauthorized)
	get(t, api+"/orders", http.StatusUnauthorized, "X-Api-Key", "tg_test_no")
	for range 2 {
		if _, body := get(t, api+"/orders", http.StatusOK, "X-Api-Key",
			secret.Reveal()); body != "hello a key" {
			t.Errorf("got %s", body)
		}
	}
	get(t, api+"/orders", http.StatusTooManyRequests, "X-Api-Key", secret.Reveal())
}

// Each message of a WebSocket is a call.
func TestMessages(t *testing.T) {
	tier.Two(t, "needs Node.js and its SDK")
	r := startRecipes(t)
	registrytest.Save(t, r.store, byTest, func(set *policy.Set) {
		set.Plans[0].Limits = registrytest.Limits("1 per hour, on MESSAGE /send")
	})
	s := r.inNode(t, "Messages of a WebSocket")
	message := func(route string) string {
		answer, err := s.Invoke(t.Context(), fmt.Appendf(nil, `{"requestContext":{"eventType":"MESSAGE",
			"routeKey":%q,"connectionId":"c","authorizer":{"principalId":"user-42","plan":"two"},
			"identity":{"sourceIp":"203.0.113.7"}},"body":"{}"}`, route))
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	for i, c := range [][2]string{{"send", `{"statusCode":200,`}, {"list", `{"statusCode":200,`},
		{"send", `{"statusCode":429,`}, {"list", `{"statusCode":200,`}} {
		if got := message(c[0]); !strings.HasPrefix(got, c[1]) {
			t.Errorf("message %d: got %s, want %s", i+1, got, c[1])
		}
	}
}

// A route of cost 0 tells callers what they have left, on both kinds of API, also when that
// is nothing.
func TestWhatIsLeft(t *testing.T) {
	tier.Two(t, "needs Node.js")
	r := startRecipes(t)
	s := r.inNode(t, "What is left, for your callers")
	apis, err := gateway.Deployed()
	if err != nil {
		t.Fatal(err)
	}
	apis.REST.Authorizer, apis.REST.Integration = r, s
	apis.HTTP.Authorizer, apis.HTTP.Integration = r, s
	for name, api := range map[string]http.Handler{"REST": apis.REST, "HTTP": apis.HTTP} {
		t.Run(name, func(t *testing.T) {
			address := served(t, api)
			_, secret := r.newKey(t)
			for left := 2; left >= 0; left-- {
				headers, body := get(t, address+"/limits", http.StatusOK, "X-Api-Key", secret.Reveal())
				want := fmt.Sprintf(`{"plan":"two","limit":2,"remaining":%d,`, left)
				if !strings.HasPrefix(body, want) || !strings.HasPrefix(headers.Get("RateLimit"),
					fmt.Sprintf(`"2 per hour";r=%d`, left)) {
					t.Errorf("got %v %s, want %s…", headers, body, want)
				}
				if left > 0 {
					get(t, address+"/orders", http.StatusOK, "X-Api-Key", secret.Reveal())
				}
			}
		})
	}
}
