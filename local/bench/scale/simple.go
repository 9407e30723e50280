//go:build unix

package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/local/bench/figures"
)

const (
	simpleKey   = "simple"
	simpleBytes = 100
)

// simple measures a GET as checks are measured. ElastiCache Serverless bills a command by
// its processor time relative to such a GET's.
func simple(ctx context.Context, o options) ([]figures.Figure, error) {
	c, err := openCluster(ctx, 1)
	defer c.close()
	if err != nil {
		return nil, err
	}
	readers, err := openReaders(ctx, c.url)
	defer readers.close()
	if err != nil {
		return nil, err
	}
	var processor, inCommand []float64
	for range o.repeats {
		used, err := c.nodes.during(ctx, func() error { return readers.during(ctx, o.slice) })
		if err != nil {
			return nil, err
		}
		gets := float64(used[0].gets)
		processor = append(processor, figures.Micros(used[0].processor)/gets)
		inCommand = append(inCommand, figures.Micros(used[0].getting)/gets)
	}
	self := func(x float64) float64 { return x }
	return []figures.Figure{
		figure("simple.cpu_us", figures.Median(processor, self), "µs"),
		figure("simple.command_us", figures.Median(inCommand, self), "µs"),
	}, nil
}

// readers are clients with a connection each.
type readers []valkey.Client

func openReaders(ctx context.Context, url string) (readers, error) {
	var r readers
	for range environments {
		client, err := open(ctx, url, true)
		if err != nil {
			return r, err
		}
		r = append(r, client)
	}
	value := strings.Repeat("v", simpleBytes)
	if err := r[0].Do(ctx, r[0].B().Set().Key(simpleKey).Value(value).Build()).Error(); err != nil {
		return r, fmt.Errorf("simple command: %w", err)
	}
	return r, nil
}

func (r readers) close() {
	for _, client := range r {
		client.Close()
	}
}

// during reads as fast as the server answers, until lasts has passed.
func (r readers) during(ctx context.Context, lasts time.Duration) error {
	end := time.Now().Add(lasts)
	var failed atomic.Bool
	errs := make([]error, len(r))
	var group sync.WaitGroup
	for i, client := range r {
		group.Go(func() {
			for time.Now().Before(end) && !failed.Load() {
				if errs[i] = client.Do(ctx, client.B().Get().Key(simpleKey).Build()).Error(); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
