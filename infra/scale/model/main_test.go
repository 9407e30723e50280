package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestModel(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 0, "| 1,000,000 |"},
		{[]string{"-rates", "250,2500"}, 0, "| 2,500 |"},
		{[]string{"-h"}, 0, "-rates second"},
		{[]string{"-rates", "0"}, 2, "-rates 0: each must be 1 to 1e+07"},
		{[]string{"-rates", "10,x"}, 2, "-rates 10,x: each must be"},
		{[]string{"-keys", "-1"}, 2, "-keys -1: must be 0 to 1e9"},
		{[]string{"-busy", "0"}, 2, "-busy 0: must be 0.05 to 1"},
		{[]string{"-replicas", "6"}, 2, "-replicas 6: must be 0 to 5"},
	} {
		var out, errOut bytes.Buffer
		if status := run(c.args, &out, &errOut); status != c.status ||
			!strings.Contains(out.String()+errOut.String(), c.want) {
			t.Errorf("%v: status %d, want %d and %q:\n%s%s", c.args, status, c.status, c.want, &out, &errOut)
		}
	}
}
