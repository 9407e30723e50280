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

// slowly is for log-ins that take longer than a call waits for an answer.
func slowly(answer time.Duration) Options {
	return Options{Dial: waiting.Timeout, Write: answer, Pooled: true, SkipPing: true}
}

func get(ctx context.Context, client valkey.Client, key string) error {
	err := client.Do(ctx, client.B().Get().Key(key).Build()).Error()
	if valkey.IsValkeyNil(err) {
		return nil
	}
	return err
}

// A call that does not wait for a slow log-in leaves the connection to the next call.
func TestLogInGoesOnAfterTheCall(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	proxy.DelayFirstReplies(time.Second)
	client := open(t, proxy.URL(), slowly(waiting.Timeout))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := get(ctx, client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it logs in: %v", err)
	}
	if err := get(t.Context(), client, "k"); err != nil {
		t.Errorf("then: %v", err)
	}
	if n := proxy.Connections(); n != 1 {
		t.Errorf("%d connections, want the first call's alone", n)
	}
}

// The first call to each shard of a cluster waits for its log-in, and not within its time
// for answers.
func TestFirstCallToEachShard(t *testing.T) {
	t.Parallel()
	proxies := valkeytest.StartProxiedCluster(t, 3)
	for _, p := range proxies {
		p.DelayFirstReplies(2500 * time.Millisecond)
	}
	client := open(t, proxies[0].URL()+"?cluster=true", slowly(2*time.Second))
	var calls sync.WaitGroup
	for _, key := range []string{"a", "b", "c"} { // one for each shard
		calls.Go(func() {
			ctx, cancel := WithTimeouts(t.Context(), 2*time.Second, waiting.Timeout)
			defer cancel()
			if err := get(ctx, client, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	calls.Wait()
}

// One call waits for a silent server for as long as connecting may take. The next ones
// wait no longer than for an answer, with and without times of their own. Their time is
// not over then: the library asks for a cluster's topology only while it is not.
func TestOneCallWaitsInVain(t *testing.T) {
	t.Parallel()
	client := open(t, valkeytest.StartSilent(t), slowly(10*time.Millisecond))
	const connect = 2 * time.Second
	for i := range 5 {
		ctx, cancel := WithTimeouts(t.Context(), waiting.Timeout, connect)
		began := time.Now()
		err := get(ctx, client, "k")
		took, ended := time.Since(began), ctx.Err() != nil
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || (took >= connect) != (i == 0) || ended != (i == 0) {
			t.Errorf("call %d: %v after %s; its time is over: %t", i, err, took, ended)
		}
	}
	if err := get(t.Context(), client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline: %v", err)
	}
}

// After the wait was in vain the log-in goes on, and once it is through calls work again.
func TestConnectsAfterAWaitInVain(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	proxy.DelayFirstReplies(500 * time.Millisecond)
	client := open(t, proxy.URL(), slowly(5*time.Second))
	ctx, cancel := WithTimeouts(t.Context(), 5*time.Second, 10*time.Millisecond)
	defer cancel()
	if err := get(ctx, client, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while it logs in: %v", err)
	}
	waiting.Until(t, "a call with its time for answers alone is answered", func() bool {
		ctx, cancel := WithTimeouts(t.Context(), 50*time.Millisecond, 0)
		defer cancel()
		return get(ctx, client, "k") == nil
	})
	if n := proxy.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A connection that the other side closes is made anew, and the call waits for its
// log-in.
func TestReconnects(t *testing.T) {
	t.Parallel()
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	client := open(t, proxy.URL(), slowly(2*time.Second))
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

// Attempts that failed before a call needs a connection cost the call nothing: it makes
// its own.
func TestFailedPreparationsCostNoCall(t *testing.T) {
	t.Parallel()
	d := newDialer(valkey.ClientOption{
		Dialer: net.Dialer{Timeout: waiting.Timeout}, ConnWriteTimeout: waiting.Timeout,
	})
	t.Cleanup(d.close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close() // nobody listens there now
	d.prepare(address)
	d.prepare(address)
	for _, a := range d.nodes[address].idle {
		<-a.done
		if a.err == nil {
			t.Fatal("connected to nobody")
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

// Closing a client ends the attempts that nobody waits for.
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
		t.Fatal("the attempt goes on")
	}
	if a.err == nil {
		t.Error("connected to nobody")
	}
	if _, err := d.dial(t.Context(), address); err == nil {
		t.Error("connected after the end")
	}
}

// An attempt whose time passed in a freeze ends soon after it, whatever its own timer
// says.
func TestAttemptEndsAfterAFreeze(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelAfterFreeze(ctx, cancel, time.Nanosecond)
	if ctx.Err() == nil {
		t.Error("the attempt goes on")
	}
}

// A call may end when its connection is ready but not used yet. The library then closes
// the connection, and must not take the stored reply to the log-in for one to its own
// last command: it would end the process.
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
			t.Error("a call that had ended got a reply")
		}
		stop.Stop()
	}
	late.Store(false)
	waiting.Until(t, "a later call gets its reply", func() bool {
		return get(t.Context(), client, "k") == nil
	})
}
