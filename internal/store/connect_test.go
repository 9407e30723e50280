package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// slowLogin returns options that allow log-ins to take longer than an answer may.
func slowLogin(answer time.Duration) Options {
	return Options{Dial: waiting.Timeout, Write: answer, Pooled: true}
}

// get reads a key that need not exist.
func get(ctx context.Context, client valkey.Client, key string) error {
	err := client.Do(ctx, client.B().Get().Key(key).Build()).Error()
	if valkey.IsValkeyNil(err) {
		return nil
	}
	return err
}

// A slow log-in continues after its call has timed out, and the next call uses the
// connection.
func TestLogInContinuesAfterCall(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), slowLogin(waiting.Timeout))
	proxy.DelayFirstReplies(time.Second)
	proxy.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := get(ctx, client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("during the log-in: got error %v, want the deadline", err)
	}
	if err := get(t.Context(), client, "k"); err != nil {
		t.Errorf("next call: got error %v", err)
	}
	if n := proxy.Connections(); n != 2 {
		t.Errorf("got %d connections, want the one that was cut and the first call's", n)
	}
}

// The first call to each shard of a cluster waits for the log-in. The wait does not count
// against its timeout for answers.
func TestFirstCallToEachShard(t *testing.T) {
	t.Parallel()
	proxies := valkeytest.StartProxiedCluster(t, 3)
	for _, p := range proxies {
		p.DelayFirstReplies(2500 * time.Millisecond)
	}
	client := open(t, proxies[0].URL()+"?cluster=true", slowLogin(2*time.Second))
	var calls sync.WaitGroup
	for _, key := range []string{"a", "b", "c"} { // one for each shard
		calls.Go(func() {
			ctx, cancel := WithTimeouts(t.Context(), 2*time.Second, waiting.Timeout)
			defer cancel()
			if err := get(ctx, client, key); err != nil {
				t.Errorf("get %s: got error %v", key, err)
			}
		})
	}
	calls.Wait()
}

// Only one call waits for a silent server until its timeout for connecting. Later ones
// wait at most the timeout for answers, with and without WithTimeouts.
func TestOneCallWaitsForSilentServer(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), slowLogin(500*time.Millisecond))
	proxy.DelayFirstReplies(time.Hour)
	proxy.Cut()
	const connect = 2 * time.Second
	for i := range 5 {
		ctx, cancel := WithTimeouts(t.Context(), waiting.Timeout, connect)
		start := time.Now()
		err := get(ctx, client, "k")
		took := time.Since(start)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || (took >= connect) != (i == 0) {
			t.Errorf("call %d: got error %v after %s; want a long wait for call 0 only", i, err, took)
		}
	}
	if err := get(t.Context(), client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline: got error %v, want the deadline of the answer", err)
	}
}

// After a call waited without success, the log-in continues. When it succeeds, calls work
// again.
func TestConnectsAfterTimeout(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), slowLogin(5*time.Second))
	proxy.DelayFirstReplies(500 * time.Millisecond)
	proxy.Cut()
	ctx, cancel := WithTimeouts(t.Context(), 5*time.Second, 10*time.Millisecond)
	defer cancel()
	if err := get(ctx, client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("during the log-in: got error %v, want the deadline", err)
	}
	waiting.Until(t, "a call without time for connecting is answered", func() bool {
		ctx, cancel := WithTimeouts(t.Context(), 50*time.Millisecond, 0)
		defer cancel()
		return get(ctx, client, "k") == nil
	})
	if n := proxy.Connections(); n != 2 {
		t.Errorf("got %d connections, want 2", n)
	}
}

// After the server closed the connection, a call makes a new one and waits for its
// log-in.
func TestReconnects(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), slowLogin(2*time.Second))
	for range 2 {
		ctx, cancel := WithTimeouts(t.Context(), 2*time.Second, waiting.Timeout)
		if err := get(ctx, client, "k"); err != nil {
			t.Error(err)
		}
		cancel()
		proxy.DelayFirstReplies(2500 * time.Millisecond)
		proxy.Cut()
	}
}

// Close ends an attempt that no call waits for.
func TestCloseEndsAttempts(t *testing.T) {
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	opened, err := Open(t.Context(), proxy.URL(), slowLogin(waiting.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := opened.(*client)
	if !ok {
		t.Fatalf("got %T", opened)
	}
	proxy.DelayFirstReplies(waiting.Timeout)
	a, _ := c.begin(proxy.Address())
	c.Close()
	select {
	case <-a.done:
	case <-time.After(waiting.Timeout / 2):
		t.Fatal("the attempt did not end")
	}
	if a.err == nil {
		t.Error("attempt: got no error")
	}
}

// A call does not wait for an attempt whose time has passed by the wall clock, although
// its timer has not fired. Its end does not make the node unavailable.
func TestAttemptEndsAfterAFreeze(t *testing.T) {
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	c, ok := open(t, proxy.URL(), slowLogin(waiting.Timeout)).(*client)
	if !ok {
		t.Fatal("got another type of client")
	}
	proxy.DelayFirstReplies(time.Hour)
	proxy.Cut()
	address := proxy.Address()
	waiting.Until(t, "the connection is lost", func() bool {
		ctx, cancel := WithTimeouts(t.Context(), waiting.Timeout, 0)
		defer cancel()
		return get(ctx, c, "k") != nil && len(c.node(address).idle) == 1
	})
	frozen := c.node(address).idle[0]
	frozen.began = frozen.began.Add(-2 * waiting.Timeout)
	proxy.DelayFirstReplies(0)
	c.setUnavailable(address, false)
	if err := get(t.Context(), c, "k"); err != nil {
		t.Errorf("after the freeze: got error %v", err)
	}
	proxy.Cut()
	<-frozen.done
	if c.unavailable(address) {
		t.Error("the end of the attempt made the node unavailable")
	}
}

// A call reaches a node that it is redirected to and that is not in the topology, such as
// a cluster's configuration endpoint.
func TestRedirectionOutOfTheTopology(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.StartCluster(t, 3, 0)[0], nil)
	client := open(t, proxy.URL()+"?cluster=true", patient)
	redirect := valkey.NewLuaScript(
		"if redis.call('INCR', KEYS[1]) == 1 then return redis.error_reply(ARGV[1]) end return 'done'")
	before := proxy.Connections()
	for _, key := range []string{"a", "b", "c"} { // one for each shard
		if err := redirect.Exec(t.Context(), client, []string{key},
			[]string{"MOVED 1 " + proxy.Address()}).Error(); err != nil {
			t.Errorf("redirected %s: got error %v", key, err)
		}
	}
	if proxy.Connections() == before {
		t.Error("no call connected to the node that it was redirected to")
	}
}

// Many calls at once all get a connection.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), patient)
	var calls sync.WaitGroup
	for range 500 {
		calls.Go(func() {
			if err := get(t.Context(), client, "k"); err != nil {
				t.Errorf("got error %v", err)
			}
		})
	}
	calls.Wait()
}
