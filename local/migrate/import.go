package migrate

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

	"tidegate/internal/limits"
)

const (
	batchSize = 100 // keys in a request
	workers   = 4
	reason    = "migrated"
	// maxFailures is the maximum number of failed keys that the output names.
	maxFailures = 20
)

// batchKey is a key in a request to POST /import.
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
	reissued *os.File // for new secrets; nil to leave out keys whose value cannot be kept
	errOut   io.Writer

	created, existed, failed atomic.Int64

	mu       sync.Mutex
	failures []string // at most maxFailures
}

// importKeys imports the keys with several requests at once. Keys that exist already do
// not change.
func (im *importer) importKeys(ctx context.Context, keys []importedKey) error {
	var withValue, withoutValue []importedKey
	for _, k := range keys {
		if k.value != "" {
			withValue = append(withValue, k)
		} else {
			withoutValue = append(withoutValue, k)
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
	for batch := range slices.Chunk(withValue, batchSize) {
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
	return im.reissue(ctx, withoutValue, done)
}

func (im *importer) work(ctx context.Context, cancel func(), batches <-chan []importedKey) error {
	for batch := range batches {
		if err := im.batch(ctx, batch, nil); err != nil {
			cancel() // stops the other workers
			return err
		}
	}
	return nil
}

// reissue creates keys with new secrets, one at a time, and writes each secret to the
// file immediately. It skips the keys in done, which have new secrets from an earlier
// run.
func (im *importer) reissue(ctx context.Context, keys []importedKey, done map[string]bool) error {
	for _, k := range keys {
		switch {
		case done[k.sourceID]:
			im.existed.Add(1)
		case im.reissued == nil:
			im.fail(k, "its value cannot be kept: set -reissued FILE to create a new one")
		default:
			if err := im.batch(ctx, []importedKey{k}, im.write); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch sends keys until the API has answered for all of them. The API imports as many at
// a time as it can within its deadline. Unless created is nil, batch calls it for each
// new key.
func (im *importer) batch(ctx context.Context, keys []importedKey,
	created func(importedKey, batchResult) error) error {
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
			return errors.New("import keys: the number of results does not fit the number of keys")
		}
		for i, r := range answer.Results {
			if err := im.count(keys[i], r, created); err != nil {
				return err
			}
		}
		keys = keys[len(answer.Results):]
	}
	return nil
}

func (im *importer) count(k importedKey, r batchResult, created func(importedKey, batchResult) error) error {
	switch r.State {
	case "created":
		im.created.Add(1)
		if created != nil {
			return created(k, r)
		}
	case "exists":
		im.existed.Add(1)
	default:
		im.fail(k, r.Message)
	}
	return nil
}

func (im *importer) fail(k importedKey, cause string) {
	im.failed.Add(1)
	im.mu.Lock()
	defer im.mu.Unlock()
	if len(im.failures) < maxFailures {
		im.failures = append(im.failures, "key "+k.sourceID+": "+cause)
	}
}

// write adds a key and its new secret to the file.
func (im *importer) write(k importedKey, r batchResult) error {
	w := csv.NewWriter(im.reissued)
	err := w.Write([]string{k.sourceID, k.name, r.ID, string(r.Secret)})
	w.Flush()
	return errors.Join(err, w.Error(), im.reissued.Sync())
}

// readReissued returns the ids of the keys that got new secrets in an earlier run.
func readReissued(file *os.File) (map[string]bool, error) {
	done := map[string]bool{}
	if file == nil {
		return done, nil
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, errors.New("-reissued: not a file of this program: its rows differ in length")
	}
	for _, r := range rows {
		done[r[0]] = true
	}
	return done, nil
}

// progress writes the number of processed keys each second, until stop is called.
func (im *importer) progress(total int) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	report := func() {
		n := im.created.Load() + im.existed.Load() + im.failed.Load()
		_, _ = fmt.Fprintf(im.errOut, "%s of %s keys, %s\n", limits.Number(n),
			limits.Number(int64(total)), time.Since(began).Round(time.Second))
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
