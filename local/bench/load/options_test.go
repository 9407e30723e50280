//go:build unix

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/limiter"
)

// Bad flags end with status 2 and a message that names the flag and its bound. No message
// shows a key.
func TestBadFlags(t *testing.T) {
	call := []string{"-target", "http://127.0.0.1:1/", "-key", "tg_secret"}
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"unknown", []string{"-wrong"}, "-wrong"},
		{"an argument", []string{"steady"}, `"steady"`},
		{"scenario", []string{"-scenario", "storm"},
			"-scenario storm: must be one of steady, hot, cold, denied, boundary"},
		{"no rate", append(call, "-rate", "0"),
			"-rate 0: must be above 0 and at most 1000000 a second"},
		{"rate too high", append(call, "-rate", "1000001"), "-rate 1.000001e+06: must be"},
		{"rate is no number", append(call, "-rate", "NaN"), "-rate NaN: must be"},
		{"percent", append(call, "-rate", "80%"), `invalid value "80%" for flag -rate`},
		{"duration", append(call, "-duration", "999ms"), "-duration 999ms: must be 1s to 24h"},
		{"in flight", append(call, "-in-flight", "0"), "-in-flight 0: must be 1 to 10000"},
		{"time-out", append(call, "-timeout", "2m"), "-timeout 2m0s: must be 10ms to 1m"},
		{"environments", append(call, "-environments", "1001"), "-environments 1001: must be 1 to 1000"},
		{"api", append(call, "-api", "websocket"), "-api websocket: must be rest or http"},
		{"limit", append(call, "-limit", "100"), "-limit 100: "},
		{"limit of nothing", append(call, "-limit", "0/10s"), "-limit 0/10s: "},
		{"target without key", []string{"-target", "http://127.0.0.1:1/"}, "-target: needs -key"},
		{"target is no URL", []string{"-target", "127.0.0.1:1", "-key", "tg_secret"},
			"-target: must be a URL"},
		{"key without target", []string{"-key", "tg_secret"}, "-key: needs -target"},
		{"no functions", []string{"-bin", t.TempDir()}, "./scripts/load builds it"},
		{"figures in no folder", append(call, "-json", "/no/such/folder/x.json"),
			"-json /no/such/folder/x.json: its folder does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), c.flags, &out, &errOut); code != 2 ||
				!strings.Contains(errOut.String(), c.want) {
				t.Errorf("got exit status %d, %q; want 2 and %q", code, errOut.String(), c.want)
			}
			if strings.Contains(out.String()+errOut.String(), "tg_secret") {
				t.Errorf("got the API key in the output: %s", errOut.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "scripts", "load"))
	if err != nil {
		t.Fatal(err)
	}
	new(options).flags(new(raw)).VisitAll(func(f *flag.Flag) {
		if !strings.Contains(string(script), "#   -"+f.Name+" ") {
			t.Errorf("want flag -%s in scripts/load", f.Name)
		}
	})
	for _, s := range scenarios {
		if !strings.Contains(string(script), s.name+" (") {
			t.Errorf("want scenario %s in scripts/load", s.name)
		}
	}
}

func TestParseLimits(t *testing.T) {
	got, err := parseLimits("100/10s, 1000/10m")
	want := []limiter.Limit{{Requests: 100, Window: 10 * time.Second},
		{Requests: 1000, Window: 10 * time.Minute}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
