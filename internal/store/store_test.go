package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// patient has timeouts for a machine that runs many tests at once.
var patient = Options{Dial: 5 * time.Second, Write: 10 * time.Second, Pooled: true}

func open(t *testing.T, url string, o Options) valkey.Client {
	t.Helper()
	client, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// run sends one command and returns its reply as text.
func run(t *testing.T, client valkey.Client, words ...string) string {
	t.Helper()
	message, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
	if text, err := message.ToString(); err == nil {
		return text
	}
	return message.String()
}

// The error of Open contains the address, but not the password.
func TestOpenUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	for _, option := range []string{"", "?cluster=true"} {
		for _, pooled := range []bool{false, true} {
			_, err = Open(t.Context(), "valkey://user:hunter2@"+address+option, Options{Pooled: pooled})
			if err == nil || !strings.Contains(err.Error(), address) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("pooled=%t%s: got error %v, want one with %s and without the password", pooled,
					option, err, address)
			}
		}
	}
}

// Open returns an error after its timeouts if the server accepts connections but never
// answers, even with a context that never ends.
func TestOpenSilentServer(t *testing.T) {
	silent := valkeytest.StartSilent(t)
	for _, pooled := range []bool{false, true} {
		_, err := Open(context.WithoutCancel(t.Context()), silent, Options{Pooled: pooled})
		if err == nil {
			t.Errorf("pooled=%t: got no error", pooled)
		}
	}
}

func TestOpenConnects(t *testing.T) {
	t.Parallel()
	single := valkeytest.StartWith(t, "--requirepass", "hunter2")
	urls := map[string]string{"password": strings.Replace(single, "://", "://default:hunter2@", 1)}
	if !testing.Short() {
		urls["cluster"] = valkeytest.StartCluster(t, 3, 0)[0] + "?cluster=true"
	}
	for name, url := range urls {
		for _, pooled := range []bool{false, true} {
			client := open(t, url, Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled})
			for _, key := range []string{"a", "b", "c"} { // one for each shard
				if err := client.Do(t.Context(),
					client.B().Set().Key(key).Value("1").Build()).Error(); err != nil {
					t.Errorf("%s: set %s: got error %v", name, key, err)
				}
			}
		}
	}
	for _, pooled := range []bool{false, true} {
		o := Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled}
		if _, err := Open(t.Context(), strings.Replace(single, "://", "://default:wrong@", 1),
			o); err == nil {
			t.Errorf("pooled=%t: wrong password: got no error", pooled)
		}
	}
}

// A client opens one connection to a single node, so that 1000 Lambda environments open
// no more than 1000 connections.
func TestOneConnection(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		client := open(t, valkeytest.Start(t),
			Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled})
		for range 10 {
			run(t, client, "INCR", "k")
		}
		if list := run(t, client, "CLIENT", "LIST"); strings.Count(list, "\n") != 1 {
			t.Errorf("pooled=%t: got connections\n%s\nwant one", pooled, list)
		}
	}
}

// The library does not retry a read-only command over a pooled connection until its
// context ends. Otherwise a probe would use up a check's time.
func TestReadRetriesAreBounded(t *testing.T) {
	client := open(t, valkeytest.Start(t), patient)
	// The connection ends with the server.
	_ = client.Do(t.Context(), client.B().Arbitrary("SHUTDOWN", "NOSAVE", "NOW").Build())
	if err := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error(); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("got error %v, want a refused connection", err)
	}
}

// The client gives up a call after a few redirections, so that nodes that redirect it to
// each other do not use up its time.
func TestRedirectionsAreBounded(t *testing.T) {
	t.Parallel()
	nodes := valkeytest.StartCluster(t, 3, 0)
	client := open(t, nodes[0]+"?cluster=true", patient)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := client.B().Eval().Script("return redis.error_reply('MOVED 1 ' .. ARGV[1])").Numkeys(1).Key("k").
		Arg(strings.TrimPrefix(nodes[1], "valkey://")).Build()
	err := client.Do(ctx, script).Error()
	if _, ok := errors.AsType[*missingError](err); !ok {
		t.Errorf("got error %v, want no connection to the last node", err)
	}
}

// startTLSProxy returns the address of a TLS proxy to the server at url, and the root
// certificates that verify it.
func startTLSProxy(t *testing.T, url string) (string, *x509.CertPool) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	return valkeytest.StartProxy(t, url, &tls.Config{Certificates: certified.TLS.Certificates}).Address(),
		roots
}

// The client connects only to a server whose certificate is valid for the server's name.
func TestTLSIsVerified(t *testing.T) {
	address, roots := startTLSProxy(t, valkeytest.Start(t))
	for _, c := range []struct {
		name  string
		roots *x509.CertPool
		host  string
		ok    bool
	}{
		{"valid", roots, "", true},
		{"unknown authority", nil, "", false},
		{"another name", roots, "valkey.invalid", false},
	} {
		for _, pooled := range []bool{false, true} {
			option, err := parse("valkeys://" + address)
			if err != nil {
				t.Fatal(err)
			}
			option.TLSConfig.RootCAs, option.TLSConfig.ServerName = c.roots, c.host
			o := Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled}
			client, err := o.connect(t.Context(), o.applied(option))
			if err == nil {
				client.Close()
			}
			var untrusted *tls.CertificateVerificationError
			if c.ok != (err == nil) || !c.ok && !errors.As(err, &untrusted) {
				t.Errorf("%s, pooled=%t: got error %v, want connected: %t", c.name, pooled, err, c.ok)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	embedded := miniredis.RunT(t)
	for _, url := range []string{valkeytest.Start(t), "valkey://" + embedded.Addr()} {
		client, err := Open(t.Context(), url, patient)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		got, err := Version(t.Context(), client)
		name, number, _ := strings.Cut(got, " ")
		if err != nil || name == "" || !strings.Contains(number, ".") {
			t.Errorf("%s: got %q, error %v, want a name and a version", url, got, err)
		}
	}
}
