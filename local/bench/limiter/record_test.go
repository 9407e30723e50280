package main

import (
	"errors"
	"strings"
	"testing"
)

func get(key string) string {
	return "*2\r\n$3\r\nGET\r\n$" + decimals(int64(len(key)))[0] + "\r\n" + key + "\r\n"
}

// A template of the commands for one subject gives the commands for another subject.
func TestTemplates(t *testing.T) {
	first, second := subject(librarySubjects, 1), subject(deniedSubjects, 234)
	hash := strings.Repeat("h", subjectLen)
	for name, c := range map[string]struct {
		sent, want string
		keyless    bool
	}{
		"named twice": {get("a:"+first+":1") + get("b:"+first),
			get("a:"+second+":1") + get("b:"+second), false},
		"hashed": {get("p{" + hash + "}"), get("p{" + second + "}"), false},
		"no key": {"*1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nPING\r\n", true},
	} {
		r := &recorder{}
		r.write([]byte("before"))
		got, err := r.record(first, c.keyless, func() error {
			r.write([]byte(c.sent[:5]))
			r.write([]byte(c.sent[5:]))
			return nil
		})
		r.write([]byte("after"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l := &load{}
		l.add(got, first)
		l.add(got, second)
		if sent := string(l.checks(1, 2)); sent != c.want || l.replies != strings.Count(c.sent, "*") {
			t.Errorf("%s: got %q with %d replies, want %q", name, sent, l.replies, c.want)
		}
		if both := l.checks(0, 2); len(both) != len(c.sent)+len(c.want) {
			t.Errorf("%s: got %q for both checks, want %d bytes", name, both, len(c.sent)+len(c.want))
		}
	}
}

func TestRecordFails(t *testing.T) {
	failure := errors.New("failure")
	if _, err := (&recorder{}).record(subject(librarySubjects, 1), false, func() error {
		return failure
	}); !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	for _, sent := range []string{get("other"), get("{short}"),
		get("{" + strings.Repeat("h", subjectLen+1) + "}")} {
		r := &recorder{}
		_, err := r.record(subject(librarySubjects, 1), false, func() error {
			r.write([]byte(sent))
			return nil
		})
		if !errors.Is(err, errNoKey) {
			t.Errorf("%q: got %v, want %v", sent, err, errNoKey)
		}
	}
}

func TestSubjects(t *testing.T) {
	names := map[string]bool{subject(allowedSubjects, 0): true, subject(allowedSubjects, 9_999_999): true,
		subject(deniedSubjects, 0): true}
	if len(names) != 3 {
		t.Errorf("got names %v, want 3 different ones", names)
	}
	for name := range names {
		if len(name) != subjectLen {
			t.Errorf("%q has %d characters, want %d", name, len(name), subjectLen)
		}
	}
}
