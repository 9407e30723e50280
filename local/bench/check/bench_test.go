//go:build unix

// Package check compares the built check function with the authorizers that people write
// otherwise, and measures Valkey's time for a check.
package check

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/route"
	"tidegate/local/bench"
)

// Authorizers take turns in rounds, so that a disturbance of the machine affects all of
// them.
var (
	rounds = flag.Int("rounds", 1, "turns of each authorizer")
	node   = flag.String("node", "", "executable bundle of peers/authorizer.mjs; empty leaves it out")
)

// callers is the number of keys, and of tokens: so many that none comes near its limits.
const callers = 400

// authorizer is a function with a kind of credential.
type authorizer struct {
	name string // as in bench.json
	bench.Function
	events [][]byte // a call of each caller
}

// authorizers starts a Valkey server, and returns the check function and its peers with
// API keys and with tokens.
func authorizers(b *testing.B) []authorizer {
	server := start(b)
	pro := []limits.Limit{{Requests: 100, Window: 10 * time.Second},
		{Requests: 1000, Window: 10 * time.Minute}}
	if err := server.Edit(b.Context(), func(set *policy.Set) {
		set.Plans, set.TokenPlan = []policy.Plan{{Name: "pro", Limits: pro}}, "pro"
	}); err != nil {
		b.Fatal(err)
	}
	binaries := map[string]string{"ours": build(b, "../../..", "./functions/check"),
		"go": build(b, "..", "./peers"), "node": *node}
	tokens, environment := issue(b)
	keys := register(b, server)
	var all []authorizer
	for _, prefix := range []string{"", "jwt_"} {
		for _, name := range []string{"ours", "go", "node"} {
			if binaries[name] == "" {
				continue
			}
			f := bench.Function{Name: name, Binary: binaries[name], Allowed: []byte(`"Allow"`),
				Env: map[string]string{"VALKEY_URL": server.URL, "VALKEY_TIMEOUT": bench.Patience.String(),
					"KEY_PEPPER": bench.Pepper,
					"REDIS_URL":  strings.Replace(server.URL, "valkey://", "redis://", 1)}}
			events := keys
			if prefix != "" {
				events = tokens
				maps.Copy(f.Env, environment)
			}
			all = append(all, authorizer{prefix + name, f, events})
		}
	}
	return all
}

// build builds a program of a module as scripts/build does.
func build(b *testing.B, module, program string) string {
	binary := filepath.Join(b.TempDir(), "bootstrap")
	command := exec.CommandContext(b.Context(), "go", "build", "-C", module, "-tags", "lambda.norpc",
		"-trimpath", "-ldflags=-s -w", "-o", binary, program)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return binary
}

func start(b *testing.B) *bench.Server {
	server, err := bench.Start(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	return server
}

// register creates API keys, and stores them for the peers' look-ups too. It returns a
// call with each.
func register(b *testing.B, server *bench.Server) [][]byte {
	calls, err := server.Calls(b.Context(), "pro", callers)
	if err != nil {
		b.Fatal(err)
	}
	var events [][]byte
	for i, call := range calls {
		hash := hmac.New(sha256.New, []byte(bench.Pepper))
		hash.Write([]byte(call.Secret.Reveal()))
		record := server.Client.B().Hset().Key("peers:key:"+hex.EncodeToString(hash.Sum(nil))).FieldValue().
			FieldValue("id", fmt.Sprint("caller-", i)).FieldValue("plan", "pro").Build()
		if err := server.Client.Do(b.Context(), record).Error(); err != nil {
			b.Fatal(err)
		}
		events = append(events, eventOf("x-api-key", call.Secret.Reveal()))
	}
	return events
}

// issue starts an issuer of tokens. It returns a call with the token of each caller, and
// the environment of authorizers that accept them.
func issue(b *testing.B) (events [][]byte, env map[string]string) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: string(jose.RS256), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	}))
	b.Cleanup(server.Close)
	claims := jwt.Claims{Issuer: "https://issuer.example", Audience: jwt.Audience{"https://api.example"},
		IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(3 * time.Hour))}
	for i := range callers {
		claims.Subject = fmt.Sprint("caller-", i)
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, eventOf("authorization", "Bearer "+token))
	}
	return events, map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": claims.Issuer,
		"JWT_AUDIENCE": claims.Audience[0], "JWT_JWKS_URL": server.URL + "/jwks.json"}
}

// eventOf returns the event of a call with a credential in a header.
func eventOf(header, credential string) []byte {
	event, _ := json.Marshal(map[string]any{ // strings always encode
		"type":      "REQUEST",
		"methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET/orders",
		"path":      "/orders",
		"headers":   map[string]string{header: credential, "accept": "*/*"},
		"requestContext": map[string]any{
			"requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
			"identity":  map[string]any{"sourceIp": "192.0.2.1"},
		},
	})
	return event
}

// BenchmarkAnswer measures the time from the delivery of an event to its answer, one call
// in flight.
func BenchmarkAnswer(b *testing.B) {
	all := authorizers(b)
	open := map[string]*bench.Environment{}
	for round := range *rounds {
		for _, a := range all {
			if open[a.name] == nil {
				e, err := bench.Open(a.Function)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(e.Close)
				open[a.name] = e
				answers(b, e, a.events, 3*callers) // engines with a just-in-time compiler warm up
			}
			b.Run(fmt.Sprintf("round=%d/%s", round+1, a.name), func(b *testing.B) {
				times, pid := answers(b, open[a.name], a.events, b.N)
				b.ReportMetric(float64(bench.Median(times)), "p50-ns")
				b.ReportMetric(float64(bench.Quantile(times, 0.99)), "p99-ns")
				b.ReportMetric(resident(b, pid), "rss-MiB")
				b.ReportMetric(packed(b, a.Binary), "package-MiB")
			})
		}
	}
}

// answers makes n calls. It returns the time of each, and the function's process.
func answers(b *testing.B, e *bench.Environment, events [][]byte, n int) (times []time.Duration, pid int) {
	for i := range n {
		r, err := e.Invoke(b.Context(), events[i%len(events)])
		if err != nil {
			b.Fatal(err)
		}
		times, pid = append(times, r.Answered.Sub(r.Delivered)), r.PID
	}
	return times, pid
}

// BenchmarkColdStart measures the time from the start of a process to its first answer.
func BenchmarkColdStart(b *testing.B) {
	all := authorizers(b)
	for round := range *rounds {
		for _, a := range all {
			b.Run(fmt.Sprintf("round=%d/%s", round+1, a.name), func(b *testing.B) {
				var times []time.Duration
				for i := range b.N {
					took, err := bench.ColdStart(b.Context(), a.Function, a.events[i%len(a.events)])
					if err != nil {
						b.Fatal(err)
					}
					times = append(times, took)
				}
				b.ReportMetric(float64(bench.Median(times)), "p50-ns")
			})
		}
	}
}

const mib = 1 << 20

// packed returns the size in MiB of a zip with one file, without the directory.
func packed(b *testing.B, file string) float64 {
	content, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var zipped bytes.Buffer
	w, _ := flate.NewWriter(&zipped, flate.DefaultCompression) // the level is valid
	_, _ = w.Write(content)                                    // a write to memory does not fail
	_ = w.Close()
	return float64(zipped.Len()) / mib
}

// resident returns the resident memory of a process in MiB.
func resident(b *testing.B, pid int) float64 {
	unit, text := float64(os.Getpagesize())/mib, ""
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		text = strings.Fields(string(statm))[1]
	} else { // not Linux
		printed, _ := exec.CommandContext(b.Context(), "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		unit, text = 1024./mib, strings.TrimSpace(string(printed))
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n * unit
}

// The load of BenchmarkServerTime: calls in flight, each on a connection of its own; and
// the environments that record calls, the calls a second and the callers of each, and the
// number of callers in total.
const (
	inFlight                                               = 50
	environments, callsASecond, callersAMinute, allCallers = 100, 10, 50, 20_000
)

// BenchmarkServerTime measures the processor time of Valkey's main thread for a script
// that does nothing, for a whole check within one limit and within two, and for the
// records of a call.
func BenchmarkServerTime(b *testing.B) {
	server := start(b)
	hour := limits.Limit{Requests: 100_000, Window: time.Hour}
	hours := limits.Limit{Requests: 200_000, Window: 2 * time.Hour}
	works := []struct {
		name string
		do   func(i int) error
	}{
		{"evalsha", evalsha(b.Context(), server.Client)},
		{"server", checks(b, server, "one", hour)},
		{"server_two", checks(b, server, "two", hour, hours)},
		{"recorded", nil},
	}
	record := recording(b.Context(), server.Client)
	for range 30 { // seconds of recorded calls before the measurement
		spend(b, server, environments, record())
	}
	for round := range *rounds {
		for _, w := range works {
			b.Run(fmt.Sprintf("round=%d/%s", round+1, w.name), func(b *testing.B) {
				n, do, calls := b.N, w.do, b.N
				if do == nil {
					n, do, calls = environments, record(), environments*callsASecond
				}
				b.ReportMetric(float64(spend(b, server, n, do))/float64(calls), "server-ns/op")
			})
		}
	}
}

func evalsha(ctx context.Context, client valkey.Client) func(int) error {
	script := valkey.NewLuaScript("return 1")
	return func(i int) error {
		return script.Exec(ctx, client, []string{"{bench}" + strconv.Itoa(i%callers)},
			[]string{"a", "b", "c"}).Error()
	}
}

var errDenied = errors.New("call denied: only allowed calls are measured")

// checks creates a plan and its keys. The function that it returns makes check i.
func checks(b *testing.B, server *bench.Server, plan string, list ...limits.Limit) func(int) error {
	if err := server.Plan(b.Context(), plan, list...); err != nil {
		b.Fatal(err)
	}
	calls, err := server.Calls(b.Context(), plan, callers)
	if err != nil {
		b.Fatal(err)
	}
	checker := enforce.NewChecker(server.Client, apikey.Pepper(bench.Pepper))
	return func(i int) error {
		call := calls[i%callers]
		call.Route = route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}
		result, err := checker.Check(b.Context(), call)
		if err == nil && !result.Allowed {
			err = errDenied
		}
		return err
	}
}

// recording returns a function that records one second of calls in every environment.
// That function in turn returns one that sends the records of environment i.
func recording(ctx context.Context, client valkey.Client) func() func(int) error {
	now, made := time.Now(), 0
	recorders := make([]*records.Recorder, environments)
	for i := range recorders {
		recorders[i] = records.NewRecorder(func() time.Time { return now })
	}
	return func() func(int) error {
		for i, r := range recorders {
			for range callsASecond {
				made++
				subject := fmt.Sprintf("caller%06d", (i*7919+made%callersAMinute*397)%allCallers)
				r.Record(records.Call{Caller: subject, Registered: true, Cost: 1, Time: now})
			}
		}
		now = now.Add(time.Second)
		return func(i int) error {
			batch := recorders[i].Batch(now)
			return batch.Acknowledge(client.DoMulti(ctx, batch.Commands(client)...)).Err
		}
	}
}

// spend calls do n times, inFlight at once. It returns the time of the server's main
// thread.
func spend(b *testing.B, server *bench.Server, n int, do func(i int) error) time.Duration {
	b.Helper()
	done, err := bench.During(b.Context(), server.Nodes, func() error {
		return bench.Concurrently(inFlight, bench.Times(n), func(_, i int) error { return do(i) })
	})
	if err != nil {
		b.Fatal(err)
	}
	return done[0].MainThread
}
