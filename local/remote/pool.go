package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/local/lambda"
)

const (
	dialTimeout   = time.Second
	beginTimeout  = 10 * time.Second // for an environment to accept an invocation
	healthTimeout = time.Second
	pollEvery     = 100 * time.Millisecond
)

// Pool sends invocations to environments, one at a time to each. An invocation without a
// free environment waits for one until its context ends. If an environment does not start
// an invocation, because it is unreachable or draining, another one gets it. A started
// invocation is never repeated.
type Pool struct {
	client *http.Client
	free   chan string // base URLs of environments
	ready  atomic.Int64
	ctx    context.Context //nolint:containedctx // ends with Close
	close  context.CancelFunc
	tasks  sync.WaitGroup
}

// NewPool returns a Pool of the environments at these addresses, host:port. It uses each
// as soon as it is healthy.
func NewPool(addresses ...string) *Pool {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ExpectContinueTimeout: beginTimeout,
		MaxIdleConnsPerHost:   1,
	}
	p := &Pool{client: &http.Client{Transport: transport}, free: make(chan string, len(addresses))}
	p.ctx, p.close = context.WithCancel(context.Background())
	for _, address := range addresses {
		p.addWhenHealthy("http://" + address)
	}
	return p
}

// Close stops waiting for unhealthy environments. Running invocations continue.
func (p *Pool) Close() {
	p.close()
	p.tasks.Wait()
	p.client.CloseIdleConnections()
}

// Ready returns the number of healthy environments.
func (p *Pool) Ready() int { return int(p.ready.Load()) }

// Invoke runs the function once. Its errors are a *lambda.FunctionError, the context's,
// or those of the environment.
func (p *Pool) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	for {
		select {
		case environment := <-p.free:
			answer, err := p.place(ctx, environment, payload)
			if !errors.Is(err, errNotBegun) {
				return answer, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for an environment: %w", ctx.Err())
		}
	}
}

// errNotBegun means that the environment did not start the invocation, so Invoke tries
// another one.
var errNotBegun = errors.New("environment did not begin")

// place sends an invocation. An environment that answered is free again; otherwise place
// waits until it is healthy.
func (p *Pool) place(ctx context.Context, environment string, payload []byte) ([]byte, error) {
	r, err := p.send(ctx, environment, payload)
	if err != nil || r.status == http.StatusServiceUnavailable {
		p.ready.Add(-1)
		p.addWhenHealthy(environment)
		if err == nil {
			err = errNotBegun
		}
		return nil, err
	}
	p.free <- environment
	switch {
	case r.status != http.StatusOK:
		return nil, fmt.Errorf("environment %s: %d %s", environment, r.status, bytes.TrimSpace(r.body))
	case r.isError:
		return nil, reportedError(r.body)
	}
	return r.body, nil
}

func reportedError(payload []byte) error {
	var reported lambda.FunctionError
	if err := json.Unmarshal(payload, &reported); err != nil {
		return fmt.Errorf("decode a function's error: %w", err)
	}
	return &reported
}

// reply is an environment's response to an invocation.
type reply struct {
	status  int
	isError bool // body is an error that the function reported
	body    []byte
}

// send sends an invocation. It returns errNotBegun if only the header of the request was
// sent.
func (p *Pool) send(ctx context.Context, environment string, payload []byte) (reply, error) {
	var begun atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() {
		begun.Store(true)
	}})
	r, err := http.NewRequestWithContext(traced, http.MethodPost, environment+invocationPath,
		bytes.NewReader(payload))
	if err != nil {
		return reply{}, fmt.Errorf("environment %s: %w", environment, err)
	}
	r.Header.Set("Expect", "100-continue")
	response, err := p.client.Do(r)
	if err != nil {
		if !begun.Load() && ctx.Err() == nil {
			return reply{}, errNotBegun
		}
		return reply{}, fmt.Errorf("invoke: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, lambda.MaxPayload+1))
	if err != nil {
		return reply{}, fmt.Errorf("read the answer of %s: %w", environment, err)
	}
	return reply{response.StatusCode, response.Header.Get(functionError) != "", body}, nil
}

// addWhenHealthy marks an environment as free as soon as it is healthy.
func (p *Pool) addWhenHealthy(environment string) {
	p.tasks.Go(func() {
		poll := time.NewTicker(pollEvery)
		defer poll.Stop()
		for !p.healthy(environment) {
			select {
			case <-poll.C:
			case <-p.ctx.Done():
				return
			}
		}
		p.ready.Add(1)
		p.free <- environment
	})
}

func (p *Pool) healthy(environment string) bool {
	ctx, cancel := context.WithTimeout(p.ctx, healthTimeout)
	defer cancel()
	return Healthy(ctx, p.client, environment+healthPath) == nil
}

// Healthy returns nil when url answers 200.
func Healthy(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("health of %s: %s", url, response.Status)
	}
	return nil
}
