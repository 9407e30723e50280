//go:build unix

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// fleet is the check function with its environments, run as in Lambda.
type fleet struct {
	fn  *lambda.Function
	log *waiting.Buffer
}

type fleetOptions struct {
	environments int
	timeout      time.Duration // VALKEY_TIMEOUT
	freeze       bool
	env          map[string]string
}

// deployed is the VALKEY_TIMEOUT of a deployment. calm is a longer one, for tests in
// which no call may fail even on a busy machine.
const (
	deployed = 100 * time.Millisecond
	calm     = 2 * time.Second
)

func startFleet(t *testing.T, url string, o fleetOptions) *fleet {
	t.Helper()
	f := &fleet{log: &waiting.Buffer{}}
	env := map[string]string{"VALKEY_URL": url, "KEY_PEPPER": pepper, "LOG_LEVEL": "warn",
		"VALKEY_TIMEOUT": o.timeout.String()}
	for name, value := range o.env {
		env[name] = value
	}
	var err error
	f.fn, err = lambda.Start(lambda.Config{
		Name: "check", Binary: binary, Env: env, Concurrency: o.environments, Warm: o.environments,
		NoFreeze: !o.freeze,
		Timeout:  9 * time.Second, Log: f.log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, f.log)
	}
	t.Cleanup(func() {
		f.fn.Close()
		if t.Failed() {
			t.Logf("the function wrote:\n%.4000s", f.log)
		}
	})
	return f
}

// caller is a key of the load.
type caller struct {
	key    policy.Key
	secret apikey.Secret
	plan   string
}

// outcome is the result of one call as the client saw it.
type outcome struct {
	caller     int           // index
	start, end time.Duration // since the start of the load
	status     int           // 200, 401, 429, or 500 for every other answer
	degraded   bool
	remaining  int64
	detail     string // of a 500
}

func (o outcome) latency() time.Duration { return o.end - o.start }

// counted reports whether Valkey admitted the call.
func (o outcome) counted() bool { return o.status == 200 && !o.degraded }

const methodARN = "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET/orders"

// call makes one call to a REST API with a credential.
func (f *fleet) call(ctx context.Context, credential string) outcome {
	event, _ := json.Marshal(map[string]any{ // maps of strings always encode
		"type": "REQUEST", "methodArn": methodARN, "headers": map[string]string{"x-api-key": credential},
		"multiValueHeaders": map[string][]string{"x-api-key": {credential}},
		"requestContext": map[string]any{"stage": "prod", "requestId": "r",
			"identity": map[string]any{"sourceIp": "192.0.2.1"}},
	})
	payload, err := f.fn.Invoke(ctx, event)
	var reported *lambda.FunctionError
	switch {
	case errors.As(err, &reported) && reported.Message == "Unauthorized":
		return outcome{status: 401}
	case err != nil:
		return outcome{status: 500, detail: err.Error()}
	}
	return read(payload)
}

func read(payload []byte) outcome {
	var answer struct {
		PolicyDocument struct{ Statement []struct{ Effect string } }
		Context        struct {
			Degraded  bool
			Remaining int64
		}
	}
	if err := json.Unmarshal(payload, &answer); err != nil || len(answer.PolicyDocument.Statement) != 1 {
		return outcome{status: 500, detail: fmt.Sprintf("%s, %v", payload, err)}
	}
	o := outcome{status: 429, degraded: answer.Context.Degraded, remaining: answer.Context.Remaining}
	if answer.PolicyDocument.Statement[0].Effect == "Allow" {
		o.status = 200
	}
	return o
}

// load makes calls at an even rate, if the fleet keeps up. The callers take turns.
type load struct {
	fleet   *fleet
	callers []caller
	rate    int // calls a second
	workers int

	began time.Time
	next  atomic.Int64
	mu    sync.Mutex
	done  []outcome
	stop  context.CancelFunc
	group sync.WaitGroup
}

// begin starts the load.
func (l *load) begin(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l.began, l.stop = time.Now(), cancel
	t.Cleanup(func() { l.end() })
	for range l.workers {
		l.group.Go(func() { l.work(ctx) })
	}
}

func (l *load) work(ctx context.Context) {
	var own []outcome
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n := l.next.Add(1) - 1
		timer.Reset(time.Until(l.began.Add(time.Duration(n) * time.Second / time.Duration(l.rate))))
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.done = append(l.done, own...)
			l.mu.Unlock()
			return
		case <-timer.C:
		}
		i := int(n) % len(l.callers)
		start := l.now()
		o := l.fleet.call(context.WithoutCancel(ctx), l.callers[i].secret.Reveal())
		o.caller, o.start, o.end = i, start, l.now()
		own = append(own, o)
	}
}

func (l *load) now() time.Duration { return time.Since(l.began) }

// end ends the load and returns every outcome in the order of start.
func (l *load) end() []outcome {
	l.stop()
	l.group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.done, func(a, b outcome) int { return int(a.start - b.start) })
	return l.done
}

// during waits for d while the load runs.
func during(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// tally summarises the outcomes of a load.
type tally struct {
	calls, failed, degraded, unauthorized int
	first                                 string // detail of a failure
	p50, p99, worst                       time.Duration
}

func tallyOf(outcomes []outcome) tally {
	var t tally
	latencies := make([]time.Duration, 0, len(outcomes))
	for _, o := range outcomes {
		t.calls++
		latencies = append(latencies, o.latency())
		switch o.status {
		case 500:
			t.failed++
			t.first = o.detail
		case 401:
			t.unauthorized++
		}
		if o.degraded {
			t.degraded++
		}
	}
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		t.p50, t.p99, t.worst = latencies[n/2], latencies[n*99/100], latencies[n-1]
	}
	return t
}

func (t tally) String() string {
	return fmt.Sprintf("%d of %s calls 5xx, %d degraded, p99 %s", t.failed, thousands(t.calls),
		t.degraded, ms(t.p99))
}

// requireAnswered fails the test if a client got a 500 or a 401.
func (t tally) requireAnswered(test *testing.T) {
	test.Helper()
	if t.failed > 0 || t.unauthorized > 0 {
		test.Errorf("got %d failed and %d unauthorized of %d calls, want none: %s", t.failed, t.unauthorized,
			t.calls, t.first)
	}
}

// requireUndegraded fails the test if a call failed or was decided without Valkey.
func (t tally) requireUndegraded(test *testing.T) {
	test.Helper()
	t.requireAnswered(test)
	if t.degraded > 0 {
		test.Errorf("got %d of %d calls decided without Valkey, want none", t.degraded, t.calls)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3g ms", float64(d)/1e6) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// failures counts the log lines on checks without Valkey that contain a text.
func (f *fleet) failures(text string) int {
	n := 0
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "decided without Valkey") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}
