//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/local/bench/harness"
	"tidegate/local/process"
)

const (
	startWait = 30 * time.Second
	stopWait  = 10 * time.Second
	pollEvery = 20 * time.Millisecond
	storeWait = 5 * time.Second
	keyEnv    = "load"
)

// localGateway is a gateway as ./scripts/run starts it, with its Valkey server. The
// scenario's plans and keys are created there.
type localGateway struct {
	*harness.Server
	gateway *process.Process
	api     struct{ REST, HTTP string }
}

func startLocalGateway(ctx context.Context, o options, errOut io.Writer) (*localGateway, error) {
	server, err := harness.Start(ctx, "load", store.Options{Dial: storeWait, Write: storeWait})
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	l := &localGateway{Server: server}
	if err := l.start(ctx, o, errOut); err != nil {
		l.Close()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	return l, nil
}

func (l *localGateway) start(ctx context.Context, o options, errOut io.Writer) error {
	dir, err := os.MkdirTemp("", "tidegate-load-")
	if err != nil {
		return err
	}
	l.OnClose(func() { _ = os.RemoveAll(dir) })
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.Command(filepath.Join(o.bin, "local"), "-bin", o.bin, "-valkey", l.URL,
		"-ready-file", ready,
		"-rest", "127.0.0.1:0", "-http", "127.0.0.1:0", "-admin", "127.0.0.1:0",
		"-environments", strconv.Itoa(o.environments), "-no-freeze="+strconv.FormatBool(o.noFreeze))
	cmd.Env = append(os.Environ(), "KEY_PEPPER="+harness.Pepper)
	cmd.Stderr = errOut
	if l.gateway, err = process.Start(cmd); err != nil {
		return err
	}
	l.OnClose(func() {
		l.gateway.Terminate(stopWait)
		l.gateway.Kill()
	})
	return l.await(ctx, ready)
}

// await waits until the gateway has written its addresses.
func (l *localGateway) await(ctx context.Context, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(ready)
		if err == nil {
			return json.Unmarshal(text, &l.api)
		}
		select {
		case <-l.gateway.Done():
			return errors.Join(errors.New("the gateway exited"), l.gateway.Err())
		case <-ctx.Done():
			return fmt.Errorf("the gateway is not ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// populate creates the plans and the keys, and returns the callers.
func (l *localGateway) populate(ctx context.Context, p population) ([]caller, error) {
	if err := l.Edit(ctx, func(set *policy.Set) {
		for _, g := range p.groups {
			set.Plans = append(set.Plans, g.plan)
		}
	}); err != nil {
		return nil, err
	}
	var callers []caller
	for _, g := range p.groups {
		made, err := l.Keys(ctx, g.plan.Name, keyEnv, g.keys)
		if err != nil {
			return nil, err
		}
		for i, k := range made {
			callers = append(callers, caller{name: fmt.Sprintf("%s %d", g.plan.Name, i+1),
				credential: k.Secret.Reveal(), plan: g.plan.Name, limits: g.plan.Limits})
		}
	}
	unregistered, err := unregisteredCallers(p.unregistered)
	return append(callers, unregistered...), err
}

// unregisteredCallers returns callers without a record. Every second one has a
// well-formed key, which only Valkey can refuse. The others have a malformed key.
func unregisteredCallers(n int) ([]caller, error) {
	callers := make([]caller, n)
	for i := range callers {
		// This key is malformed, so the check function refuses it without Valkey.
		callers[i] = caller{name: fmt.Sprintf("unregistered %d", i+1), unregistered: true}
		callers[i].credential = "tg_" + keyEnv
		if i%2 == 0 {
			secret, err := apikey.Generate(keyEnv)
			if err != nil {
				return nil, err
			}
			callers[i].credential = secret.Reveal()
		}
	}
	return callers, nil
}
