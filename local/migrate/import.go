package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/functions/admin/policydoc"
)

const (
	batchSize = 100 // keys of a request
	workers   = 4
	reason    = "migrated"
	// namedFailures is how many failed keys the output names.
	namedFailures = 20
)

// batchKey is a key in the form of POST /import.
type batchKey struct {
	Name   string   `json:"name"`
	Plan   string   `json:"plan"`
	Tags   []string `json:"tags,omitempty"`
	Value  string   `json:"value,omitempty"`
	Status string   `json:"status"`
}

// batchResult is the result for one key.
type batchResult struct {
	State   string `json:"state"`
	ID      string `json:"id"`
	Secret  secret `json:"secret"`
	Message string `json:"message"`
}

// importer imports keys and counts the results.
type importer struct {
	client   *client
	reissued *os.File // takes new secrets; nil when values that cannot be kept are left out
	errOut   io.Writer

	created, existed, failed atomic.Int64

	mu       sync.Mutex
	failures []string // the first namedFailures
}

// importKeys imports the keys, with several requests at once. A repeated import changes
// nothing.
func (im *importer) importKeys(ctx context.Context, keys []importedKey) error {
	var kept, fresh []importedKey
	for _, k := range keys {
		if k.value != "" {
			kept = append(kept, k)
		} else {
			fresh = append(fresh, k)
		}
	}
	done, err := readReissued(im.reissued)
	if err != nil {
		return err
	}
	stop := im.progress(len(keys))
	defer stop()
	batches, errs := make(chan []importedKey), make(chan error, workers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range workers {
		go func() { errs <- im.work(ctx, cancel, batches) }()
	}
	for batch := range slices.Chunk(kept, batchSize) {
		if ctx.Err() != nil {
			break
		}
		select {
		case batches <- batch:
		case <-ctx.Done():
		}
	}
	close(batches)
	for range workers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	return im.reissue(ctx, fresh, done)
}

func (im *importer) work(ctx context.Context, cancel func(), batches <-chan []importedKey) error {
	for batch := range batches {
		if err := im.batch(ctx, batch, nil); err != nil {
			cancel() // the others stop too
			return err
		}
	}
	return nil
}

// reissue creates keys with new secrets, one at a time, and writes each secret to the
// file at once.
func (im *importer) reissue(ctx context.Context, keys []importedKey, done map[string]bool) error {
	for _, k := range keys {
		switch {
		case done[k.was]:
			im.existed.Add(1)
		case im.reissued == nil:
			im.fail(k, "its value cannot be kept: give -reissued FILE for a new one")
		default:
			if err := im.batch(ctx, []importedKey{k}, im.write); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch sends keys until the API has answered for all of them. The API takes as many at a
// time as it can within its deadline.
func (im *importer) batch(
	ctx context.Context, keys []importedKey, made func(importedKey, batchResult) error,
) error {
	for len(keys) > 0 {
		body := struct {
			Keys   []batchKey `json:"keys"`
			Reason string     `json:"reason"`
		}{Reason: reason}
		for _, k := range keys {
			status := map[bool]string{false: "active", true: "revoked"}[k.revoked]
			body.Keys = append(body.Keys, batchKey{k.name, k.plan, k.tags, string(k.value), status})
		}
		var answer struct{ Results []batchResult }
		if _, err := im.client.call(ctx, http.MethodPost, "/import", nil, body, &answer); err != nil {
			return fmt.Errorf("import keys: %w", err)
		}
		if len(answer.Results) == 0 || len(answer.Results) > len(keys) {
			return errors.New("import keys: the API answers for none of the keys")
		}
		for i, r := range answer.Results {
			if err := im.count(keys[i], r, made); err != nil {
				return err
			}
		}
		keys = keys[len(answer.Results):]
	}
	return nil
}

func (im *importer) count(k importedKey, r batchResult, made func(importedKey, batchResult) error) error {
	switch r.State {
	case "created":
		im.created.Add(1)
		if made != nil {
			return made(k, r)
		}
	case "exists":
		im.existed.Add(1)
	default:
		im.fail(k, r.Message)
	}
	return nil
}

func (im *importer) fail(k importedKey, why string) {
	im.failed.Add(1)
	im.mu.Lock()
	defer im.mu.Unlock()
	if len(im.failures) < namedFailures {
		im.failures = append(im.failures, "key "+k.was+": "+why)
	}
}

// write adds a key and its new secret to the file.
func (im *importer) write(k importedKey, r batchResult) error {
	w := csv.NewWriter(im.reissued)
	err := w.Write([]string{k.was, k.name, r.ID, string(r.Secret)})
	w.Flush()
	return errors.Join(err, w.Error(), im.reissued.Sync())
}

// readReissued lists the keys that got new secrets in an earlier run.
func readReissued(file *os.File) (map[string]bool, error) {
	done := map[string]bool{}
	if file == nil {
		return done, nil
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, errors.New("-reissued: this file is not of this program: it must have 4 columns")
	}
	for _, r := range rows {
		done[r[0]] = true
	}
	return done, nil
}

// progress reports the number of imported keys each second, until stop.
func (im *importer) progress(total int) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	report := func() {
		n := im.created.Load() + im.existed.Load() + im.failed.Load()
		_, _ = fmt.Fprintf(im.errOut, "%s of %s keys, %s\n", policydoc.Number(n),
			policydoc.Number(int64(total)), time.Since(began).Round(time.Second))
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				report()
			}
		}
	}()
	return func() { close(done); <-ended; report() }
}
