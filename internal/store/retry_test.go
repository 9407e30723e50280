package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var countScript = valkey.NewLuaScript("return redis.call('INCR', KEYS[1])")

// counter increments a key by a script, as a check does, and counts the calls of take.
type counter struct {
	client valkey.Client
	calls  int
}

func (c *counter) take(ctx context.Context) (int64, error) {
	c.calls++
	return countScript.Exec(ctx, c.client, []string{"k"}, nil).AsInt64()
}

// A temporary refusal of Valkey is retried once, a permanent one not at all.
func TestRetryAfterARefusal(t *testing.T) {
	url := valkeytest.Start(t)
	refuseFirst := valkey.NewLuaScript(
		"if redis.call('INCR', KEYS[1]) == 1 then return redis.error_reply(ARGV[1]) end return 'done'")
	for code, again := range map[string]bool{
		"TRYAGAIN": true, "CLUSTERDOWN": true, "LOADING": true, "MASTERDOWN": true,
		"ERR": false, "READONLY": false, "NOPERM": false, "OOM": false, "BUSY": false, "NOAUTH": false,
	} {
		client, calls := open(t, url, patient), 0
		_, err := Retry(t.Context(), func(ctx context.Context) (string, error) {
			calls++
			return refuseFirst.Exec(ctx, client, []string{code}, []string{code + " for this test"}).ToString()
		})
		if again != (err == nil) || again != (calls == 2) || !again &&
			!strings.HasSuffix(err.Error(), "for this test") {
			t.Errorf("%s: got %d calls, error %v, want a retry: %t", code, calls, err, again)
		}
	}
}

// While a slot moves to another node, a call is retried as long as its context allows.
func TestRetryWhileASlotMoves(t *testing.T) {
	client := open(t, valkeytest.Start(t), patient)
	refuse := valkey.NewLuaScript(
		"if redis.call('INCR', KEYS[1]) < 5 then return redis.error_reply('TRYAGAIN later') end return " +
			"'done'")
	if _, err := Retry(t.Context(), func(ctx context.Context) (string, error) {
		return refuse.Exec(ctx, client, []string{"k"}, nil).ToString()
	}); err != nil {
		t.Errorf("got error %v, want retries until success", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Retry(ctx, func(context.Context) (string, error) {
		return client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply('TRYAGAIN later')").
			Numkeys(0).Build()).ToString()
	})
	if !moving(err) {
		t.Errorf("got %v, want the refusal", err)
	}
}

// The refusal of a replica without its primary (MASTERDOWN) is retried.
func TestRetryOnAReplicaWithoutPrimary(t *testing.T) {
	url := valkeytest.Start(t)
	client := open(t, url, patient)
	run(t, client, "CONFIG", "SET", "replica-serve-stale-data", "no")
	run(t, client, "REPLICAOF", "127.0.0.1", "1")
	c := counter{client: client}
	if _, err := Retry(t.Context(), c.take); err == nil || !strings.HasPrefix(err.Error(), "MASTERDOWN") ||
		c.calls != 2 {
		t.Errorf("got %d calls, error %v, want 2 and MASTERDOWN", c.calls, err)
	}
}

// Other errors, timeouts included, are returned without a retry.
func TestNoRetryAfterOtherErrors(t *testing.T) {
	cause := errors.New("no decision")
	slowDial := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	for _, want := range []error{cause, context.Canceled, context.DeadlineExceeded, valkey.Nil, slowDial} {
		calls := 0
		_, err := Retry(t.Context(), func(context.Context) (int, error) { calls++; return 0, want })
		if !errors.Is(err, want) || calls != 1 {
			t.Errorf("got %d calls, error %v, want 1 and %v", calls, err, want)
		}
	}
}

// When connections are closed between calls, each call succeeds and counts once.
func TestRetryOverClosedConnections(t *testing.T) {
	url := valkeytest.Start(t)
	c, admin := counter{client: open(t, url, patient)}, open(t, url, patient)
	for i := int64(1); i <= 100; i++ {
		if n, err := Retry(t.Context(), c.take); err != nil || n != i {
			t.Fatalf("call %d: got count %d, error %v", i, n, err)
		}
		run(t, admin, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	if c.calls == 100 {
		t.Error("no call was retried, so the test did not cover closed connections")
	}
}

// When replies are lost after execution, a call counts at most twice, however many are
// lost.
func TestLostRepliesCountTwiceAtMost(t *testing.T) {
	for lost, want := range map[int]struct {
		answered bool
		counts   string
	}{1: {true, "2"}, 50: {false, "2"}} {
		url := valkeytest.Start(t)
		proxy := valkeytest.StartProxy(t, url, nil)
		c, admin := counter{client: open(t, proxy.URL(), patient)}, open(t, url, patient)
		if _, err := c.take(t.Context()); err != nil { // so that the server knows the script
			t.Fatal(err)
		}
		run(t, admin, "DEL", "k")
		proxy.DropReplies("EVALSHA", lost)
		_, err := Retry(t.Context(), c.take)
		if counts := run(t, admin, "GET", "k"); want.answered != (err == nil) || counts != want.counts {
			t.Errorf("%d lost: got count %s, error %v; want count %s, answered: %t", lost, counts, err,
				want.counts, want.answered)
		}
	}
}

// openWhenFast opens a client with short timeouts. It retries, because a busy machine may
// miss them.
func openWhenFast(t *testing.T, url string, o Options) (client valkey.Client) {
	t.Helper()
	waiting.Until(t, "the server answers in time", func() bool {
		var err error
		client, err = Open(t.Context(), url, o)
		return err == nil
	})
	t.Cleanup(client.Close)
	return client
}

// After a timeout a call is not retried, so that it counts at most once.
func TestNoRetryAfterATimeout(t *testing.T) {
	const short = 20 * time.Millisecond
	for name, limit := range map[string]struct{ write, deadline time.Duration }{
		"of the connection": {short, time.Minute},
		"of the context":    {time.Minute, short},
	} {
		url := valkeytest.Start(t)
		proxy := valkeytest.StartProxy(t, url, nil)
		c := counter{client: openWhenFast(t, proxy.URL(),
			Options{Dial: patient.Dial, Write: limit.write, Pooled: true})}
		proxy.Silence()
		ctx, cancel := context.WithTimeout(t.Context(), limit.deadline)
		_, err := Retry(ctx, c.take)
		cancel()
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || c.calls != 1 {
			t.Errorf("timeout %s: got %d calls, error %v, want 1 and a timeout", name, c.calls, err)
		}
	}
}

// While the server is down, a call fails at once after two attempts. The first call after
// its restart succeeds and counts once.
func TestRetryOverARestart(t *testing.T) {
	url := valkeytest.Start(t)
	c := counter{client: open(t, url, patient)}
	if err := c.client.Do(t.Context(),
		c.client.B().Arbitrary("SHUTDOWN", "NOSAVE", "NOW").Build()).Error(); err == nil {
		t.Fatal("the server did not end")
	}
	for range 2 { // over the old connection, and with none
		c.calls = 0
		if _, err := Retry(t.Context(), c.take); !errors.Is(err, syscall.ECONNREFUSED) || c.calls != 2 {
			t.Errorf("got %d calls, error %v, want 2 and a refused connection", c.calls, err)
		}
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "valkey://"))
	if err != nil {
		t.Fatal(err)
	}
	valkeytest.StartWith(t, "--port", port)
	if n, err := Retry(t.Context(), c.take); n != 1 || err != nil {
		t.Errorf("after the restart: got count %d, error %v, want 1", n, err)
	}
}

// Any refusal of the server means that Valkey is unavailable, also one without a code. An
// error about the keys of a call does not.
func TestUnavailable(t *testing.T) {
	client := open(t, valkeytest.Start(t), patient)
	reply := func(text string) string { return "return redis.error_reply('" + text + "')" }
	for script, unavailable := range map[string]bool{
		reply(OwnCode + " plan 3 does not exist"): false, reply("WRONGTYPE of value"): false,
		"error('not a program')": false, "return redis.call('INCRBY', 'text', 1)": false,
		"return redis.call('HGET', 'text', 'f')": false, "return 1 + nil": false,
		reply("OOM command not allowed"): true, reply("CLUSTERDOWN for now"): true,
		reply("LOADING data"): true, reply("NOAUTH yet"): true, reply("NOPERM for this"): true,
		reply("BUSY with a script"): true, reply("TRYAGAIN later"): true, reply("MASTERDOWN link"): true,
		reply("NOSCRIPT at all"): true, reply("MISCONF of disk"): true,
		reply("ERR max number of clients reached"):                       true,
		reply("ERR max number of clients + cluster connections reached"): true,
		reply("ERR unknown command EVALSHA, with args beginning with: "): true,
		reply("ERR upstream failure"):                                    true, reply("ERR"): true,
		reply("READONLY replica"): true, // ends the connection
	} {
		_ = client.Do(t.Context(), client.B().Set().Key("text").Value("x").Build())
		err := client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(0).Build()).Error()
		if got := Unavailable(fmt.Errorf("check: %w", err)); err == nil || got != unavailable {
			t.Errorf("Unavailable(%v) = %t, want %t", err, got, unavailable)
		}
	}
	missing := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error()
	if Unavailable(nil) || Unavailable(missing) || !Unavailable(errors.New("connection refused")) {
		t.Errorf("got %t for no error, %t for no value and %t for no connection, want false, false, true",
			Unavailable(nil), Unavailable(missing), Unavailable(errors.New("connection refused")))
	}
}

// After a failover, the former primary keeps its connections and refuses writes. The
// client leaves it after the first refusal, and the next call reaches the new primary.
func TestFailoverWithoutCluster(t *testing.T) {
	for _, pooled := range []bool{true, false} {
		options := patient
		options.Pooled = pooled
		former := valkeytest.StartWith(t, "--repl-diskless-sync-delay", "0")
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(former, "valkey://"))
		replica := valkeytest.StartWith(t, "--replicaof", "127.0.0.1 "+port)
		proxy := valkeytest.StartProxy(t, former, nil)
		c := counter{client: open(t, proxy.URL(), options)}
		if n, err := Retry(t.Context(), c.take); n != 1 || err != nil {
			t.Fatalf("before: got count %d, error %v, want 1", n, err)
		}
		admin := open(t, former, patient)
		waiting.Until(t, "the replica follows", func() bool {
			return strings.Contains(run(t, admin, "INFO", "replication"), "state=online")
		})
		run(t, admin, "FAILOVER")
		waiting.Until(t, "the failover", func() bool {
			return strings.Contains(run(t, admin, "INFO", "replication"), "role:slave")
		})
		proxy.Redirect(replica)
		if _, err := Retry(t.Context(), c.take); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Fatalf("pooled %t: got %v, want the refusal of the former primary", pooled, err)
		}
		if n, err := Retry(t.Context(), c.take); n != 2 || err != nil {
			t.Errorf("pooled %t: after the refusal: got count %d, error %v, want 2", pooled, n, err)
		}
	}
}
