package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// fault breaks one part of a deployment.
type fault struct {
	name   string
	row    string // the row that differs, and no other
	advice string // what it says to do, in part
	inject func(*fake)
}

// answers tampers with the answers to calls of an address, with or without the key, that
// have a status.
func answers(prefix string, status int, change func(*fakeAnswer)) func(*fake) {
	return func(f *fake) {
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if a.status == status && strings.HasPrefix(r.URL.String(), prefix) {
				change(a)
			}
		}
	}
}

func dropped(name string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.header.Del(name) }
}

func set(name, value string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.header.Set(name, value) }
}

func replaced(old, by string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.body = strings.ReplaceAll(a.body, old, by) }
}

func becomes(status int) func(*fakeAnswer) {
	return func(a *fakeAnswer) {
		a.status, a.body, a.header = status, `{"message":"Forbidden"}`, http.Header{}
	}
}

// only limits a change to calls that match.
func only(match func(*http.Request) bool, change func(*fakeAnswer)) func(*fake) {
	return func(f *fake) {
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if match(r) {
				change(a)
			}
		}
	}
}

func wrongKey(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		key := r.Header.Get("X-Api-Key")
		return strings.HasPrefix(r.URL.String(), prefix) && key != "" && key != fakeKey
	}
}

// noKey matches calls without a credential, except those of the flood.
func noKey(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasPrefix(r.URL.String(), prefix) &&
			r.Header.Get("X-Api-Key") == "" &&
			r.Header.Get("A") == "" && r.Header.Get("Origin") != ""
	}
}

func path(text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.String(), text) }
}

func prints(command, output string) func(*fake) {
	return func(f *fake) { f.commands[command] = output }
}

// caches gives an API's calls with the key the answer to the first of them, as an
// authorizer's cache does.
func caches(prefix string) func(*fake) {
	return func(f *fake) {
		var first *fakeAnswer
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if !strings.HasPrefix(r.URL.String(), prefix+"/verify") || r.Header.Get("X-Api-Key") != fakeKey ||
				strings.Contains(r.URL.Path, "/verify/") {
				return
			}
			if first == nil {
				first = &fakeAnswer{status: a.status, header: a.header.Clone(), body: a.body}
			}
			a.status, a.header, a.body = first.status, first.header.Clone(), first.body
		}
	}
}

// again breaks only the call after Retry-After: the only denial after a pause of whole
// seconds.
func again(f *fake) {
	var denied time.Time
	f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
		if !strings.HasPrefix(r.URL.String(), fakeREST+"/verify") {
			return
		}
		if a.status == tooMany {
			denied = f.clock
		} else if !denied.IsZero() && f.clock.Sub(denied) == 10*time.Second {
			becomes(tooMany)(a)
		}
	}
}

// slow delays the first call with the key.
func slow(f *fake) {
	delayed := false
	f.tamper = func(f *fake, r *http.Request, _ *fakeAnswer) {
		if r.Header.Get("X-Api-Key") == fakeKey && !delayed {
			delayed = true
			f.clock = f.clock.Add(11 * time.Second)
		}
	}
}

func staleEdit(when bool) func(*fake) {
	return func(f *fake) {
		edited := false
		f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
			edited = edited || f.overridden
			if !strings.HasPrefix(r.URL.String(), fakeREST+"/verify") || !edited || f.overridden != when {
				return
			}
			if when {
				replaced("11 per 10 seconds", "10 per 10 seconds")(a)
				replaced("q=11", "q=10")(a)
			} else {
				replaced("q=10", "q=11")(a)
			}
		}
	}
}

// Each fault makes its row differ, with the advice for it, and no other row.
func TestFaults(t *testing.T) {
	for _, c := range faults {
		t.Run(c.row+"/"+c.name, func(t *testing.T) {
			f := newFake()
			c.inject(f)
			out, _, r, code := f.verify(t, fakeOptions())
			if code != somethingDiffers || !slices.Equal(r.with(differs), []string{c.row}) {
				t.Fatalf("exit status %d; %q differ\n%s", code, r.with(differs), out)
			}
			i := slices.IndexFunc(r.Rows, func(row result) bool { return row.ID == c.row })
			if row := r.Rows[i]; !strings.Contains(row.Do, c.advice) || !strings.Contains(out, row.Do) ||
				row.Seen == "" {
				t.Errorf("%+v, want advice with %q", row, c.advice)
			}
		})
	}
}

// A REST or HTTP API that allows no call makes its first row differ, and the rows about
// allowed calls are skipped.
func TestNothingIsAllowed(t *testing.T) {
	for base, row := range map[string]string{fakeREST: "rest-allowed", fakeHTTP: "http-allowed"} {
		f := newFake()
		answers(base, 200, becomes(500))(f)
		_, _, r, _ := f.verify(t, fakeOptions())
		if got := r.with(differs); !slices.Contains(got, row) ||
			slices.Contains(got, strings.Replace(row, "allowed", "context", 1)) {
			t.Errorf("%s: %q differ", base, got)
		}
	}
}

// An API that cannot be reached makes rows differ, and says why.
func TestNoAnswer(t *testing.T) {
	f := newFake()
	f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
		if strings.HasPrefix(r.URL.String(), fakeHTTP) {
			a.err = errors.New("no such host")
		}
	}
	out, _, r, code := f.verify(t, fakeOptions())
	if code != somethingDiffers || !slices.Contains(r.with(differs), "http-allowed") ||
		!strings.Contains(out, "no such host") {
		t.Errorf("exit status %d\n%s", code, out)
	}
}

// Every row that a program checks has a fault of its own.
func TestEveryRowHasAFault(t *testing.T) {
	broken := map[string]bool{"rest-allowed": true, "http-allowed": true} // by TestNothingIsAllowed
	for _, c := range faults {
		broken[c.row] = true
	}
	known := map[string]bool{}
	for _, r := range rows {
		if known[r.id] {
			t.Errorf("two rows are %s", r.id)
		}
		known[r.id] = true
		if r.probe != nil && !broken[r.id] {
			t.Errorf("no fault breaks %s", r.id)
		}
		if (r.probe == nil) != (r.check == nil) || (r.probe == nil) != strings.HasPrefix(r.id, "hand-") {
			t.Errorf("%s lacks a probe or a check, or is by hand and has one", r.id)
		}
		if r.probe != nil && !slices.Contains(probes, r.probe) {
			t.Errorf("the probe of %s is never made", r.id)
		}
	}
	for id := range checks {
		if !known[id] {
			t.Errorf("docs/verify.md lacks %s", id)
		}
	}
	for _, p := range probes {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.probe == p }) {
			t.Errorf("nothing reads %s", fmt.Sprint(p.what))
		}
	}
}
