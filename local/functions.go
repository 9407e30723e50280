//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/config"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
	"tidegate/web/middleware"
)

// Timeouts of the functions as in a deployment. An HTTP API gives an authorizer 10 s at
// most.
const (
	checkTimeout = 9 * time.Second
	adminTimeout = 25 * time.Second
)

// idleTime is far shorter than Lambda's. An environment sends its records when it
// ends, so the dashboard shows calls soon.
const idleTime = 5 * time.Second

// valkeyTimeout is longer than a deployment's, since this machine runs other programs
// too.
const valkeyTimeout = 2 * time.Second

// invokers are the functions that the gateways invoke. Both APIs share one authorizer, as
// on AWS.
type invokers struct{ check, admin, backend, httpBackend gateway.Invoker }

// ownVariables are the variables that this program or its flags set.
var ownVariables = []string{
	"VALKEY_URL", "KEY_PEPPER", "HTTP_API_RESPONSE", "HTTP_API_DENY",
	"ADMIN_USER", "ADMIN_PASSWORD", "ADMIN_PASSWORD_HASH", "BASE_PATH", "CHANGES_LOG",
}

// environment returns a function's variables: the defaults, replaced by this program's
// variables with the given names, replaced by its own settings.
func environment(names []string, getenv func(string) string, defaults, own map[string]string,
) map[string]string {
	all := map[string]string{}
	maps.Copy(all, defaults)
	for _, name := range names {
		if value := getenv(name); value != "" && !slices.Contains(ownVariables, name) {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	return all
}

// startFunctions starts check and admin, which stop ends. exampleURL is the address of the
// calls that pages suggest.
func startFunctions(o options, r *registrar, l *login, exampleURL string, getenv func(string) string,
	errOut io.Writer) (f invokers, stop func(), err error) {
	log := &startLog{out: errOut, verbose: o.verbose}
	level := "info"
	if o.verbose {
		level = "debug"
	}
	checkFunction := o.function("check", checkTimeout, log, environment(config.CheckVariables, getenv,
		map[string]string{"LOG_LEVEL": level, "VALKEY_TIMEOUT": valkeyTimeout.String(), "DIRECT_CALLS": "on"},
		map[string]string{"VALKEY_URL": r.url, "KEY_PEPPER": r.pepper, "HTTP_API_DENY": o.httpDeny}))
	checkFunction.Idle = idleTime
	check, err := lambda.Start(checkFunction)
	if err != nil {
		return f, nil, log.explain(err)
	}
	admin, err := lambda.Start(o.function("admin", adminTimeout, log, environment(config.AdminVariables,
		getenv, map[string]string{"LOG_LEVEL": level}, map[string]string{
			"VALKEY_URL": r.url, "KEY_PEPPER": r.pepper, "ADMIN_USER": l.user, "ADMIN_PASSWORD_HASH": l.hash,
			"CHANGES_LOG": r.changes, "EXAMPLE_URL": exampleURL,
		})))
	if err != nil {
		check.Close()
		return f, nil, log.explain(err)
	}
	log.markStarted()
	backend := echo.Backend{Origin: o.corsOrigin}
	f = invokers{check: check, admin: admin, backend: backend, httpBackend: backend}
	if o.httpDeny == denyInContext {
		f.httpBackend = guardedBackend()
	}
	return f, func() { admin.Close(); check.Close() }, nil
}

// function returns the configuration of a function. It has one warm environment, so that
// this program fails at once if the function cannot start.
func (o *options) function(name string, timeout time.Duration, log io.Writer,
	env map[string]string) lambda.Config {
	return lambda.Config{
		Name:        name,
		Binary:      o.bootstrap(name),
		Env:         env,
		Concurrency: o.environments,
		Warm:        1,
		Timeout:     timeout,
		NoFreeze:    o.noFreeze,
		Log:         log,
	}
}

// startLog buffers the functions' log until they have started. Then it shows only
// warnings and errors, unless all of the log is shown from the start.
type startLog struct {
	out     io.Writer
	verbose bool // writes all of the log at once

	lock    sync.Mutex
	started bool
	buffer  bytes.Buffer // the log until the start
}

func (l *startLog) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case l.verbose:
		return l.out.Write(p)
	case !l.started:
		return l.buffer.Write(p)
	case bytes.Contains(p, []byte(`"level":"WARN"`)) || bytes.Contains(p, []byte(`"level":"ERROR"`)):
		return l.out.Write(p)
	}
	return len(p), nil
}

// markStarted drops the buffered log. From then on only warnings and errors are written.
func (l *startLog) markStarted() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.started = true
	l.buffer.Reset()
}

// explain adds the buffered log of the functions to an error.
func (l *startLog) explain(err error) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.buffer.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(l.buffer.Bytes()))
}

// guardedBackend is an HTTP API's backend for HTTP_API_DENY=context. It runs the
// middleware, which answers 429 to calls over a limit. Other calls get the answer of the
// echo backend. The HTTP API's configuration sets the CORS headers.
func guardedBackend() gateway.Invoker {
	limits := middleware.Middleware{Source: authorizerContext, AllowOrigins: []string{}}
	return algnhsa.New(limits.Wrap(http.HandlerFunc(echoed)),
		&algnhsa.Options{RequestType: algnhsa.RequestTypeAPIGatewayV2})
}

// authorizerContext is a middleware.Source for algnhsa.
func authorizerContext(r *http.Request) map[string]any {
	event, ok := algnhsa.APIGatewayV2RequestFromContext(r.Context())
	if !ok || event.RequestContext.Authorizer == nil {
		return nil
	}
	return event.RequestContext.Authorizer.Lambda
}

func echoed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	// The writer is a buffer of the adapter, so Encode cannot fail.
	_ = out.Encode(echo.Answer{Method: r.Method, Path: r.URL.Path, Authorizer: authorizerContext(r)})
}
