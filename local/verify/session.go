package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 35 * time.Second // longer than every timeout of API Gateway
	maxAnswer   = 1 << 20
)

// session makes the calls of one run. Its fields are set before the first call.
type session struct {
	options
	local  bool // every URL is of this machine, where API Gateway's own quotas do not exist
	client *http.Client
	aws    awsCommand // nil without the AWS CLI or a stack
	now    func() time.Time
	sleep  func(context.Context, time.Duration) // returns early when the context ends
	began  time.Time
	calls  atomic.Int64
	quota  quota
	used   int             // calls with the key since the last pause of a window
	cached map[string]bool // URLs of APIs whose answers are cached
	keyID  string
}

func newSession(o options, aws awsCommand) *session {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		transport = &http.Transport{}
	}
	transport = transport.Clone()
	transport.DisableCompression = true // keeps answers as they were sent
	transport.MaxIdleConnsPerHost = burstWorkers
	s := &session{
		options: o,
		local:   isLocal(o.rest) && isLocal(o.http) && isLocal(o.dashboard),
		client: &http.Client{
			Transport:     transport,
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: time.Now, sleep: pause, began: time.Now(), quota: defaultQuota, cached: map[string]bool{},
	}
	if o.stack != "" {
		s.aws = aws
	}
	return s
}

func (s *session) close() { s.client.CloseIdleConnections() }

// isLocal reports whether a URL is of this machine. An empty URL is.
func isLocal(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// call is a request to make.
type call struct {
	method, url string
	header      map[string]string
	body        string
}

func (s *session) get(ctx context.Context, url string) answer { return s.do(ctx, call{url: url}) }

// withKey makes a GET with the key, as a script of another site does. Its calls count in
// makeRoom.
func (s *session) withKey(ctx context.Context, url string) answer {
	return s.do(ctx, call{url: url, header: map[string]string{"X-Api-Key": s.key, "Origin": someOrigin}})
}

// do makes a call. It follows no redirect and does not retry.
func (s *session) do(ctx context.Context, c call) answer {
	if c.method == "" {
		c.method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, c.method, c.url, strings.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("User-Agent", "tidegate-verify")
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	s.calls.Add(1)
	began := s.now()
	response, err := s.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{status: response.StatusCode, header: response.Header, body: string(body),
		took: s.now().Sub(began), err: err}
}
