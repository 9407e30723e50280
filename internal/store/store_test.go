package store

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/valkeytest"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url       string
		addresses []string
		user      string
		password  string
		tls       bool
		cluster   bool
	}{
		{"valkey://localhost", []string{"localhost:6379"}, "", "", false, false},
		{"redis://:p%40ss@10.0.0.1:7000", []string{"10.0.0.1:7000"}, "", "p@ss", false, false},
		{"valkeys://check:secret@a:1,b:2,c/?cluster=true", []string{"a:1", "b:2", "c:6379"}, "check", "secret", true, true},
		{"rediss://[::1]:6380?cluster=false", []string{"[::1]:6380"}, "", "", true, false},
	} {
		o, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if !slices.Equal(o.InitAddress, c.addresses) || o.Username != c.user || o.Password != c.password || (o.TLSConfig != nil) != c.tls ||
			o.ForceSingleClient == c.cluster {
			t.Errorf("%s: %v %q %q tls=%t single=%t", c.url, o.InitAddress, o.Username, o.Password, o.TLSConfig != nil, o.ForceSingleClient)
		}
		if o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify {
			t.Errorf("%s: TLS is not verified", c.url)
		}
	}
}

func TestBadURLsAreExplainedWithoutThePassword(t *testing.T) {
	for url, hint := range map[string]string{
		"":                                     "valkey://",
		"localhost:6379":                       "valkey://",
		"http://localhost":                     "valkey://",
		"valkey://":                            "host is missing",
		"valkey://user:hunter2@":               "host is missing",
		"valkey://user:hunter2%@host":          "percent-encode",
		"valkey://user:hunter2@host/3":         "databases",
		"valkey://user:x/hunter2@host":         "percent-encode",
		"valkey://user:hunter2@host?tls=true":  `"tls"`,
		"valkey://user:hunter2@host?cluster=1": "true or false",
	} {
		_, err := parse(url)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want a hint at %q and no password", url, err, hint)
		}
	}
}

func TestOpenNamesAnUnreachableAddress(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, err = Open(t.Context(), "valkey://user:hunter2@"+address, Options{})
	if err == nil || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}

func TestOpenConnects(t *testing.T) {
	patient := Options{Dial: 5 * time.Second, Write: 10 * time.Second}
	single := valkeytest.StartWith(t, "--requirepass", "hunter2")
	for name, url := range map[string]string{
		"password": strings.Replace(single, "://", "://default:hunter2@", 1),
		"cluster":  valkeytest.StartCluster(t, 3, 0)[0] + "?cluster=true",
	} {
		for _, pooled := range []bool{false, true} {
			patient.Pooled = pooled
			client, err := Open(t.Context(), url, patient)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, key := range []string{"a", "b", "c"} { // one for each shard
				if err := client.Do(t.Context(), client.B().Set().Key(key).Value("1").Build()).Error(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			client.Close()
		}
	}
	if _, err := Open(t.Context(), strings.Replace(single, "://", "://default:wrong@", 1), patient); err == nil {
		t.Error("a wrong password was accepted")
	}
}
