//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows the state of the load, in a line every lineEvery.
type progress struct{ out io.Writer }

const lineEvery = 5 * time.Second

// log writes a line.
func (p progress) log(text string) { _, _ = fmt.Fprintln(p.out, "load: "+text) }

// follow shows the tally until ctx ends.
func (p progress) follow(ctx context.Context, name string, duration time.Duration, c clock, t *tally) {
	for next := t.began + lineEvery; c.wait(ctx, next); next += lineEvery {
		_, _ = fmt.Fprintln(p.out, line(name, next-t.began, duration, t.now()))
	}
}

// line formats the state of the load.
func line(name string, at, duration time.Duration, s snapshot) string {
	parts := []string{fmt.Sprintf("%s %s of %s", name, at.Round(time.Second), duration),
		thousands(s.calls) + " calls"}
	for k, n := range s.counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", kind(k), share(n, s.calls)))
		}
	}
	parts = append(parts, fmt.Sprintf("unexpected %s", thousands(s.unexpected)), "p50 "+ms(s.p50),
		"p99 "+ms(s.p99))
	return strings.Join(parts, " · ")
}

func share(part, whole int) string {
	if whole == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

func ms(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
