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

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// patient is for a machine that runs many tests at once.
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

func TestOpenNamesAnUnreachableAddress(t *testing.T) {
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
				t.Errorf("pooled=%t%s: got %v, want an error that names %s", pooled, option, err, address)
			}
		}
	}
}

// A server that takes connections and says nothing holds Open up no longer than its
// time-outs, even with a context that never ends.
func TestOpenGivesUpOnASilentServer(t *testing.T) {
	silent := valkeytest.StartSilent(t)
	for _, pooled := range []bool{false, true} {
		_, err := Open(context.WithoutCancel(t.Context()), silent, Options{Pooled: pooled})
		if err == nil {
			t.Errorf("pooled=%t: connected to nobody", pooled)
		}
	}
}

func TestOpenConnects(t *testing.T) {
	t.Parallel()
	single := valkeytest.StartWith(t, "--requirepass", "hunter2")
	for name, url := range map[string]string{
		"password": strings.Replace(single, "://", "://default:hunter2@", 1),
		"cluster":  valkeytest.StartCluster(t, 3, 0)[0] + "?cluster=true",
	} {
		for _, pooled := range []bool{false, true} {
			client := open(t, url, Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled})
			for _, key := range []string{"a", "b", "c"} { // one for each shard
				if err := client.Do(t.Context(),
					client.B().Set().Key(key).Value("1").Build()).Error(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	for _, pooled := range []bool{false, true} {
		o := Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled}
		if _, err := Open(t.Context(), strings.Replace(single, "://", "://default:wrong@", 1),
			o); err == nil {
			t.Errorf("pooled=%t: a wrong password was accepted", pooled)
		}
	}
}

// A fleet of functions opens as many connections as it has environments: a thousand of
// them must not be several thousand.
func TestOneConnection(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		client := open(t, valkeytest.Start(t),
			Options{Dial: patient.Dial, Write: patient.Write, Pooled: pooled})
		for range 10 {
			run(t, client, "INCR", "k")
		}
		if list := run(t, client, "CLIENT", "LIST"); strings.Count(list, "\n") != 1 {
			t.Errorf("pooled=%t: want one connection, got\n%s", pooled, list)
		}
	}
}

// A read-only command over a pooled connection does not go on until its context ends, or
// a probe would use up a check's time.
func TestReadsGiveUpSoon(t *testing.T) {
	client := open(t, valkeytest.Start(t), patient)
	// The connection ends with the server.
	_ = client.Do(t.Context(), client.B().Arbitrary("SHUTDOWN", "NOSAVE", "NOW").Build())
	if err := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error(); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

// Nodes that send a call from one to the other get tired of it before the client's time
// is up.
func TestRedirectionsAreBounded(t *testing.T) {
	t.Parallel()
	nodes := valkeytest.StartCluster(t, 3, 0)
	client := open(t, nodes[0]+"?cluster=true", patient)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := client.B().Eval().Script("return redis.error_reply('MOVED 1 ' .. ARGV[1])").Numkeys(1).Key("k").
		Arg(strings.TrimPrefix(nodes[1], "valkey://")).Build()
	err := client.Do(ctx, script).Error()
	var refusal *valkey.ValkeyError
	if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Error(), "MOVED") {
		t.Errorf("got %v, want the last MOVED", err)
	}
}

// secured returns the address of a TLS proxy to the server at url, and the roots that
// vouch for it.
func secured(t *testing.T, url string) (string, *x509.CertPool) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	return valkeytest.StartProxy(t, url, &tls.Config{Certificates: certified.TLS.Certificates}).Address(),
		roots
}

// Only a server whose certificate is vouched for, for the name that was asked for, gets a
// password.
func TestTLSIsVerified(t *testing.T) {
	address, roots := secured(t, valkeytest.Start(t))
	for _, c := range []struct {
		name  string
		roots *x509.CertPool
		host  string
		ok    bool
	}{
		{"good", roots, "", true},
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
				t.Errorf("%s, pooled=%t: %v", c.name, pooled, err)
			}
		}
	}
}

// An unproven client opens whoever is there, and its first command fails as Open
// would have.
func TestSkipPing(t *testing.T) {
	o := patient
	o.SkipPing = true
	for url, want := range map[string]bool{valkeytest.Start(t): false, "valkey://127.0.0.1:1": true} {
		client, err := Open(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		err = client.Do(t.Context(), client.B().Get().Key("k").Build()).Error()
		if Unavailable(err) != want {
			t.Errorf("%s: %v; unavailable is to be %t", url, err, want)
		}
		client.Close()
	}
}

func TestVersion(t *testing.T) {
	client, err := Open(t.Context(), valkeytest.Start(t), patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	got, err := Version(t.Context(), client)
	if name, number, _ := strings.Cut(got, " "); err != nil || name == "" || !strings.Contains(number, ".") {
		t.Errorf("%q, %v", got, err)
	}
}
