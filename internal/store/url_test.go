package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
		{"valkeys://check:secret@a:1,b:2,c/?cluster=true", []string{"a:1", "b:2", "c:6379"}, "check",
			"secret", true, true},
		{"rediss://[::1]:6380?cluster=false", []string{"[::1]:6380"}, "", "", true, false},
		{"valkeys://check@a?cluster=true&iam=tidegate&region=eu-west-1&serverless=true", []string{"a:6379"},
			"check", "", true, true},
	} {
		o, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: got error %v", c.url, err)
			continue
		}
		if !slices.Equal(o.InitAddress, c.addresses) || o.Username != c.user || o.Password != c.password ||
			(o.TLSConfig != nil) != c.tls ||
			o.ForceSingleClient == c.cluster ||
			(o.AuthCredentialsFn != nil) != strings.Contains(c.url, "iam=") {
			t.Errorf("%s: got addresses %v, user %q, password %q, TLS %t, cluster %t, want %+v", c.url,
				o.InitAddress, o.Username, o.Password, o.TLSConfig != nil, !o.ForceSingleClient, c)
		}
		if o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify {
			t.Errorf("%s: TLS is not verified", c.url)
		}
	}
}

// The error for an invalid URL names the problem and never contains the password.
func TestInvalidURLs(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	for url, hint := range map[string]string{
		"":                                        "valkey://",
		"localhost:6379":                          "valkey://",
		"http://localhost":                        "valkey://",
		"valkey://":                               "host is missing",
		"valkey://user:hunter2@":                  "host is missing",
		"valkey://user:hunter2%@host":             "percent-encode",
		"valkey://user:hunter2@host/3":            "databases",
		"valkey://user:x/hunter2@host":            "percent-encode",
		"valkey://user:hunter2@host?tls=true":     `"tls"`,
		"valkey://user:hunter2@host?cluster=1":    "true or false",
		"valkey://host?cluster=true;iam=hunter2":  "cannot be read",
		"valkey://host?cluster=true&cluster=":     "more than once",
		"valkey://user@host?iam=cache&region=r":   "TLS",
		"valkeys://host?iam=cache&region=r":       "a user",
		"valkeys://u:hunter2@host?iam=c&region=r": "no password",
		"valkeys://user@host?iam=cache":           "AWS_REGION",
		"valkeys://user@host?iam=Cache&region=r":  "lower-case",
		"valkeys://user@host?iam=a/b&region=r":    "lower-case",
		"valkeys://user@host?iam=&region=r":       "iam must be a name",
		"valkeys://user@host?iam=c&region=":       "region must be a name",
		"valkeys://user@host?region=eu-west-1":    "iam=CACHE",
		"valkeys://user@host?serverless=true":     "iam=CACHE",
		"valkeys://user@host?iam=c&serverless=1":  "true or false",
	} {
		_, err := parse(url)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), hint) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got error %v, want ErrURL with %q and without the password", url, err, hint)
		}
	}
}

func TestClustered(t *testing.T) {
	for url, want := range map[string]bool{
		"valkey://a": false, "nothing": false, "valkey://a,b?cluster=true": true,
		"valkeys://u@a?cluster=true&iam=c&region=r": true,
	} {
		if Clustered(url) != want {
			t.Errorf("Clustered(%q) = %t, want %t", url, !want, want)
		}
	}
}
