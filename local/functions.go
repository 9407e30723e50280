//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/local/echo"
	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

// Timeouts of the functions as in a deployment. An HTTP API gives an authorizer 10 s at
// most.
const (
	checkTimeout = 9 * time.Second
	adminTimeout = 25 * time.Second
)

// idleTime is far shorter than Lambda's. An environment sends its usage records when it
// ends, so the dashboard shows calls soon.
const idleTime = 5 * time.Second

// valkeyTimeout is longer than a deployment's, since this machine runs other programs
// too.
const valkeyTimeout = 2 * time.Second

// functions are the built Lambda functions. Both APIs share one authorizer, as on AWS.
type functions struct {
	check, admin         *lambda.Function
	backend, httpBackend gateway.Invoker
}

// invokers are the functions that the gateways invoke.
type invokers struct{ check, admin, backend, httpBackend gateway.Invoker }

func (f *functions) invokers() invokers {
	return invokers{check: f.check, admin: f.admin, backend: f.backend, httpBackend: f.httpBackend}
}

// ownVariables are the variables that this program or its flags set.
var ownVariables = []string{
	"VALKEY_URL", "KEY_PEPPER", "HTTP_API_RESPONSE", "HTTP_API_DENY",
	"ADMIN_USER", "ADMIN_PASSWORD", "ADMIN_PASSWORD_HASH", "BASE_PATH", "JOURNAL",
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

func startFunctions(o options, r *registrar, l *login, getenv func(string) string, errOut io.Writer,
) (*functions, error) {
	log := &startLog{errOut: errOut}
	level := "info"
	if o.verbose {
		level = "debug"
		log.show(errOut)
	}
	checkFunction := o.function("check", checkTimeout, log, environment(config.CheckVariables, getenv,
		map[string]string{"LOG_LEVEL": level, "VALKEY_TIMEOUT": valkeyTimeout.String()},
		map[string]string{"VALKEY_URL": r.url, "KEY_PEPPER": r.pepper, "HTTP_API_DENY": o.httpDeny}))
	checkFunction.Idle = idleTime
	check, err := lambda.Start(checkFunction)
	if err != nil {
		return nil, log.explain(err)
	}
	admin, err := lambda.Start(o.function("admin", adminTimeout, log, environment(config.AdminVariables,
		getenv, map[string]string{"LOG_LEVEL": level}, map[string]string{
			"VALKEY_URL": r.url, "KEY_PEPPER": r.pepper, "ADMIN_USER": l.user, "ADMIN_PASSWORD_HASH": l.hash,
			"JOURNAL": r.journal,
		})))
	if err != nil {
		check.Close()
		return nil, log.explain(err)
	}
	log.drop()
	backend := echo.Backend{Origin: o.corsOrigin}
	f := &functions{check: check, admin: admin, backend: backend, httpBackend: backend}
	if o.httpDeny == denyInContext {
		f.httpBackend = guardedBackend()
	}
	return f, nil
}

// function starts a function with one warm environment, so that this program fails at
// once if the function cannot start.
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

func (f *functions) close() {
	f.admin.Close()
	f.check.Close()
}

// startLog buffers the functions' log until they have started. Then it shows only
// warnings and errors, unless all of the log is shown from the start.
type startLog struct {
	lock    sync.Mutex
	errOut  io.Writer
	out     io.Writer
	dropped bool
	kept    bytes.Buffer
}

func (l *startLog) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case l.out != nil:
		return l.out.Write(p)
	case l.dropped && !bytes.Contains(p, []byte(`"level":"WARN"`)) &&
		!bytes.Contains(p, []byte(`"level":"ERROR"`)):
		return len(p), nil
	case l.dropped:
		return l.errOut.Write(p)
	}
	return l.kept.Write(p)
}

func (l *startLog) show(out io.Writer) { l.out = out }

func (l *startLog) drop() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.dropped = true
	l.kept.Reset()
}

// explain adds the functions' log to an error.
func (l *startLog) explain(err error) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.kept.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(l.kept.Bytes()))
}
