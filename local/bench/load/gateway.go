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
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/local/bench"
	"tidegate/local/process"
)

const (
	startWait = 10 * time.Minute // in which scripts/run may build
	stopWait  = 10 * time.Second
)

// localGateway is a gateway of scripts/run, with a Valkey server of its own, in which the
// scenario's plans and keys are created.
type localGateway struct {
	*bench.Server
	REST string
}

func startLocalGateway(ctx context.Context, script string, errOut io.Writer) (*localGateway, error) {
	server, err := bench.Start(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	l := &localGateway{Server: server}
	if err := l.start(ctx, script, errOut); err != nil {
		l.Close()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	return l, nil
}

// start starts the gateway and waits until it has written its addresses.
func (l *localGateway) start(ctx context.Context, script string, errOut io.Writer) error {
	dir, err := os.MkdirTemp("", "tidegate-load-")
	if err != nil {
		return err
	}
	l.OnClose(func() { _ = os.RemoveAll(dir) })
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.Command(script, "-valkey", l.URL, "-data", l.Data, "-ready-file", ready,
		"-rest", "127.0.0.1:0", "-http", "127.0.0.1:0", "-admin", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "KEY_PEPPER="+bench.Pepper)
	cmd.Stderr = errOut
	gateway, err := process.Start(cmd)
	if err != nil {
		return err
	}
	l.OnClose(func() {
		gateway.Terminate(stopWait)
		gateway.Kill()
	})
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(ready); err == nil {
			return json.Unmarshal(text, l)
		}
		select {
		case <-gateway.Done():
			return errors.Join(errors.New("the gateway exited"), gateway.Err())
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
		calls, err := l.Calls(ctx, g.plan.Name, g.keys)
		if err != nil {
			return nil, err
		}
		for i, c := range calls {
			callers = append(callers, caller{name: fmt.Sprintf("%s %d", g.plan.Name, i+1),
				credential: c.Secret.Reveal(), plan: g.plan.Name, limits: g.plan.Limits})
		}
	}
	for i := range p.unregistered {
		// Only Valkey can refuse a well-formed key. Every second one is malformed.
		c := caller{name: fmt.Sprintf("unregistered %d", i+1), unregistered: true, credential: "tg_test"}
		if i%2 == 0 {
			secret, err := apikey.Generate("test")
			if err != nil {
				return nil, err
			}
			c.credential = secret.Reveal()
		}
		callers = append(callers, c)
	}
	return callers, nil
}
