package main

import (
	"errors"
	"slices"
	"testing"
)

// replySize finds a reply only when it is complete, and leaves returns its values.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		reply string
		want  []string
	}{
		{"+PONG\r\n", []string{"PONG"}},
		{":-12\r\n", []string{"-12"}},
		{"-ERR no\r\n", []string{"ERR no"}},
		{"$-1\r\n", []string{""}},
		{"$0\r\n\r\n", []string{""}},
		{"$4\r\na\r\nb\r\n", []string{"a\r\nb"}},
		{"*0\r\n", nil},
		{"*-1\r\n", nil},
		{"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n:2\r\n", []string{"1", "x", "", "2"}},
	} {
		whole := []byte(c.reply)
		for i := range whole {
			if size, err := replySize(whole[:i]); i > 0 && err != nil || size != 0 {
				t.Errorf("%d bytes of %q: got size %d, %v, want 0", i, c.reply, size, err)
			}
		}
		if size, err := replySize(append(slices.Clone(whole), "+more\r\n"...)); err != nil ||
			size != len(whole) {
			t.Errorf("%q: got size %d, %v, want %d", c.reply, size, err, len(whole))
		}
		if got := leaves(whole); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.reply, got, c.want)
		}
	}
	if _, err := replySize([]byte("?\r\n")); !errors.Is(err, errProtocol) {
		t.Errorf("got %v, want %v", err, errProtocol)
	}
}

func TestCommandNames(t *testing.T) {
	got, err := commandNames([]byte("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGet\r\n$1\r\nk\r\n"))
	if err != nil || !slices.Equal(got, []string{"ping", "get"}) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, rejected := range []string{"*1\r\n$4\r\nPI", "PING\r\n", "*0\r\n"} {
		if got, err := commandNames([]byte(rejected)); !errors.Is(err, errProtocol) {
			t.Errorf("%q: got %q, %v", rejected, got, err)
		}
	}
}
