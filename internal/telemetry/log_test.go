package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/leaks"
)

type stringer struct{ key string }

func (s stringer) String() string { return "called with " + s.key }

type valuer struct{ key string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("note", "has "+v.key), slog.String("password", "hunter2hunter2"))
}

// No way of logging a credential writes it into a line: as a message, error, attribute,
// element, or result of String or LogValue.
func TestCredentialsAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelDebug))
	cause := fmt.Errorf("verify: %w", errors.New("bad token "+token))
	log.Info("key " + key)
	log.Info("x", "cause", cause, "header", "bearer "+token, "other",
		"Authorization: Bearer opaque-0123456789abcdef")
	log.Info("x", "any", plainStruct{key}, "map", map[string]string{"k": key}, "list", []string{token},
		"stringer", stringer{key}, "valuer", valuer{key})
	log.Info("x", "Client-Secret", "hunter2hunter2", "source_ip", "203.0.113.77",
		slog.Group("g", "session_token", 1234567890123, "deep", key))
	log.With("api_key", "hunter2hunter2").WithGroup("g").Info("x", "url",
		"https://x.example/?key="+key+"&next=1", "bytes", []byte("hunter2"))
	if leaks := leaks.Leaks(out.Bytes(), key, token, "hunter2hunter2", "203.0.113.77", "1234567890123",
		"opaque-0123456789abcdef"); len(leaks) > 0 {
		t.Errorf("credentials %v are in the log:\n%s", leaks, out.String())
	}
	if n := len(readLog(t, out.Bytes())); n != 5 {
		t.Errorf("got %d lines, want 5", n)
	}
}

// Text that only resembles a credential is not redacted.
func TestTextWithoutCredentialsStays(t *testing.T) {
	for _, text := range []string{
		"", "tg_", "tg_live_", "tg_live_aBY2A8bWP166", "the bearer of this", "Bearer x", "eyJ",
		"eyJust a word", "tg_ tg_live eyJ bearer ",
		"connect to Valkey at 10.0.0.1:6379: i/o timeout", "1-5759e988-bd862e3fe1be46a994272793",
	} {
		if got := Redact(text); got != text {
			t.Errorf("Redact(%q) = %q, want it unchanged", text, got)
		}
	}
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelInfo))
	log.InfoContext(traced(t, header), "ok", "n", 1, "d", time.Second, "list", []int{1}, "key_id",
		"aBY2A8bWP166", "nil", nil)
	l := readLog(t, out.Bytes())[0]
	if l["n"] != 1. || fmt.Sprint(l["list"]) != "[1]" || l["key_id"] != "aBY2A8bWP166" ||
		l["trace_id"] != root || l["level"] != "INFO" ||
		l["nil"] != nil {
		t.Errorf("got line %v, want all attributes and the trace_id %s", l, root)
	}
}

func TestRedactKeepsOtherText(t *testing.T) {
	for text, want := range map[string]string{
		"a " + key + " b":                       "a [redacted] b",
		"of tga_" + key[8:] + ",":               "of [redacted],",
		"of tgr_AQ" + key[8:28] + "-_Z.":        "of [redacted].",
		"bEARER 0123456789":                     "bEARER [redacted]",
		"Bearer " + token + ", Bearer " + token: "Bearer [redacted], Bearer [redacted]",
		"é" + token:                             "é[redacted]",
	} {
		if got := Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("", "")
	f.Add("Bearer ", ".")
	f.Add("tg_live_", "tg_")
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := Redact(before + " " + key + " " + after); strings.Contains(got, key) {
			t.Errorf("got %q, want no key in it", got)
		}
		if once := Redact(before); Redact(once) != once {
			t.Errorf("redacting %q again gives %q, want it unchanged", once, Redact(once))
		}
	})
}
