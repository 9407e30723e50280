package valkeytest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

func connect(t *testing.T, url string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress:       []string{strings.TrimPrefix(url, "valkey://")},
		ForceSingleClient: true,
		DisableCache:      true,
	})
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(client.Close)
	return client
}

func ask(t *testing.T, client valkey.Client, words ...string) string {
	t.Helper()
	answer, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return answer
}

// The real and the embedded server work, and two of them do not share keys.
func TestStoresAreEmptyAndSeparate(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{"server": Start, "embedded": Embedded} {
		t.Run(name, func(t *testing.T) {
			first, second := connect(t, start(t)), connect(t, start(t))
			ask(t, first, "SET", "greeting", "hello")
			if got := ask(t, first, "GET", "greeting"); got != "hello" {
				t.Errorf("got %q, want hello", got)
			}
			if got, err := second.Do(t.Context(),
				second.B().Get().Key("greeting").Build()).ToString(); !valkey.IsValkeyNil(err) {
				t.Errorf("the other server has the key too: %q, %v", got, err)
			}
		})
	}
}

func TestStartWithPassesSettings(t *testing.T) {
	client := connect(t, StartWith(t, "--maxmemory", "3mb"))
	got, err := client.Do(t.Context(),
		client.B().ConfigGet().Parameter("maxmemory", "save", "appendonly").Build()).AsStrMap()
	if err != nil {
		t.Fatal(err)
	}
	if got["maxmemory"] != "3145728" || got["save"] != "" || got["appendonly"] != "no" {
		t.Errorf("got %v", got)
	}
}

// Every server ends with the test that started it.
func TestStartStopsWithTheTest(t *testing.T) {
	var address string
	t.Run("owner", func(t *testing.T) {
		address = strings.TrimPrefix(Start(t), "valkey://")
	})
	if connection, err := net.Dial("tcp", address); err == nil {
		connection.Close()
		t.Errorf("%s still answers", address)
	}
}

// tryLaunch returns an error if another process takes the free port before the server
// binds it.
func TestLaunchReportsATakenPort(t *testing.T) {
	binary := findServer(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	// The last of two settings with the same name counts.
	if _, err := tryLaunch(binary, t.TempDir(), []string{"--port", port}); err == nil ||
		!strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("got %v, want an error with what the server wrote", err)
	}
}

func TestRunGivesUp(t *testing.T) {
	_, err := run(exec.Command("sleep", "1000"), "ready", time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not ready within") {
		t.Errorf("got %v, want a timeout", err)
	}
	if _, err := run(exec.Command("/absent/server"), "ready", time.Minute); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
}

// recorder is a testing.TB that records why it was skipped or failed.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, arguments ...any) {
	r.skipped = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.failed = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

func TestMissingServerSkipsExceptInCI(t *testing.T) {
	for _, c := range []struct {
		ci    string
		fails bool
	}{{"", false}, {"false", false}, {"true", true}, {"1", true}} {
		t.Setenv("PATH", t.TempDir())
		t.Setenv("VALKEY_SERVER", "")
		t.Setenv("CI", c.ci)
		r := &recorder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Start(r)
		}()
		<-done
		message := r.skipped
		if c.fails {
			message = r.failed
		}
		if !strings.Contains(message, "install-test-tools") || (r.failed != "") != c.fails {
			t.Errorf("CI=%q: skipped %q, failed %q", c.ci, r.skipped, r.failed)
		}
	}
}

func TestNamedServerIsUsed(t *testing.T) {
	t.Setenv("VALKEY_SERVER", findServer(t))
	t.Setenv("PATH", t.TempDir())
	if got := ask(t, connect(t, Start(t)), "PING"); got != "PONG" {
		t.Errorf("got %q, want PONG", got)
	}
}

// parentVariable makes the test binary start a server and then kill itself.
const parentVariable = "VALKEYTEST_KILLED_PARENT"

func TestServerDiesWithAKilledTestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	if os.Getenv(parentVariable) != "" {
		fmt.Println(Start(t))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	findServer(t)
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	// The killed process cannot remove its temporary folder.
	parent.Env = append(os.Environ(), parentVariable+"=1", "TMPDIR="+t.TempDir())
	output, err := parent.Output()
	if err == nil {
		t.Fatal("the process was not killed")
	}
	url := strings.TrimSpace(string(output))
	if !strings.HasPrefix(url, "valkey://") {
		t.Fatalf("no server was started: %q", output)
	}
	awaitRefusal(t, strings.TrimPrefix(url, "valkey://"))
}

// awaitRefusal waits until a server refuses connections: the system kills it some time
// after its parent ends.
func awaitRefusal(t *testing.T, address string) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	for {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		connection.Close()
		select {
		case <-poll.C:
		case <-timer.C:
			t.Fatalf("%s still answers", address)
		}
	}
}
