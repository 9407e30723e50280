//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidegate/internal/testing/waiting"
)

// minutes is an admin function that notes its events. The second fails.
type minutes []string

func (m *minutes) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	*m = append(*m, string(payload))
	if len(*m) == 2 {
		return nil, errors.New("the store is away")
	}
	return nil, nil
}

// The admin function gets its event each minute, also after it failed, until the end.
func TestEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got minutes
		var log waiting.Buffer
		stop := everyMinute(t.Context(), &got, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(3*time.Minute + time.Second) //nolint:forbidigo // of the bubble's clock
		stop()
		time.Sleep(time.Hour) //nolint:forbidigo // as above
		if len(got) != 3 || got[0] != `{"tidegate":"minute"}` {
			t.Errorf("got %q, want 3 events", got)
		}
		if !strings.Contains(log.String(), "the store is away") {
			t.Errorf("logged %q", log.String())
		}
	})
}
