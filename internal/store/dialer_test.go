package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// slowLogin returns options that allow log-ins to take longer than an answer.
func slowLogin(answer time.Duration) Options {
	return Options{Dial: waiting.Timeout, Write: answer, Pooled: true, SkipPing: true}
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
	proxy.DelayFirstReplies(time.Second)
	client := open(t, proxy.URL(), slowLogin(waiting.Timeout))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := get(ctx, client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("during the log-in: got error %v, want the deadline", err)
	}
	if err := get(t.Context(), client, "k"); err != nil {
		t.Errorf("next call: got error %v", err)
	}
	if n := proxy.Connections(); n != 1 {
		t.Errorf("got %d connections, want only the first call's", n)
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
// wait at most the timeout for answers, with and without WithTimeouts. Their contexts
// have not ended then, because the library gets a cluster's topology only in such a case.
func TestOneCallWaitsForSilentServer(t *testing.T) {
	t.Parallel()
	client := open(t, valkeytest.StartSilent(t), slowLogin(10*time.Millisecond))
	const connect = 2 * time.Second
	for i := range 5 {
		ctx, cancel := WithTimeouts(t.Context(), waiting.Timeout, connect)
		start := time.Now()
		err := get(ctx, client, "k")
		took, ended := time.Since(start), ctx.Err() != nil
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || (took >= connect) != (i == 0) || ended != (i == 0) {
			t.Errorf("call %d: got error %v after %s, context ended: %t; want a long wait and an ended "+
				"context for call 0 only", i, err, took, ended)
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
	proxy.DelayFirstReplies(500 * time.Millisecond)
	client := open(t, proxy.URL(), slowLogin(5*time.Second))
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
	if n := proxy.Connections(); n != 1 {
		t.Errorf("got %d connections, want 1", n)
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

// A call whose prepared attempts have failed connects by itself.
func TestFailedPreparedAttempts(t *testing.T) {
	t.Parallel()
	d := newDialer(valkey.ClientOption{
		Dialer: net.Dialer{Timeout: waiting.Timeout}, ConnWriteTimeout: waiting.Timeout,
	})
	t.Cleanup(d.close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // nothing listens there now
	d.prepare(address)
	d.prepare(address)
	for _, a := range d.nodes[address].idle {
		<-a.done
		if a.err == nil {
			t.Fatal("connected without a server")
		}
	}
	_, port, _ := net.SplitHostPort(address)
	valkeytest.StartWith(t, "--port", port)
	c, err := d.dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// close ends attempts that no call waits for.
func TestCloseEndsAttempts(t *testing.T) {
	d := newDialer(valkey.ClientOption{
		Dialer: net.Dialer{Timeout: waiting.Timeout}, ConnWriteTimeout: time.Second,
	})
	address := strings.TrimPrefix(valkeytest.StartSilent(t), "valkey://")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.dial(ctx, address); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	a := d.nodes[address].idle[0]
	d.close()
	select {
	case <-a.done:
	case <-time.After(waiting.Timeout):
		t.Fatal("the attempt did not end")
	}
	if a.err == nil {
		t.Error("attempt: got no error")
	}
	if _, err := d.dial(t.Context(), address); err == nil {
		t.Error("dial after close: got no error")
	}
}

// An attempt whose time has passed by the wall clock is cancelled, although its timer has
// not fired.
func TestAttemptEndsAfterAFreeze(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelAfterFreeze(ctx, cancel, time.Nanosecond)
	if ctx.Err() == nil {
		t.Error("the attempt was not cancelled")
	}
}

// A call may end when its connection is ready but not used yet. The library then closes
// the connection with a last command. It must not read the stored reply to the log-in as
// the reply to that command, because it would panic.
func TestCallEndsBeforeTheLibraryLogsIn(t *testing.T) {
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	option, err := parse(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	option = Options{Dial: waiting.Timeout, Write: waiting.Timeout}.applied(option)
	d := newDialer(option)
	t.Cleanup(d.close)
	var late atomic.Bool
	option.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer,
		_ *tls.Config) (net.Conn, error) {
		c, err := d.dial(context.WithoutCancel(ctx), address)
		if late.Load() {
			<-ctx.Done()
		}
		return c, err
	}
	client, err := valkey.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	late.Store(true)
	proxy.Cut()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Millisecond, cancel)
		if err := get(ctx, client, "k"); err == nil {
			t.Error("ended call: got a reply, want an error")
		}
		stop.Stop()
	}
	late.Store(false)
	waiting.Until(t, "a later call gets its reply", func() bool {
		return get(t.Context(), client, "k") == nil
	})
}
