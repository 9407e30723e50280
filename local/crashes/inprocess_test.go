//go:build linux

package crashes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/enforce"
	"tidegate/internal/journal"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
)

// inProcess runs the admin function's server in the test's process. Each start makes a
// new instance. Killing an instance cuts its connections: it no longer reaches Valkey or
// the journal, and its answers are dropped. An instance starts within milliseconds, so
// that a test can kill many.
type inProcess struct {
	*gates
	target func() string
	store  journal.Store

	running sync.WaitGroup // requests, including those of ended instances
	mu      sync.Mutex
	current *instance // nil before the first
}

type instance struct {
	handler http.Handler
	client  valkey.Client
	gate    *valkeyGate
	ended   chan struct{}
	end     func() // once
}

// startInProcess returns an environment on a Valkey and a journal's store.
func startInProcess(t *testing.T, target func() string, journalStore journal.Store) *environment {
	t.Helper()
	p := &inProcess{gates: &gates{}, target: target, store: journalStore}
	t.Cleanup(func() {
		p.kill()
		p.running.Wait()
	})
	return &environment{p.gates, p}
}

// kill implements function.
func (p *inProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		p.current.end()
	}
}

// roundTrip implements function.
func (p *inProcess) roundTrip(r *http.Request) answer {
	l, err := p.instance()
	if err != nil {
		return answer{}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	written := httptest.NewRecorder()
	answered := make(chan struct{})
	p.running.Go(func() {
		defer close(answered)
		l.handler.ServeHTTP(written, r.WithContext(ctx))
	})
	select {
	case <-l.ended:
		return answer{}
	case <-answered:
	}
	if l.over() {
		return answer{}
	}
	return answer{written.Code, written.Body.Bytes()}
}

func (l *instance) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// instance returns the current instance, or starts one if there is none.
func (p *inProcess) instance() (*instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !p.current.over() {
		return p.current, nil
	}
	l := &instance{ended: make(chan struct{})}
	gate, err := p.startValkey(p.target, func() { l.end() })
	if err != nil {
		return nil, err
	}
	l.gate = gate
	l.end = sync.OnceFunc(func() {
		close(l.ended)
		gate.close()
		p.running.Go(func() {
			gate.running.Wait()
			if l.client != nil {
				l.client.Close()
			}
		})
	})
	if err := p.start(l); err != nil {
		l.end()
		return nil, err
	}
	p.current = l
	return l, nil
}

// start does what the built function does at its start: it compares Valkey with the
// journal, and restores what Valkey lost.
func (p *inProcess) start(l *instance) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waiting.Timeout)
	defer cancel()
	l.client, err = store.Open(ctx, l.gate.url(),
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout, Pooled: true})
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	j := journal.New(gatedStore{p.store, p.gates, l}, l.client, audit.NewKey(pepper), false, log)
	keys, tokens := registry.NewStore(l.client, pepper), token.NewStore(l.client, pepper)
	keys.Audit().UseJournal(j)
	tokens.Audit().UseJournal(j)
	if err := j.Check(ctx); err != nil {
		return err
	}
	if j.Status(ctx).Behind > 0 {
		if _, err := j.RestoreAll(ctx, keys, journal.Options{}, nil, nil); err != nil {
			return err
		}
	}
	logins, err := throttle.New(l.client)
	if err != nil {
		return err
	}
	owners, err := throttle.NewOwners(l.client)
	if err != nil {
		return err
	}
	l.handler, err = server.New(server.Config{Users: sitetest.Users(), SessionLifetime: time.Hour},
		server.Services{
			Keys:    app.NewRegistry(keys, usage.NewReader(l.client)),
			Checker: enforce.NewChecker(l.client, pepper),
			Usage:   usage.NewReader(l.client), Sessions: session.NewStore(l.client, time.Hour),
			Tokens: tokens, Logins: logins, Owners: owners, Journal: j, Bundle: sitetest.Bundle(),
			Pepper: pepper, Ready: func(context.Context) error { return nil }, Log: log,
			StoreVersion: func(context.Context) (string, error) { return "", nil },
		})
	return err
}

var (
	errEnded       = errors.New("the environment has ended")
	errSlowDown    = errors.New("SlowDown: slow down")
	errUnavailable = errors.New("the store does not answer")
)

// gatedStore is the journal's store as an instance uses it, with the faults of the gates.
type gatedStore struct {
	journal.Store
	*gates
	instance *instance
}

// step makes a request to the store, unless the instance has ended or ends before the
// request.
func (s gatedStore) step(ctx context.Context, request func() error) error {
	before, after := s.pass()
	if before {
		s.trigger(s.instance.end)
	}
	if s.instance.over() {
		return errEnded
	}
	now := s.next()
	switch {
	case now.unavailable:
		return errUnavailable
	case now.refused > 0:
		return errSlowDown
	}
	now.wait(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	err := request()
	if after {
		s.trigger(s.instance.end)
	}
	switch {
	case s.instance.over():
		return errEnded
	case now.lost > 0:
		return errUnavailable
	}
	return err
}

func (s gatedStore) Create(ctx context.Context, name string, content []byte) error {
	return s.step(ctx, func() error { return s.Store.Create(ctx, name, content) })
}

func (s gatedStore) Replace(ctx context.Context, name string, content []byte) error {
	return s.step(ctx, func() error { return s.Store.Replace(ctx, name, content) })
}

func (s gatedStore) Read(ctx context.Context, name string) (content []byte, err error) {
	err = s.step(ctx, func() error {
		content, err = s.Store.Read(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return content, nil
}
