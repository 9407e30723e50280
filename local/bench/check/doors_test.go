//go:build unix

package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/local/bench"
)

// BenchmarkDoors measures a check by each door in turns, one call in flight: the authorizer
// and direct calls as Lambda delivers them, and HTTP on the machine as its client sees it.
// ratio is the median beside the authorizer's in the same round.
func BenchmarkDoors(b *testing.B) {
	server := start(b)
	pro := []limits.Limit{{Requests: 1_000_000, Window: time.Hour}}
	if err := server.Edit(b.Context(), func(set *policy.Set) {
		set.Plans, set.TokenPlan = []policy.Plan{{Name: "pro", Limits: pro}}, "pro"
	}); err != nil {
		b.Fatal(err)
	}
	calls, err := server.Calls(b.Context(), "pro", callers)
	if err != nil {
		b.Fatal(err)
	}
	binary := build(b, "../../..", "./functions/check")
	f := bench.Function{Name: "check", Binary: binary, Allowed: []byte("llow"),
		Env: map[string]string{"VALKEY_URL": server.URL, "VALKEY_TIMEOUT": bench.Patience.String(),
			"KEY_PEPPER": bench.Pepper, "DIRECT_CALLS": "on"}}
	e, err := bench.Open(f)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	var events, keys, subjects [][]byte
	for i, call := range calls {
		events = append(events, eventOf("x-api-key", call.Secret.Reveal()))
		keys = append(keys, fmt.Appendf(nil, `{"tidegate":"check","apiKey":%q,"method":"GET","path":"/orders"}`,
			call.Secret.Reveal()))
		subjects = append(subjects, fmt.Appendf(nil,
			`{"tidegate":"check","subject":"user-%d","plan":"pro","method":"GET","path":"/orders"}`, i))
	}
	invoke := func(payloads [][]byte) func(b *testing.B, n int) []time.Duration {
		return func(b *testing.B, n int) []time.Duration {
			times, _ := answers(b, e, payloads, n)
			return times
		}
	}
	address := listen(b, f)
	doors := []struct {
		name string
		call func(b *testing.B, n int) []time.Duration
	}{
		{"authorizer", invoke(events)}, {"invoke_key", invoke(keys)}, {"invoke_subject", invoke(subjects)},
		{"machine", func(b *testing.B, n int) []time.Duration { return posts(b, address, subjects, n) }},
	}
	for _, door := range doors {
		door.call(b, callers) // every caller's record is known
	}
	for round := range *rounds {
		var authorizer time.Duration
		for _, door := range doors {
			b.Run(fmt.Sprintf("round=%d/%s", round+1, door.name), func(b *testing.B) {
				median := bench.Median(door.call(b, b.N))
				if door.name == "authorizer" {
					authorizer = median
				}
				b.ReportMetric(float64(median), "p50-ns")
				b.ReportMetric(float64(median)/float64(authorizer), "ratio")
			})
		}
	}
}

// listen starts a function with -listen and returns the address of its checks.
func listen(b *testing.B, f bench.Function) string {
	command := exec.CommandContext(b.Context(), f.Binary, "-listen", "127.0.0.1:0")
	for name, value := range f.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	log, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	d := json.NewDecoder(log)
	for {
		var line struct{ Port int }
		if err := d.Decode(&line); err != nil {
			b.Fatal(err)
		}
		if line.Port != 0 {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return fmt.Sprintf("http://127.0.0.1:%d/check", line.Port)
		}
	}
}

// posts makes n calls over HTTP, on one connection, and returns the time of each.
func posts(b *testing.B, address string, calls [][]byte, n int) (times []time.Duration) {
	for i := range n {
		began := time.Now()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, address,
			bytes.NewReader(calls[i%len(calls)]))
		if err != nil {
			b.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(body), `"allowed":true`) {
			b.Fatalf("%s, %v", body, err)
		}
		times = append(times, time.Since(began))
	}
	return times
}
